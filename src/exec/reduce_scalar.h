/*
 * What is reduced number by number: long double, and products of complex numbers. Complex sums are sums of parts (reduce_isa.c).
 *
 * A product is (ar br - ai bi) + (ar bi + ai br)i as it stands, without C's rescue of infinities, and the same for both orders.
 */

#define PRODUCT(part, name) \
    typedef struct name { \
        part re, im; \
    } name; \
    static INLINE name take_##name(peal_op op, name x) \
    { \
        return x; \
    } \
    static INLINE name apply_##name(peal_op op, name a, name b) \
    { \
        return (name){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; \
    } \
    static INLINE name give_##name(peal_op op, name x) \
    { \
        return (name){isnan(x.re) ? (part)NAN : x.re, isnan(x.im) ? (part)NAN : x.im}; \
    }
PRODUCT(float, complex_float)
PRODUCT(double, complex_double)
#undef PRODUCT

/* The 10 bytes of x87 lie in 16: the others are zero in every result. */
typedef struct long_double {
    unsigned char bytes[sizeof(long double)];
} long_double;

typedef struct long_complex {
    long_double re, im;
} long_complex;

typedef struct long_pair {
    long double re, im;
} long_pair;

enum { LONG_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double) };

static INLINE long double take_long_double(peal_op op, long_double from)
{
    long double x;
    memcpy(&x, &from, sizeof x);
    return x;
}

static INLINE long double apply_long_double(peal_op op, long double a, long double b)
{
    bool a_first = a < b || (a == b && signbit(a));
    switch (op) {
    case PEAL_SUM: return a + b;
    case PEAL_PROD: return a * b;
    default: return isunordered(a, b) ? (long double)NAN : a_first == (op == PEAL_MIN) ? a : b;
    }
}

static INLINE long_double give_long_double(peal_op op, long double x)
{
    long_double to = {{0}};
    x = isnan(x) ? (long double)NAN : x;
    memcpy(&to, &x, LONG_BYTES);
    return to;
}

static void divide_long_double(void *vector, size_t count, int32_t n)
{
    long_double *x = vector;
    for (size_t i = 0; i < count; i++)
        x[i] = give_long_double(PEAL_AVG, take_long_double(PEAL_AVG, x[i]) / (long double)n);
}

static INLINE long_pair take_long_complex(peal_op op, long_complex x)
{
    return (long_pair){take_long_double(op, x.re), take_long_double(op, x.im)};
}

static INLINE long_pair apply_long_complex(peal_op op, long_pair a, long_pair b)
{
    return (long_pair){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static INLINE long_complex give_long_complex(peal_op op, long_pair x)
{
    return (long_complex){give_long_double(op, x.re), give_long_double(op, x.im)};
}

#define T complex_float
#define W complex_float
#define OF(x) x##_complex_float
#define LOCKSTEP 2
#include "exec/reduce_fold.h"

#define T complex_double
#define W complex_double
#define OF(x) x##_complex_double
#define LOCKSTEP 2
#include "exec/reduce_fold.h"

#define T long_double
#define W long double
#define OF(x) x##_long_double
#define LOCKSTEP 2
#include "exec/reduce_fold.h"

#define T long_complex
#define W long_pair
#define OF(x) x##_long_complex
#define LOCKSTEP 2
#include "exec/reduce_fold.h"
