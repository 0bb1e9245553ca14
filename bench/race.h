/*
 * The race: every variant in turn on the same buffers, each call timed on data that its owner has just written, verified at once.
 */
#ifndef PEALI_RACE_H
#define PEALI_RACE_H

#include "flags.h"
#include "team.h"

/* One that runs: an algorithm of Peal, Peal's own choice, or the peer. */
typedef struct peali_runner {
    const char *impl;    /* "peal", or the peer's name */
    const char *variant; /* algorithm, "auto", or "default" for the peer */
    bool peal;
} peali_runner;

/* Times are those of the slowest rank in each call, in microseconds; bandwidths in GB/s, of the median. */
typedef struct peali_row {
    size_t bytes, count;
    peal_type type;
    peal_op op;
    bool inplace;
    const char *impl, *variant;
    bool chosen; /* what Peal would take by itself */
    int samples;
    double min_us, median_us, p99_us, algbw, busbw;
    double wrong;  /* elements over all calls, the most on any rank; ranks whose bits differ add 1 a call */
    bool verified; /* checked, and none wrong */
} peali_row;

enum { PEALI_RUNNERS = 32 };

typedef struct peali_race {
    const peali_flags *flags;
    peali_team *team;
    peali_runner runners[PEALI_RUNNERS];
    int nrunners;
    peali_row *rows;
    int nrows;
} peali_race;

/* Runs all that the flags ask for; rank 0's PRINT sees each row as it comes. 0; 1 where a result was wrong. */
int peali_race_run(peali_race *race, void (*print)(const peali_race *race, const peali_row *row));
void peali_race_end(peali_race *race);

#endif
