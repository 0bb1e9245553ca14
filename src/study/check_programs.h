/*
 * Proofs about programs: what lowering made of the schedules of all ranks, in every node at once, gives the values of the
 * schedules, comes to an end, and leaves no two accesses unordered, in one slice, between slices and between calls. LOWERING,
 * "What the verifier of programs checks", has ten things that are proved; and whether all hear of all, or a broadcast's root tells.
 *
 * Ranks of one node are within reach of each other, or those of one host, which need not follow each other; between them there are
 * messages. A proof holds for every size, type, number of slices and window, for IN and OUT apart, aliased on any of the ranks, and
 * (not push) staged on any of them.
 */
#ifndef PEALI_CHECK_PROGRAMS_H
#define PEALI_CHECK_PROGRAMS_H

#include <stdio.h>

#include "lower/lower.h"
#include "study/check.h"

/* What programs are held against: the schedules of all ranks, and the expression that each piece of OUT ends with. */
typedef struct peali_truth peali_truth;

typedef struct peali_programs_report {
    int64_t instrs; /* instructions of all ranks */
    char why[900];  /* the counterexample: algorithm, n, mode, rank, instruction, and what is wrong; "" where there is none */
} peali_programs_report;

/*
 * Builds and runs the schedules of ALGO for PROBLEM; both outlive *OUT, and so does HOST, in which ranks of one number are within
 * reach of each other (NULL: those of one node are). It is freed with peali_truth_free. Whether what they compute is what the
 * collective should is for peali_check to say.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID the schedules do not run, and REPORT says why; PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_truth_make(const peal_algo *algo, const peal_problem *problem, const int *host,
                                             peali_programs_report *report, peali_truth **out);
void peali_truth_free(peali_truth **truth);

/* Lowers all ranks in MODE: PROGRAMS has an entry for each, to be freed. PEAL_OK or what peali_lower_all returns. */
PEAL_MUST_CHECK peal_status peali_programs_lower(const peali_truth *truth, peali_mode mode, peali_program **programs);

/* Proves PROGRAMS, whatever made them. PEAL_OK proved; PEAL_ERR_INVALID refuted, see REPORT; PEAL_ERR_MEMORY. Threads: any. */
PEAL_MUST_CHECK peal_status peali_programs_check(const peali_truth *truth, peali_mode mode, const peali_program *const *programs,
                                                 peali_programs_report *report);

/*
 * Lowers and proves registered algorithms in all modes. Writes one line for each algorithm and then the total to OUT; a
 * counterexample is the line of its algorithm. LEAST: see peali_check_all.
 *
 * Returns: programs (one for each rank, problem and mode) that were proved; -1 where anything was refuted or memory ran out.
 * Threads: any.
 */
int64_t peali_check_programs_all(FILE *out, const peali_check_options *options);

#endif
