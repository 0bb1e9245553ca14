/*
 * The race on GPUs: Peal's calls and NCCL's in turns on the same data, called and replayed. Every turn works on data that a copy
 * has just written, its outputs were spoilt before, and all of its results are compared where they lie before the next turn.
 */
#ifndef PEALI_RACE_GPU_H
#define PEALI_RACE_GPU_H

#include "nccl.h"
#include "race.h"

typedef struct peali_gpu_race peali_gpu_race;

/*
 * Opens this rank's side on DEVICE: memory, NCCL (NULL: none is raced) and its registrations, the links' measure. GPU gets what it
 * ran on, and is RACE's. What fails ends all ranks. Collective.
 */
peali_gpu_race *peali_gpu_race_open(peali_race *race, int device, const peali_nccl *nccl, peali_race_gpu *gpu);

/* As peali_race_run. */
int peali_gpu_race_run(peali_gpu_race *g, void (*print)(const peali_race *race, const peali_row *row));
void peali_gpu_race_close(peali_gpu_race **g);

#endif
