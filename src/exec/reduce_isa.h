/*
 * The reductions of one instruction set: a table made by each compilation of reduce_isa.c.
 */
#ifndef PEALI_REDUCE_ISA_H
#define PEALI_REDUCE_ISA_H

#include "exec/reduce.h"

/* NULL where the op does not take the type, and where the plain table has the only function. */
typedef struct peali_reduce_table {
    peali_reduce_fn reduce[PEAL_TYPE_COUNT][PEAL_OP_COUNT];
    peali_divide_fn divide[PEAL_TYPE_COUNT];
} peali_reduce_table;

extern const peali_reduce_table peali_reduce_plain;
extern const peali_reduce_table peali_reduce_avx2 __attribute__((weak)); /* at NULL where it was not built, */
extern const peali_reduce_table peali_reduce_avx512 __attribute__((weak)); /* as this one */

#endif
