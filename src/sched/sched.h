/*
 * A schedule as it lies in memory, and its making. algo.h says what it means.
 */
#ifndef PEALI_SCHED_H
#define PEALI_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include <peal/algo.h>

enum peali_verb { PEALI_SEND, PEALI_RECV, PEALI_COPY, PEALI_REDUCE };

/*
 * One operation on blocks [first, end). dst and src are PEAL_BUF_*; unused ones are -1. A range that wraps became two operations;
 * slot i of scratch is buffer PEAL_BUF_TMP + 2*i, or + 2*i + 1 for the part after the wrap.
 */
typedef struct peali_op {
    uint8_t verb;
    uint8_t lane;
    int16_t dst, src;
    int32_t peer; /* send, recv; else -1 */
    int32_t first, end;
} peali_op;

struct peal_sched {
    peali_op *ops;
    int32_t nops, cap;
    int32_t rank, nranks;
    int32_t nblocks; /* B, 0 before peal_blocks */
    int32_t nbufs;   /* PEAL_BUF_TMP + scratch buffers in use */
    int32_t nlanes;
    peal_status error;
    char why[160]; /* the first bad argument, with its place */

    /* where the algorithm at work stands in the whole: composition */
    struct peali_view {
        const int *ranks;
        int32_t nranks, rank, parts, slot, lane, lane_now;
        int32_t first, count, units; /* its blocks; UNITS equal divisions of them, none of which a part cuts */
        int16_t in;
        int16_t depth; /* of calls within calls */
        bool set; /* peal_blocks was called */
    } view;
};

/*
 * Builds what RANK does: *OUT is freed with peali_sched_free.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID the algorithm gave a bad argument (logged with its place); PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_sched_build(const peal_algo *algo, const peal_problem *problem, int rank, peal_sched **out);
void peali_sched_free(peal_sched **sched);

/* Appends OP to SCHED, whose numbers of buffers and lanes take it in. PEAL_OK; PEAL_ERR_MEMORY. Threads: one per SCHED. */
PEAL_MUST_CHECK peal_status peali_sched_add(peal_sched *sched, peali_op op);

/*
 * The inferred order: operation i waits for from[start[i]] .. from[start[i+1]-1], all below i. Two operations are ordered exactly
 * when they touch a common piece and one writes it; IN and OUT count as one buffer. Implied edges may be left out.
 */
typedef struct peali_order {
    int32_t nops;
    int32_t *start;
    int32_t *from;
} peali_order;

PEAL_MUST_CHECK peal_status peali_order_infer(const peal_sched *sched, peali_order *order);
void peali_order_free(peali_order *order);

/* All algorithms, NULL at the end; generated from src/algos/meson.build. */
extern const peal_algo *const peali_algos[];

/* The algorithm of KIND named NAME, or NULL. */
const peal_algo *peali_algo_find(peal_kind kind, const char *name);

/* True where ALGO can do PROBLEM. */
bool peali_algo_fits(const peal_algo *algo, const peal_problem *problem);

#endif
