/*
 * The reductions of one instruction set: a table made by each compilation of reduce_isa.c.
 */
#ifndef PEALI_REDUCE_ISA_H
#define PEALI_REDUCE_ISA_H

#include "exec/reduce.h"

/* By type, then op; NULL where the op does not take the type, and where the plain table has the only function. */
typedef const peali_reduce_fn peali_reduce_table[PEAL_TYPE_COUNT][PEAL_OP_COUNT];

extern peali_reduce_table peali_reduce_plain;
extern peali_reduce_table peali_reduce_avx2;
extern peali_reduce_table peali_reduce_avx512;

#endif
