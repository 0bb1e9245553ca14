/*
 * GPUs for tests: each rank is a thread with scratch of its own, and its kernels are emulated. A team makes calls in a row, as a
 * communicator does, and every result is compared with what the CPU's reductions make of all inputs.
 */
#ifndef GPUS_H
#define GPUS_H

#include "cuda/load.h"

enum { GPUS_MOST = 9 };

/* One call of all ranks. */
typedef struct gpus_call {
    const peal_algo *algo;
    peali_cuda_job job;
    uint32_t seed;      /* of the inputs */
    unsigned in_shift, out_shift; /* bytes that buffers begin behind a multiple of 16 */
    int in_place;
    int pairs;          /* inputs are bytes, of rank 0 each 256 times and of the others all 256 in a row: all pairs */
    unsigned threads;   /* of a block; 0: as the launcher chooses */
    int slow;           /* 1 + the rank that is late, or 0 */
    int direct;         /* bulk: all ranks' buffers are mapped (1), or those of one are not (2) */
    int wide;           /* direct: with as many CTAs as there are lanes, of which some have no areas */
} gpus_call;

typedef struct gpus gpus;

/* N ranks with SCRATCH bytes each. */
gpus *gpus_create(int n, size_t scratch);
void gpus_destroy(gpus **g);

/* As after so many slices and calls: the counters of all lanes begin there. */
void gpus_wind(gpus *g, uint32_t epoch);

/* Each wait ends after so long; 0: never. */
void gpus_deadline(gpus *g, uint64_t ns);

/*
 * Makes the calls in a row on all ranks, some of which are slow now and then. OTHER (NULL: CALLS) are those of rank STRANGER;
 * `algo` NULL in one: that rank does not call. The number of results that were wrong on any rank: said on stderr. Calls that a
 * launch cannot take are left out by all, and counted in *LEFT_OUT (may be NULL).
 */
int gpus_run(gpus *g, const gpus_call *calls, int ncalls, const gpus_call *other, int stranger, int *left_out);

/* Calls so far that were done where buffers lie. */
int gpus_direct(const gpus *g);

/* Stops all ranks after so long in gpus_run; 0: never. */
void gpus_abort_after(gpus *g, uint64_t ns);

/* As if another launch of each rank gave up so long after gpus_run began; 0: none does. */
void gpus_give_up_after(gpus *g, uint64_t ns);

const peali_cuda_layout *gpus_layout(const gpus *g);
unsigned char *gpus_scratch(const gpus *g, int rank);

/* What rank RANK's kernels reported. */
const peali_cuda_report *gpus_report(const gpus *g, int rank);

#endif
