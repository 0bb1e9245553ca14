/*
 * Proofs about schedules: that the schedules of all ranks of a problem give the right values, come to an end, leave no two
 * accesses unordered, cost what the algorithm's bill says, and sum in one order on every rank.
 *
 * A proof holds for every size, type and slice, for IN and OUT apart and for IN aliased with OUT on any of the ranks. Up to
 * PEALI_CHECK_EXACT ranks values are exact sets of contributing ranks; beyond it they are random-weight fingerprints modulo
 * 2^61-1, which a wrong schedule passes with a chance below 2^-50.
 */
#ifndef PEALI_CHECK_H
#define PEALI_CHECK_H

#include <stdio.h>

#include "sched/sched.h"

enum { PEALI_CHECK_EXACT = 64 };

/* What was to be proved. */
typedef struct peali_check_case {
    const peal_algo *algo;
    const peal_problem *problem;
    const peal_sched *const *sched; /* of each rank */
    const peali_order *order;       /* of each rank */
} peali_check_case;

typedef struct peali_check_report {
    peal_bill found; /* what the schedules cost, counted */
    int64_t ops;     /* operations of all ranks */
    char why[640];   /* the counterexample: algorithm, n, rank, operation, and what is wrong; "" where there is none */
} peali_check_report;

/*
 * Proves the schedules that ALGO builds for PROBLEM.
 *
 * Returns: PEAL_OK proved; PEAL_ERR_INVALID refuted, and REPORT says by what (nothing is logged); PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_check(const peal_algo *algo, const peal_problem *problem, peali_check_report *report);

/* The same for schedules and orders that the caller has, whatever made them. */
PEAL_MUST_CHECK peal_status peali_check_built(const peali_check_case *what, peali_check_report *report);

typedef struct peali_check_options {
    int kind;         /* of peal_kind, or -1: all */
    const char *name; /* of the algorithm, or NULL: all */
    int max_ranks;    /* every n from 1 to this one */
    bool large;       /* then also samples of n up to 4096 */
    int64_t least_each, least; /* schedules (or programs) that each algorithm, and all together, must have; 0: any number */
} peali_check_options;

/*
 * Proves all registered algorithms, for every n, root and, where an algorithm looks at it, several node maps. Writes one line for
 * each algorithm and then the total to OUT; a counterexample is the line of its algorithm.
 *
 * Returns: schedules (one for each rank of each problem) that were proved; -1 where anything was refuted, memory ran out, or there
 * were fewer than the least.
 * Threads: any.
 */
int64_t peali_check_all(FILE *out, const peali_check_options *options);

/*
 * For the sweeps: is ALGO asked for; are FOUND enough for one algorithm, or OUT is told; the last line and what to return (-1:
 * wrong).
 */
bool peali_check_wanted(const peali_check_options *options, const peal_algo *algo);
bool peali_check_enough(FILE *out, const peali_check_options *options, int64_t found);
int64_t peali_check_total(FILE *out, const peali_check_options *options, int64_t found, const char *what);

/* And: deals the ranks of P to nodes, in NODE; number I of map MAP has SIZE_OF(MAP, I, ranks). False: there is one node. */
bool peali_check_deal(peal_problem *p, int map, int (*size_of)(int map, int i, int n), int *node);

#endif
