/*
 * The floating-point types that are narrower than float, told from their definitions: what tests hold the kernels to, which work by
 * other ways.
 */
#ifndef NARROW_H
#define NARROW_H

#include <math.h>

#include <peal/peal.h>

static inline int narrow(peal_type type)
{
    return type >= PEAL_FP8_E4M3 && type <= PEAL_BF16;
}

/* Bits behind the point. */
static inline int narrow_mant(peal_type type)
{
    return type == PEAL_FP8_E4M3 ? 3 : type == PEAL_FP8_E5M2 ? 2 : type == PEAL_FP16 ? 10 : 7;
}

/* The sign's place. */
static inline int narrow_sign(peal_type type)
{
    return 8 * (int)peal_type_bytes(type) - 1;
}

static inline double narrow_value(peal_type type, unsigned bits)
{
    int mant = narrow_mant(type), top = (1 << (narrow_sign(type) - mant)) - 1, exponent = (int)(bits >> mant) & top;
    double fraction = (double)(bits & ((1u << mant) - 1)), sign = bits >> narrow_sign(type) & 1 ? -1 : 1;
    if (type == PEAL_FP8_E4M3 && exponent == top && fraction == 7)
        return NAN;
    if (type != PEAL_FP8_E4M3 && exponent == top)
        return fraction > 0 ? NAN : sign * INFINITY;
    int bias = top / 2 + mant;
    return sign * (exponent ? ldexp(fraction + (1 << mant), exponent - bias) : ldexp(fraction, 1 - bias));
}

/* The nearest of all codes of 8 bits that are numbers, of two the even one. */
static inline unsigned narrow_nearest(peal_type type, double x)
{
    unsigned code = 0, most = type == PEAL_FP8_E4M3 ? 0x7e : 0x7b;
    double size = fmin(fabs(x), narrow_value(type, most));
    if (isnan(x))
        return 0x7f;
    for (unsigned bit = 0x40; bit; bit >>= 1)
        if ((code | bit) <= most && narrow_value(type, code | bit) <= size)
            code |= bit;
    if (code < most) {
        double below = size - narrow_value(type, code), above = narrow_value(type, code + 1) - size;
        code += above < below || (above == below && code % 2);
    }
    return code | (signbit(x) ? 0x80 : 0);
}

/* To nearest even; of 16 bits by counting in units of the last one. */
static inline unsigned narrow_bits(peal_type type, double x)
{
    if (peal_type_bytes(type) == 1)
        return narrow_nearest(type, x);
    int mant = narrow_mant(type), top = (1 << (15 - mant)) - 1, least = 1 - top / 2;
    unsigned sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return (unsigned)top << mant | 1u << (mant - 1);
    if (x == 0 || isinf(x))
        return sign | (x == 0 ? 0 : (unsigned)top << mant);
    int exponent = ilogb(x) > least ? ilogb(x) : least;
    long units = lrint(ldexp(fabs(x), mant - exponent)); /* 2^mant and more: a normal number */
    long above = (long)(exponent - least) << mant;
    return above + units >= (long)top << mant ? sign | (unsigned)top << mant : sign | (unsigned)(above + units);
}

#endif
