/*
 * The arithmetic of CPU ranks: one instruction for every (type, op).
 */
#ifndef PEALI_REDUCE_H
#define PEALI_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/peal.h>

/*
 * Reduces COUNT elements of the NSRC sources left to right, ((s0 op s1) op s2) ..., and stores the result to all NDST destinations.
 * nsrc == 1 copies. A destination may be one of the sources exactly; any other overlap is forbidden. Pointers are aligned to the
 * element at least. count 0 does nothing.
 *
 * STREAM: destinations are written past the caches, faster where these have no room for them, and slower where they have. Such
 * stores keep no order with others: peali_reduce_settle() comes before any flag is released that tells of them. Destinations are
 * written in their order, a few KiB of each in turn.
 *
 * The bits of the result depend on the elements and their order alone, never on alignment, count, blocks or CPU. Integer sums and
 * products wrap. A floating-point reduction that meets or makes a NaN gives 0x7fc00000 or 0x7ff8000000000000, whatever the NaN
 * was; min and max order -0 below +0.
 *
 * Threads: any.    Blocks: no; allocates nothing.
 */
typedef void (*peali_reduce_fn)(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, bool stream);

/*
 * Divides COUNT elements of VECTOR by N: integers toward zero, 16-bit numbers in float and rounded once. The same bits everywhere,
 * and NaN as above. It makes averages of sums.
 */
typedef void (*peali_divide_fn)(void *vector, size_t count, int32_t n);

/* All that this thread has streamed is seen by whoever sees what it stores from here on. It takes as long as memory does. */
void peali_reduce_settle(void);

/* The best functions of this CPU; never NULL where peal_op_takes(op, type), or peal_op_takes(PEAL_AVG, type). */
peali_reduce_fn peali_reduce_find(peal_type type, peal_op op);
peali_divide_fn peali_divide_find(peal_type type);

/* The instruction sets that reductions are compiled for, the best last. */
typedef enum peali_isa {
    PEALI_ISA_PLAIN,
    PEALI_ISA_AVX2,
    PEALI_ISA_AVX512,
    PEALI_ISA_COUNT
} peali_isa;

/* The same in one instruction set; NULL where this CPU has not got it, or the op does not take TYPE. */
peali_reduce_fn peali_reduce_find_isa(peal_type type, peal_op op, peali_isa isa);
peali_divide_fn peali_divide_find_isa(peal_type type, peali_isa isa);

#endif
