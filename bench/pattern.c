/*
 * Element k of call c is entry (k + c) mod PERIOD of a table. The table is stored REPEAT + 1 times over, so that giving and
 * verifying go by memcpy and memcmp. PERIOD is prime: no block or slice size hides a shift.
 */
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PERIOD = PEALI_PATTERN_PERIOD, REPEAT = PEALI_PATTERN_REPEAT };

static uint32_t mix(uint32_t rank, uint32_t k)
{
    uint64_t h = ((uint64_t)rank << 32 | k) + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(h ^ h >> 31);
}

/* Below 2 RANGE, about a mean that all ranks have: what one rank has more, its mirror image has less. */
static int64_t about_mean(int rank, int nranks, int k, uint32_t range)
{
    int mirror = nranks - 1 - rank;
    uint32_t mean = mix(0, (uint32_t)k) % range, off = mix(1 + (uint32_t)(rank < mirror ? rank : mirror), (uint32_t)k) % (mean + 1);
    return (int64_t)mean + (rank < mirror ? (int64_t)off : rank > mirror ? -(int64_t)off : 0);
}

/* As value, where every partial sum has 3 bits: 1 on up to 7 ranks in a row; of averages one rank has 1 more and one 1 less. */
static int64_t of_three_bits(peal_op op, int rank, int nranks, int k)
{
    uint32_t h = mix(0, (uint32_t)k), at = (h / 16 + (uint32_t)rank) % (uint32_t)nranks, mean = nranks < 8 ? h / 8 % 2 : 0;
    return op == PEAL_AVG ? (int64_t)mean + (at == 0) - (at == 1) : at < h % 8;
}

/* Entry K of a rank: products and sums of few bits stay small, conjunctions are sometimes true, and bools are 0 or 1. */
static int64_t value(peal_type type, peal_op op, int rank, int nranks, int k)
{
    uint32_t h = mix((uint32_t)rank, (uint32_t)k);
    bool rare = h % 16 == 0, few_bits = type == PEAL_FP16 || type == PEAL_BF16 || type == PEAL_BOOL;
    if ((type == PEAL_FP8_E4M3 || type == PEAL_FP8_E5M2) && (op == PEAL_SUM || op == PEAL_AVG))
        return of_three_bits(op, rank, nranks, k);
    switch (op) {
    case PEAL_PROD: return 1 + rare;
    case PEAL_LAND: return rare ? 0 : few_bits ? 1 : 1 + h / 16 % 7;
    case PEAL_BAND: return rare ? 0x7f ^ 1 << h / 16 % 7 : 0x7f;
    case PEAL_AVG: return about_mean(rank, nranks, k, few_bits || peal_type_bytes(type) == 1 ? 2 : 16);
    default: return h % (few_bits ? 2 : 16);
    }
}

static int64_t fold(peal_op op, int64_t a, int64_t b)
{
    switch (op) {
    case PEAL_SUM: case PEAL_AVG: return a + b;
    case PEAL_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
    case PEAL_MIN: return a < b ? a : b;
    case PEAL_MAX: return a > b ? a : b;
    case PEAL_LAND: return a && b;
    case PEAL_LOR: return a || b;
    case PEAL_LXOR: return !a != !b;
    case PEAL_BAND: return a & b;
    case PEAL_BOR: return a | b;
    default: return a ^ b;
    }
}

/* What is left of V, which is 0 or a normal number of either type, or too large, in 8 bits. */
static uint8_t quarter(peal_type type, float v)
{
    uint32_t u, bits = type == PEAL_FP8_E4M3 ? 3 : 2, most = type == PEAL_FP8_E4M3 ? 0x7e : 0x7b;
    uint32_t lift = type == PEAL_FP8_E4M3 ? 120U << 23 : 112U << 23;
    memcpy(&u, &v, sizeof u);
    uint32_t size = v == 0 ? 0 : ((u & 0x7fffffff) - lift) >> (23 - bits);
    return (uint8_t)((u >> 24 & 0x80) | (size < most ? size : most));
}

/* The same in 16 bits. */
static uint16_t half(peal_type type, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    if (type == PEAL_BF16 || v == 0)
        return (uint16_t)(u >> 16);
    return (uint16_t)((u >> 16 & 0x8000) | ((u & 0x7fffffff) - (112U << 23)) >> 13);
}

/* Floating-point types; both parts of complex ones. False for others. */
static bool store_real(peal_type type, char *table, int k, double re, double im)
{
    switch (type) {
    case PEAL_FP8_E4M3: case PEAL_FP8_E5M2: ((uint8_t *)table)[k] = quarter(type, (float)re); return true;
    case PEAL_FP16: case PEAL_BF16: ((uint16_t *)table)[k] = half(type, (float)re); return true;
    case PEAL_FLOAT: ((float *)table)[k] = (float)re; return true;
    case PEAL_DOUBLE: ((double *)table)[k] = re; return true;
    case PEAL_LONG_DOUBLE: ((long double *)table)[k] = re; return true;
    case PEAL_COMPLEX_FLOAT: memcpy(table + 8 * k, (float[]){(float)re, (float)im}, 8); return true;
    case PEAL_COMPLEX_DOUBLE: memcpy(table + 16 * k, (double[]){re, im}, 16); return true;
    case PEAL_COMPLEX_LONG_DOUBLE:
        ((long double *)table)[2 * k] = re;
        ((long double *)table)[2 * k + 1] = im;
        return true;
    default: return false;
    }
}

static void store(peal_type type, peal_op op, char *table, int k, int64_t v)
{
    if (store_real(type, table, k, (double)v, op == PEAL_SUM || op == PEAL_AVG ? (double)v : 0))
        return;
    switch (peal_type_bytes(type)) {
    case 1: ((uint8_t *)table)[k] = (uint8_t)v; break;
    case 2: ((uint16_t *)table)[k] = (uint16_t)v; break;
    case 4: ((uint32_t *)table)[k] = (uint32_t)v; break;
    default: ((uint64_t *)table)[k] = (uint64_t)v; break;
    }
}

static void store_rough(peal_type type, peal_op op, char *table, int k, uint32_t h)
{
    double v = (h % 2 ? 1.0 : -1.0) * (1 + h % 1000003) / 999.0;
    if (!store_real(type, table, k, v, -v))
        store(type, op, table, k, h);
}

static int64_t expected(peal_type type, peal_op op, int nranks, int k)
{
    int64_t all = value(type, op, 0, nranks, k);
    for (int r = 1; r < nranks; r++)
        all = fold(op, all, value(type, op, r, nranks, k));
    if (op == PEAL_AVG)
        return all / nranks;
    /* One rank alone gives its own value back; else logical results are 0 or 1, which fold made them. */
    return all;
}

static void repeat(char *table, size_t period_bytes)
{
    for (int i = 1; i <= REPEAT; i++)
        memcpy(table + (size_t)i * period_bytes, table, period_bytes);
}

bool peali_pattern_create(peali_pattern *pattern, int rank, int nranks, peal_type type, peal_op op)
{
    size_t elem = peal_type_bytes(type), bytes = PERIOD * elem;
    *pattern = (peali_pattern){elem, calloc(REPEAT + 1, bytes), calloc(REPEAT + 1, bytes), calloc(REPEAT + 1, bytes)};
    if (!pattern->mine || !pattern->rough || !pattern->result) {
        peali_pattern_destroy(pattern);
        return false;
    }
    for (int k = 0; k < PERIOD; k++) {
        store(type, op, pattern->mine, k, value(type, op, rank, nranks, k));
        store(type, op, pattern->result, k, expected(type, op, nranks, k));
        store_rough(type, op, pattern->rough, k, mix((uint32_t)rank, (uint32_t)k));
    }
    repeat(pattern->mine, bytes);
    repeat(pattern->rough, bytes);
    repeat(pattern->result, bytes);
    return true;
}

void peali_pattern_destroy(peali_pattern *pattern)
{
    free(pattern->mine);
    free(pattern->rough);
    free(pattern->result);
    *pattern = (peali_pattern){0};
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void peali_pattern_give(const peali_pattern *pattern, bool rough, long call, void *buffer, size_t count)
{
    const char *from = (rough ? pattern->rough : pattern->mine) + (size_t)(call % PERIOD) * pattern->elem;
    for (size_t done = 0; done < count; done += PERIOD * REPEAT)
        memcpy((char *)buffer + done * pattern->elem, from, smaller(count - done, PERIOD * REPEAT) * pattern->elem);
}

static size_t differing(const char *a, const char *b, size_t count, size_t elem)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += memcmp(a + i * elem, b + i * elem, elem) != 0;
    return wrong;
}

size_t peali_pattern_wrong(const peali_pattern *pattern, long call, const void *buffer, size_t count)
{
    const char *want = pattern->result + (size_t)(call % PERIOD) * pattern->elem;
    size_t wrong = 0;
    for (size_t done = 0; done < count; done += PERIOD * REPEAT) {
        size_t some = smaller(count - done, PERIOD * REPEAT);
        const char *have = (const char *)buffer + done * pattern->elem;
        if (memcmp(have, want, some * pattern->elem) != 0)
            wrong += differing(have, want, some, pattern->elem);
    }
    return wrong;
}

double peali_pattern_hash(const void *buffer, size_t bytes)
{
    return (double)(XXH3_64bits(buffer, bytes) >> 12);
}
