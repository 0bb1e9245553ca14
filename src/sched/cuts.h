/*
 * Cut points: the block numbers at which some range of some schedule begins or ends. Between two neighbours lies a piece, which is
 * always touched whole.
 */
#ifndef PEALI_CUTS_H
#define PEALI_CUTS_H

#include "sched/sched.h"

typedef struct peali_cuts {
    int32_t n;      /* cuts; pieces are one fewer */
    int32_t *at;    /* block numbers, ascending */
    int32_t *index; /* block number -> cut where blocks are few beside operations; else NULL */
} peali_cuts;

/* The cuts of all operations of N schedules, and block 0. PEAL_OK or PEAL_ERR_MEMORY, with *CUTS empty. */
PEAL_MUST_CHECK peal_status peali_cuts_make(const peal_sched *const *scheds, int n, peali_cuts *cuts);
void peali_cuts_free(peali_cuts *cuts);

/* The number of the cut at BLOCK, which is one. */
int32_t peali_cuts_find(const peali_cuts *cuts, int32_t block);

#endif
