/*
 * Which children of this process may still look at memory that it had when they were forked. A child looks until it, and all that
 * it forked, have ended or run another program; whatever it does with its descriptors.
 *
 * Threads: one at a time; peali_pool's lock is held.
 */
#ifndef PEALI_KIN_H
#define PEALI_KIN_H

#include <stdbool.h>
#include <stdint.h>

/* Before a fork. Returns its number, 1 or more and never less than before; forks that overlap may each have their own. */
uint32_t peali_kin_expect(void);

/* The number of the last fork that was expected, 0 before the first. */
uint32_t peali_kin_last(void);

/* In the parent, when no fork that was expected is under way any more. */
void peali_kin_settle(void);

/* In the child: it has no children yet. */
void peali_kin_leave(void);

/* Asks the kernel anew who has gone. */
void peali_kin_count(void);

/* Did a child of one of the forks FIRST to LAST live when they were last counted? */
bool peali_kin_lives(uint32_t first, uint32_t last);

#endif
