/* Pictures of schedules: who sends what to whom, round by round. */
#ifndef PEALI_DRAW_H
#define PEALI_DRAW_H

#include <stdio.h>

#include "sched/sched.h"

/*
 * Draws the rounds that ALGO's schedules for PROBLEM take, from top to bottom, with a column for each rank:
 *
 *     rank      0    1    2    3
 *     round 0   0+>1 1+>2 2+>3 3+>0
 *     ...
 *     round 5   3>1  0>2  1>3  2>0
 *
 * "3>1": this rank sends block 3 to rank 1; "3+>1": rank 1 adds it to its own; "*" is all blocks. A message's
 * round is the number of messages that come before it in the longest chain in which each needs the one before. Ranks whose columns
 * do not fit into COLUMNS characters follow below. Memory and work are those of building all ranks' schedules.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID the schedules do not fit together (logged); PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_draw(const peal_algo *algo, const peal_problem *problem, int columns, FILE *to);

#endif
