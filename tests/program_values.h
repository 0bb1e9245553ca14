/*
 * Values as the runner of programs knows them, and what schedules give: the sum of no two sets of shares is the same, nor that of
 * one set in two orders.
 */
#ifndef PROGRAM_VALUES_H
#define PROGRAM_VALUES_H

#include "program_runner.h"

typedef struct value {
    uint64_t sum, bits;
} value;

/* X, well mixed. */
uint64_t value_mix(uint64_t x);

/* What RANK has in IN. */
value value_share(int call, int slice, int rank, int block);

/* a op b. */
value value_fold(value a, value b);

/* What the schedules give, by running their lists over IN and OUT apart: WANT has a value for each rank and block. */
void program_want(const program_case *what, int call, int slice, value *want);

#endif
