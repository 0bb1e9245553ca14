/*
 * The 16-bit floating-point types. Sums and products are made in float, which holds every fp16 and bf16 exactly, and are rounded
 * once, to nearest even. Min and max need no float: integers tell which is which.
 *
 * The compiler makes no good vectors of two widths, so here they are explicit: one of 16-bit elements is two of float, in an order
 * that its unpack and pack agree on. The conversions are exact in all instruction sets and in all modes of the floating-point unit.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

typedef uint16_t halves __attribute__((vector_size(VECTOR_BYTES)));
typedef int16_t signed_halves __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t integers __attribute__((vector_size(VECTOR_BYTES)));
typedef float floats __attribute__((vector_size(VECTOR_BYTES)));

static INLINE floats apply_floats(peal_op op, floats a, floats b)
{
    return op == PEAL_SUM ? a + b : a * b;
}

static INLINE words choose(words mask, words yes, words no)
{
    return (mask & yes) | (~mask & no);
}

static INLINE bool some_nan(const floats x[2])
{
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x[0], (__m512)x[1], _CMP_UNORD_Q) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x[0], (__m256)x[1], _CMP_UNORD_Q)) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps(_mm_cmpunord_ps((__m128)x[0], (__m128)x[1])) != 0;
#else
    return true;
#endif
}

/*
 * One NaN for all in H, which is X converted. The conversions keep every NaN one: those of fp16 and bf16 have only zeros in the
 * bits that are lost.
 */
static INLINE halves give_halves(const floats x[2], halves h, int infinity, int nan)
{
    if (__builtin_expect(!some_nan(x), 1))
        return h;
    halves is_nan = (halves)((signed_halves)(h & 0x7fff) > (int16_t)infinity);
    return (h & ~is_nan) | (is_nan & (uint16_t)nan);
}

static INLINE void unpack_bf16(halves h, floats x[2])
{
    x[0] = (floats)((words)h << 16);
    x[1] = (floats)((words)h & 0xffff0000U);
}

/* The low halves of EVEN and the high halves of ODD. */
static INLINE halves join(words even, words odd)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    return (halves)_mm256_blend_epi16((__m256i)even, (__m256i)odd, 0xaa);
#else
    return (halves)((even & 0xffff) | (odd & 0xffff0000U));
#endif
}

/* The high half of each float, and one more where the low half is above 0x8000, or is just that and the high half is odd. */
static INLINE halves pack_bf16(const floats x[2])
{
    words a = (words)x[0], b = (words)x[1];
    halves high = join(a >> 16, b), low = join(a, b << 16);
    halves rounded = high + ((low & (low - (~high & 1))) >> 15);
    return give_halves(x, rounded, 0x7f80, 0x7fc0);
}

#if defined(__AVX512F__)
#define NATIVE __attribute__((target("avx512bf16")))

static INLINE void unpack_native(halves h, floats x[2])
{
    unpack_bf16(h, x);
}

/* The instruction takes denormals for zeros: they go the long way, as do NaNs, which it would let pass. */
NATIVE static INLINE halves pack_native(const floats x[2])
{
    static const halves order = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
                                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    enum { QUIET_NAN = 0x01, DENORMAL = 0x20, SIGNALLING_NAN = 0x80, ODD = QUIET_NAN | DENORMAL | SIGNALLING_NAN };
    __mmask16 odd[2] = {_mm512_fpclass_ps_mask((__m512)x[0], ODD), _mm512_fpclass_ps_mask((__m512)x[1], ODD)};
    if (__builtin_expect(odd[0] | odd[1], 0))
        return pack_bf16(x);
    __m512i packed = (__m512i)_mm512_cvtne2ps_pbh((__m512)x[1], (__m512)x[0]);
    return (halves)_mm512_permutexvar_epi16((__m512i)order, packed);
}
#endif

#if defined(__AVX512F__)
static INLINE void unpack_fp16(halves h, floats x[2])
{
    x[0] = (floats)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)h));
    x[1] = (floats)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)h, 1));
}

static INLINE halves pack_fp16(const floats x[2])
{
    __m256i low = _mm512_cvtps_ph((__m512)x[0], _MM_FROUND_TO_NEAREST_INT);
    __m256i high = _mm512_cvtps_ph((__m512)x[1], _MM_FROUND_TO_NEAREST_INT);
    return give_halves(x, (halves)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), 0x7c00, 0x7e00);
}
#elif defined(__F16C__)
static INLINE void unpack_fp16(halves h, floats x[2])
{
    x[0] = (floats)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)h));
    x[1] = (floats)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)h, 1));
}

static INLINE halves pack_fp16(const floats x[2])
{
    __m128i low = _mm256_cvtps_ph((__m256)x[0], _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)x[1], _MM_FROUND_TO_NEAREST_INT);
    return give_halves(x, (halves)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), 0x7c00, 0x7e00);
}
#else
/* Of 16 bits in the low half. A denormal is a whole number of 2^-24; exponents differ by 112, that of infinity and NaN by 224. */
static INLINE floats float_of_fp16(words h)
{
    words size = h & 0x7fff, sign = (h & 0x8000) << 16;
    words small = (words)(__builtin_convertvector((integers)size, floats) * 0x1p-24f);
    words large = (size << 13) + (112U << 23) + ((words)((integers)size >= 0x7c00) & 112U << 23);
    return (floats)(sign | choose((words)((integers)size < 0x400), small, large));
}

/* Below 2^-14 it is a whole number of 2^-24, the last bit of 0.5f: adding that rounds. What rounds beyond 65504 is infinite. */
static INLINE words fp16_of_float(floats x)
{
    words u = (words)x, size = u & 0x7fffffff;
    words small = (words)((floats)size + 0.5f) - 0x3f000000;
    words large = (size - (112U << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    large = choose((words)((integers)large < 0x7c00), large, large - large + 0x7c00);
    words number = choose((words)((integers)size < 113 << 23), small, large);
    return (u >> 16 & 0x8000) | choose((words)((integers)size > 0x7f800000), number - number + 0x7e00, number);
}

static INLINE void unpack_fp16(halves h, floats x[2])
{
    x[0] = float_of_fp16((words)h & 0xffff);
    x[1] = float_of_fp16((words)h >> 16);
}

static INLINE halves pack_fp16(const floats x[2])
{
    return give_halves(x, (halves)(fp16_of_float(x[0]) | fp16_of_float(x[1]) << 16), 0x7c00, 0x7e00);
}
#endif

/*
 * As signed integers two positive values are in order; else the larger value is the smaller unsigned integer. A NaN is above plus
 * infinity as a signed integer, or above minus infinity as an unsigned one.
 */
static INLINE int16_t extreme_half(peal_op op, int infinity, int nan, int16_t a, int16_t b)
{
    uint16_t ua = (uint16_t)a, ub = (uint16_t)b, umin = ua < ub ? ua : ub, umax = ua > ub ? ua : ub;
    int16_t smin = a < b ? a : b, smax = a > b ? a : b;
    int16_t x = (a | b) < 0 ? (int16_t)(op == PEAL_MAX ? umin : umax) : op == PEAL_MAX ? smax : smin;
    return (smax > infinity) | (umax > (infinity | 0x8000)) ? (int16_t)nan : x;
}

#define ORDERED_HALF(name, infinity, nan) \
    static INLINE int16_t take_##name(peal_op op, int16_t h) \
    { \
        return h; \
    } \
    static INLINE int16_t apply_##name(peal_op op, int16_t a, int16_t b) \
    { \
        return extreme_half(op, infinity, nan, a, b); \
    } \
    static INLINE int16_t give_##name(peal_op op, int16_t h) \
    { \
        return h; \
    }
ORDERED_HALF(fp16_order, 0x7c00, 0x7e00)
ORDERED_HALF(bf16_order, 0x7f80, 0x7fc0)
#undef ORDERED_HALF

#define T int16_t
#define W int16_t
#define OF(x) x##_fp16_order
#define LOCKSTEP GROUP
#include "exec/reduce_fold.h"

#define T int16_t
#define W int16_t
#define OF(x) x##_bf16_order
#define LOCKSTEP GROUP
#include "exec/reduce_fold.h"

/* One element, in the first place of a vector. */
#define ONE_HALF(name) \
    static INLINE floats take_##name(peal_op op, uint16_t h) \
    { \
        floats x[2]; \
        unpack_##name((halves){h}, x); \
        return x[0]; \
    } \
    static INLINE floats apply_##name(peal_op op, floats a, floats b) \
    { \
        return apply_floats(op, a, b); \
    } \
    static INLINE uint16_t give_##name(peal_op op, floats x) \
    { \
        return pack_##name((floats[]){x, x})[0]; \
    }
ONE_HALF(fp16)
ONE_HALF(bf16)
#undef ONE_HALF

#define T uint16_t
#define W floats
#define OF(x) x##_fp16
#include "exec/reduce_few.h"
#undef T
#undef W
#undef OF

#define T uint16_t
#define W floats
#define OF(x) x##_bf16
#include "exec/reduce_few.h"
#undef T
#undef W
#undef OF

#define T uint16_t
#define V halves
#define PARTS 2
#define OF(x) x##_fp16
#define TARGET
#include "exec/reduce_narrow_fold.h"

#define T uint16_t
#define V halves
#define PARTS 2
#define OF(x) x##_bf16
#define TARGET
#include "exec/reduce_narrow_fold.h"

#if defined(__AVX512F__)
#define T uint16_t
#define V halves
#define PARTS 2
#define OF(x) x##_native
#define TARGET NATIVE
#include "exec/reduce_narrow_fold.h"
#endif
