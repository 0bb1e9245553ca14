/* Schedules of a few operations: right ones, and one with each kind of defect. */
#ifndef CHECK_SAMPLES_H
#define CHECK_SAMPLES_H

#include <stddef.h>

#include <peal/algo.h>

/* What each rank does is written by a function of its own. */
typedef struct sample {
    const char *name;
    peal_kind kind;
    int n, root;
    void (*build)(peal_sched *s, const peal_problem *p, int rank);
    peal_bill bill;
    const char *why; /* part of the counterexample; NULL: right */
    int in_rank_order;
} sample;

extern const sample samples[]; /* the first: copy, send, recv, reduce */
extern const size_t nsamples;

#endif
