/* What a sweep found, and its way into a tuning table. */
#ifndef PEALI_TUNE_H
#define PEALI_TUNE_H

#include <stdio.h>

#include "race.h"
#include "sched/tuning.h"

/* An algorithm in slices; the algorithm is NULL where none ran well. */
typedef struct peali_tune_pick {
    const peal_algo *algo;
    size_t slice_bytes; /* 0: one slice */
    double us;
} peali_tune_pick;

/* The best of one size, and the best of those without levels, which serve ranks on one node. */
typedef struct peali_tune_step {
    size_t bytes;
    peali_tune_pick best, flat;
} peali_tune_step;

enum { PEALI_TUNE_STEPS = 64 };

/* Do they take the same? */
bool peali_tune_same(const peali_tune_step *a, const peali_tune_step *b);

typedef struct peali_tune_result {
    int nsteps[PEALI_TUNING_KINDS]; /* 0: that collective was not tuned */
    peali_tune_step steps[PEALI_TUNING_KINDS][PEALI_TUNE_STEPS];
    const peali_team *team;
    const char *transport;
    int ranks; /* or hosts */
    double factor; /* between sizes */
} peali_tune_result;

/* Writes the rows of RESULT to TO. */
void peali_tune_print(const peali_tune_result *result, FILE *to);

/* Puts them into FILE, in place of rows of the same collectives, transport and ranks; false where that failed (printed). */
bool peali_tune_may_merge(const char *file); /* as far as can be told before there are rows */
bool peali_tune_merge(const peali_tune_result *result, const char *file);

#endif
