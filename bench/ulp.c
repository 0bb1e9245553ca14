/*
 * Numbers are made and read as their bits, so that all formats go one way. All are of one sign, so that nothing cancels and errors
 * stay those of rounding, and all are in [1/16, 2): what 128 ranks add then has at most 53 + 4 + 7 bits, which long double holds.
 */
#include "ulp.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = PEALI_ULP_PERIOD, BINADES = 5 };

/* Mantissa bits that are stored, and what is added to exponents. */
struct format {
    int bits, bias;
    uint64_t top; /* the largest exponent, as stored; is it for numbers too, but for the last mantissa? */
    bool finite;
};

static const struct format *format_of(peal_type type)
{
    static const struct format e4m3 = {3, 7, 15, true}, e5m2 = {2, 15, 31, false}, fp16 = {10, 15, 31, false},
                               bf16 = {7, 127, 255, false}, fp32 = {23, 127, 255, false}, fp64 = {52, 1023, 2047, false};
    switch (type) {
    case PEAL_FP8_E4M3: return &e4m3;
    case PEAL_FP8_E5M2: return &e5m2;
    case PEAL_FP16: return &fp16;
    case PEAL_BF16: return &bf16;
    case PEAL_FLOAT: return &fp32;
    case PEAL_DOUBLE: return &fp64;
    default: return NULL;
    }
}

bool peali_ulp_takes(peal_type type, peal_op op)
{
    return format_of(type) && (op == PEAL_SUM || op == PEAL_AVG);
}

static uint64_t mix(uint64_t rank, uint64_t k)
{
    uint64_t h = (rank << 32 | k) + 0x9e3779b97f4a7c15u; /* splitmix64 */
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

/* Element K of a rank. */
static uint64_t bits_of(const struct format *f, int rank, int k)
{
    uint64_t h = mix((uint64_t)rank, (uint64_t)k), exponent = (uint64_t)f->bias - h % BINADES;
    return exponent << f->bits | h >> (64 - f->bits);
}

static long double value_of(const struct format *f, uint64_t bits)
{
    uint64_t mantissa = bits & ((1ULL << f->bits) - 1), exponent = bits >> f->bits & f->top;
    if (exponent == f->top && (!f->finite || mantissa == (1ULL << f->bits) - 1))
        return NAN;
    if (exponent > 0)
        mantissa |= 1ULL << f->bits;
    long double size = ldexpl((long double)mantissa, (int)(exponent > 0 ? exponent : 1) - f->bias - f->bits);
    return bits >> f->bits > f->top ? -size : size;
}

/* One unit in the last place of X, which is a normal number of the format. */
static long double unit_of(const struct format *f, long double x)
{
    return ldexpl(1, ilogbl(x) - f->bits);
}

bool peali_ulp_create(peali_ulp *ulp, int rank, int nranks, peal_type type, peal_op op)
{
    const struct format *f = format_of(type);
    size_t elem = peal_type_bytes(type);
    *ulp = (peali_ulp){type, malloc(PERIOD * elem), calloc(PERIOD, sizeof *ulp->exact)};
    if (!ulp->mine || !ulp->exact) {
        peali_ulp_destroy(ulp);
        return false;
    }
    for (int k = 0; k < PERIOD; k++) {
        uint64_t mine = bits_of(f, rank, k);
        memcpy(ulp->mine + (size_t)k * elem, &mine, elem); /* the first bytes are the lowest */
        for (int r = 0; r < nranks; r++)
            ulp->exact[k] += value_of(f, bits_of(f, r, k));
        ulp->exact[k] /= op == PEAL_AVG ? nranks : 1;
    }
    return true;
}

void peali_ulp_destroy(peali_ulp *ulp)
{
    free(ulp->mine);
    free(ulp->exact);
    *ulp = (peali_ulp){0};
}

double peali_ulp_error(const peali_ulp *ulp, size_t first, const void *have, size_t count)
{
    const struct format *f = format_of(ulp->type);
    size_t elem = peal_type_bytes(ulp->type);
    long double most = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        long double exact = ulp->exact[(first + i) % PERIOD];
        memcpy(&bits, (const char *)have + i * elem, elem);
        long double error = fabsl(value_of(f, bits) - exact) / unit_of(f, exact);
        if (!(error <= most))
            most = isnan(error) ? INFINITY : error;
    }
    return (double)most;
}
