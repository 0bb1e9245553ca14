/*
 * A judge of programs that shares no code with check, and none with the runner of the library: it runs them, and sees whether that
 * does harm.
 *
 * Three calls in a row without a barrier, each of up to three slices in a window, over poisoned memory, in random interleavings of
 * ranks, slices and messages; one rank may be slow, random ranks have IN and OUT in one buffer or (but in push) are staged, and
 * messages go on at once, or wait for their receive, or either. Harm is a wrong result (sums are neither commutative nor
 * associative here), a stop before the end, a write that nobody may do, or a message that is still open when its slice is left.
 */
#ifndef PROGRAM_RUNNER_H
#define PROGRAM_RUNNER_H

#include "study/check_programs.h"

enum { PROGRAM_RANKS = 9 };

typedef struct program_case {
    const peal_problem *problem;
    const int *host; /* ranks of one host are within reach of each other; NULL: those of one node */
    peali_mode mode;
    const peal_sched *const *sched; /* of each rank: what the programs should compute */
    const peali_program *const *program;
} program_case;

/* True where INTERLEAVINGS of the programs, drawn from SEED, do no harm. */
bool program_harmless(const program_case *what, int interleavings, uint64_t seed);

#endif
