/*
 * The 8-bit floating-point types, reduced as those of 16 bits are (reduce_half.h). A vector of them is four of float, one for each
 * byte of a word. A result beyond the largest number becomes that, infinity too (peal.h).
 */

typedef uint8_t quarters __attribute__((vector_size(VECTOR_BYTES)));

typedef struct fp8 {
    uint32_t mant, bias; /* bits behind the point; the exponent of 1 */
    uint32_t special;    /* the first positive code that is no number: the largest number is before it */
    uint32_t last;       /* that is no NaN */
} fp8;

static const fp8 e4m3 = {3, 7, 0x7f, 0x7e}, e5m2 = {2, 15, 0x7c, 0x7c};
enum { NAN_FP8 = 0x7f };

static INLINE words all(uint32_t u)
{
    return (words){0} + u;
}

/* Of the low byte. A denormal is a whole number of its last bit; else the exponents of infinity and NaN differ by twice as much. */
static INLINE floats float_of_fp8(fp8 f, words c)
{
    words size = c & 0x7f, sign = (c & 0x80) << 24;
    uint32_t unit = (128 - f.bias - f.mant) << 23, more = (127 - f.bias) << 23;
    words small = (words)(__builtin_convertvector((integers)size, floats) * (floats)all(unit));
    words large = (size << (23 - f.mant)) + more + ((words)((integers)size >= (int32_t)f.special) & more);
    return (floats)(sign | choose((words)((integers)size < 1 << f.mant), small, large));
}

/* Below the least normal number it is a whole number of UNIT, which is the last bit of LIFT: adding that rounds. */
static INLINE words fp8_of_float(fp8 f, floats x)
{
    words u = (words)x, size = u & 0x7fffffff;
    uint32_t lift = (151 - f.bias - f.mant) << 23, more = (127 - f.bias) << 23, shift = 23 - f.mant;
    words small = (words)((floats)size + (floats)all(lift)) - lift;
    words large = (size - more + ((1u << (shift - 1)) - 1) + (size >> shift & 1)) >> shift;
    large = choose((words)((integers)large < (int32_t)f.special), large, all(f.special - 1));
    words number = choose((words)((integers)size < (int32_t)(128 - f.bias) << 23), small, large);
    return choose((words)((integers)size > 0x7f800000), all(NAN_FP8), (u >> 24 & 0x80) | number);
}

#define FP8(name, format) \
    static INLINE void unpack_##name(quarters q, floats x[4]) \
    { \
        for (int part = 0; part < 4; part++) \
            x[part] = float_of_fp8(format, (words)q >> 8 * part); \
    } \
    static INLINE quarters pack_##name(const floats x[4]) \
    { \
        words w = {0}; \
        for (int part = 0; part < 4; part++) \
            w |= fp8_of_float(format, x[part]) << 8 * part; \
        return (quarters)w; \
    } \
    static INLINE floats take_##name(peal_op op, uint8_t c) \
    { \
        return float_of_fp8(format, (words){c}); \
    } \
    static INLINE floats apply_##name(peal_op op, floats a, floats b) \
    { \
        return apply_floats(op, a, b); \
    } \
    static INLINE uint8_t give_##name(peal_op op, floats x) \
    { \
        return (uint8_t)fp8_of_float(format, x)[0]; \
    } \
    static INLINE int16_t take_##name##_order(peal_op op, int8_t c) \
    { \
        return (int16_t)((uint8_t)c << 8); \
    } \
    static INLINE int16_t apply_##name##_order(peal_op op, int16_t a, int16_t b) \
    { \
        return extreme_half(op, (int)format.last << 8, NAN_FP8 << 8, a, b); \
    } \
    static INLINE int8_t give_##name##_order(peal_op op, int16_t h) \
    { \
        return (int8_t)(h >> 8); \
    }
FP8(fp8_e4m3, e4m3)
FP8(fp8_e5m2, e5m2)
#undef FP8

#define T int8_t
#define W int16_t
#define OF(x) x##_fp8_e4m3_order
#define LOCKSTEP GROUP
#include "exec/reduce_fold.h"

#define T int8_t
#define W int16_t
#define OF(x) x##_fp8_e5m2_order
#define LOCKSTEP GROUP
#include "exec/reduce_fold.h"

#define T uint8_t
#define W floats
#define OF(x) x##_fp8_e4m3
#include "exec/reduce_few.h"
#undef T
#undef W
#undef OF

#define T uint8_t
#define W floats
#define OF(x) x##_fp8_e5m2
#include "exec/reduce_few.h"
#undef T
#undef W
#undef OF

#define T uint8_t
#define V quarters
#define PARTS 4
#define OF(x) x##_fp8_e4m3
#define TARGET
#include "exec/reduce_narrow_fold.h"

#define T uint8_t
#define V quarters
#define PARTS 4
#define OF(x) x##_fp8_e5m2
#define TARGET
#include "exec/reduce_narrow_fold.h"
