/*
 * The arithmetic of integers, float and double: a template, included once for each with
 *   T     the type,
 *   U     the unsigned integer of its size,
 *   OF(x) the name x made this type's own,
 *   REAL  1 for floating point, 0 for integers.
 */

#if REAL
static INLINE U OF(bits)(T x)
{
    U u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static INLINE T OF(real)(U u)
{
    T x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/*
 * Equal values are the same bits, but for the two zeros, whose signs are joined. A NaN comes out as some NaN: by itself where the
 * bits of both operands are or-ed, by all ones where they are and-ed.
 */
static INLINE T OF(apply)(peal_op op, T a, T b)
{
    switch (op) {
    case PEAL_SUM: return a + b;
    case PEAL_PROD: return a * b;
    case PEAL_MIN: return OF(real)(OF(bits)(a < b ? a : b) | OF(bits)(b < a ? b : a));
    default: return OF(real)((OF(bits)(a > b ? a : b) & OF(bits)(b > a ? b : a)) | (__builtin_isunordered(a, b) ? (U)-1 : 0));
    }
}

/* One NaN for all: which one a sum gives depends on the processor, and on the operand that the compiler put first. */
static INLINE T OF(give)(peal_op op, T x)
{
    return __builtin_isunordered(x, x) ? (T)NAN : x;
}
#else
/* Unsigned, at least as wide as unsigned int: wraps in every type, where int16 * int16 would overflow an int. */
static INLINE T OF(apply)(peal_op op, T a, T b)
{
    switch (op) {
    case PEAL_SUM: return (T)(0U + (U)a + (U)b);
    case PEAL_PROD: return (T)((0U + (U)a) * (U)b);
    case PEAL_MIN: return a < b ? a : b;
    case PEAL_MAX: return a > b ? a : b;
    case PEAL_LAND: return (T)((a != 0) & (b != 0));
    case PEAL_LOR: return (T)((a | b) != 0);
    case PEAL_LXOR: return (T)((a != 0) ^ (b != 0));
    case PEAL_BAND: return a & b;
    case PEAL_BOR: return a | b;
    default: return a ^ b;
    }
}

static INLINE T OF(give)(peal_op op, T x)
{
    return x;
}
#endif

static INLINE T OF(take)(peal_op op, T x)
{
    return x;
}

#define W T
#define LOCKSTEP GROUP
#include "exec/reduce_fold.h"
#undef U
#undef REAL
