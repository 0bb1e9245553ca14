/* The part of peal bench that is for GPUs. */
#ifndef PEALI_CMD_BENCH_GPU_H
#define PEALI_CMD_BENCH_GPU_H

#include "report.h"

/*
 * True where a race on GPUs cannot be had; WHY, of SIZE, then says what is missing and what to do. Threads: one, before there are
 * ranks.
 */
bool peali_bench_gpu_missing(const peali_flags *flags, char *why, size_t size);

/* The race of one rank; the exit code. */
int peali_bench_gpu_run(peali_race *race, const peali_origin *host);

#endif
