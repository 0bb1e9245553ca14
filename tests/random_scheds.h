/*
 * Random legal schedules, for what must hold for any schedule: every rank copies IN to OUT and then does what comes, over OUT and
 * scratch, with messages that are received some time after they were sent. One world at a time: it is what the algorithm builds.
 */
#ifndef RANDOM_SCHEDS_H
#define RANDOM_SCHEDS_H

#include <peal/algo.h>

enum { RANDOM_RANKS = 8 };

/* Makes the schedules of SEED for N ranks; then random_algo builds them, for a problem of the kind allreduce. */
void random_scheds_make(unsigned seed, int n);
extern const peal_algo random_algo;

#endif
