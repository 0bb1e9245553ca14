/*
 * A judge of schedules that shares no code with check: it runs them, and sees whether that does harm.
 *
 * Memory is poisoned and ranks run in random interleavings: half of them freely, where an operation may run when all that it
 * waits for is done and a send ends only with its receive; half in list order, where a send goes on at once and what overwrites
 * its data waits. In each, IN and OUT are one buffer on random ranks. Harm is a wrong or poisoned result, a write to memory
 * that the user did not give, a stop before the end, or a result whose bits depend on rank or interleaving.
 */
#ifndef MUTANT_RUNNER_H
#define MUTANT_RUNNER_H

#include "study/check.h"

enum { RUNNER_RANKS = 9 };

/* Operation i of a rank waits for count[i] others; next[start[i]] .. next[start[i + 1] - 1] wait for it. */
typedef struct runner_needs {
    int *count, *start, *next;
} runner_needs;

/* X, well mixed. */
uint64_t runner_mix(uint64_t x);

/* The order of a rank's operations: as GIVEN says, or (NULL) every conflicting pair. */
runner_needs runner_infer(const peal_sched *s, const peali_order *given);
void runner_free(runner_needs *need);

/* True where 200 interleavings of the schedules do no harm. NEED: of each rank. */
bool runner_harmless(const peali_check_case *what, const runner_needs *need);

#endif
