/*
 * The race: every variant in turn on the same buffers, each call timed on data that its owner has just written, verified at once.
 */
#ifndef PEALI_RACE_H
#define PEALI_RACE_H

#include "flags.h"
#include "study/cost.h"
#include "team.h"

/* One that runs: an algorithm of Peal, Peal's own choice, or the peer. */
typedef struct peali_runner {
    const char *impl;    /* "peal", or the peer's name */
    const char *variant; /* algorithm, "auto", or "default" for the peer */
    bool peal;
    size_t slice_bytes; /* forced; 0: Peal's choice */
} peali_runner;

/* Times are those of the slowest rank in each call, in microseconds; bandwidths in GB/s, of the median. */
typedef struct peali_row {
    size_t bytes; /* of the vector; allgather, reduce-scatter: of all ranks together */
    size_t count;
    peal_type type;
    peal_op op;
    bool inplace;
    const char *impl, *variant;
    bool chosen; /* what Peal would take by itself */
    int samples;
    double min_us, median_us, p99_us, algbw, busbw;
    double predicted_us; /* by the cost model, from figures that did not come from this race; 0: not a schedule of Peal */
    double wrong;  /* elements over all calls, the most on any rank; ranks whose bits differ add 1 a call */
    bool verified; /* checked, and none wrong */
} peali_row;

enum { PEALI_RUNNERS = 64 };

typedef struct peali_race {
    const peali_flags *flags;
    peali_team *team;
    peali_runner runners[PEALI_RUNNERS];
    int nrunners;
    peali_row *rows;
    int nrows;
    peali_cost_params cost; /* of this machine, measured before the race */
} peali_race;

/*
 * Latency, bandwidth and speed of sums between neighbours, by ping-pong and exchange over communicators of two ranks, all pairs at
 * once; the slowest pair's. Collective.
 */
void peali_measure(peali_team *team, peali_cost_params *params);

/* Runs all that the flags ask for; rank 0's PRINT sees each row as it comes. 0; 1 where a result was wrong. */
int peali_race_run(peali_race *race, void (*print)(const peali_race *race, const peali_row *row));
void peali_race_end(peali_race *race);

/* One more runner; ends all ranks where there is no room. */
void peali_race_enter(peali_race *race, peali_runner runner);

/* The runners that were entered, on BYTES of floats. ROWS has one for each, the same on all ranks, and nothing is printed. */
void peali_race_heat(peali_race *race, size_t bytes);

#endif
