/*
 * Values as the proofs of check keep them: which ranks contributed, and the expression that was summed.
 */
#ifndef PEALI_CHECK_VALUES_H
#define PEALI_CHECK_VALUES_H

#include "study/check.h"

#define PEALI_CHECK_PRIME (((uint64_t)1 << 61) - 1)

typedef struct peali_value {
    uint64_t set;  /* contributing ranks: bits, or (beyond PEALI_CHECK_EXACT) the sum of their weights modulo 2^61-1; 0: none */
    uint64_t bits; /* hash of the expression */
} peali_value;

static inline uint64_t peali_value_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What RANK of N contributes. */
static inline peali_value peali_value_leaf(int n, int rank)
{
    uint64_t seed = peali_value_mix(((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u);
    uint64_t set = n <= PEALI_CHECK_EXACT ? (uint64_t)1 << rank : 1 + seed % (PEALI_CHECK_PRIME - 1);
    return (peali_value){set, peali_value_mix(seed)};
}

static inline uint64_t peali_value_union(int n, uint64_t a, uint64_t b)
{
    return n <= PEALI_CHECK_EXACT ? a | b : (a + b) % PEALI_CHECK_PRIME;
}

/* a+b is b+a, but (a+b)+c is not a+(b+c). */
static inline peali_value peali_value_sum(int n, peali_value a, peali_value b)
{
    return (peali_value){peali_value_union(n, a.set, b.set), peali_value_mix(a.bits + b.bits)};
}

/* a+b is not b+a either. */
static inline peali_value peali_value_fold(int n, peali_value a, peali_value b)
{
    return (peali_value){peali_value_union(n, a.set, b.set), peali_value_mix(3 * a.bits + b.bits)};
}

#endif
