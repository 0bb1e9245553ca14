/*
 * Ranks that start a call together, at a time that they have agreed on. They leave a barrier one after another, between hosts many
 * microseconds apart, and the time of the slowest rank would have that in it (Hunold and Carpen-Amarie, "Reproducible MPI
 * benchmarking is still not as easy as you think", 2016).
 */
#ifndef PEALI_START_H
#define PEALI_START_H

#include <stdint.h>

#include "team.h"

typedef struct peali_start {
    int64_t ahead; /* how many nanoseconds rank 0's clock is ahead of this rank's */
    int64_t lead;  /* and how many lie between the agreement and the start */
    double known;  /* since when, by rank 0's clock: clocks drift apart. 0: not yet */
} peali_start;

/*
 * Collective. Returns at the time to start, and with it, by this rank's clock: a rank that comes late has lost time, as it should.
 * START is all zeros before its first use.
 */
int64_t peali_start_wait(peali_start *start, peali_team *team);

#endif
