/*
 * Reductions for one instruction set: compiled once for each (meson.build), into the table that TABLE names.
 *
 * All compilations give the same bits: each element is folded left to right by itself, nothing is contracted into a fused
 * multiply-add, and every NaN that a reduction makes or passes on is the one that NAN is. The compiler makes the vectors.
 * What rounds in a wider type than it stores (fp8, fp16, bf16) does so once for each stored result, whatever the number of sources.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "exec/reduce_isa.h"
#include "exec/reduce_stream.h"

#define INLINE inline __attribute__((always_inline))

/*
 * GROUP sources are read in lockstep, and what comes of them is kept in L1, BLOCK_BYTES at a time. On EPYC 9004 (bench_reduce) 8
 * sources at a time had 0.75 to 0.86 of the speed in cache: the addresses of vectors are often alike in their last 12 bits, and an
 * L1 of 32 KiB has room for 8 such lines. From DRAM they had 1.1 to 1.3. Blocks of 2 KiB had 0.94 to 1, of 8 KiB 0.86 to 1, of
 * 16 KiB 0.78 to 1.
 */
enum { GROUP = 4, BLOCK_BYTES = 4096 };

/*
 * Who streams to as many as it reads of, as an owner does in allreduce by two_shot, reads while it writes, AHEAD_BYTES at a time
 * (of numbers that are summed as wider ones, fewer). Memory that all ranks see, ever other buffers, us, one after the other and
 * so, on 32 cores of Xeon:
 *
 *     ranks   64 KiB        256 KiB       1 MiB        4 MiB        16 MiB       64 MiB
 *         4   9.0   7.9     32.0  31.6    130  123     665  559     2468 2034    10603 8372
 *         8   16.5  14.4    54.1  45.9    203  165     1003 811     3159 2808    12932 11075
 *        16   25.5  20.4    68.4  60.4    293  238     1241 1123    4757 4125    19406 17696
 *
 * Blocks of 512 bytes are as fast, of 4 KiB slower to 1 MiB. 32 ranks fill memory's channels anyhow, and would take 1.25 times as
 * long.
 */
enum { AHEAD_BYTES = 1024, AHEAD_SOURCES = 16 };

/* So few are faster one by one than in blocks of vectors. Of 4 sources: one double 3 ns instead of 11, four 7 instead of 11. */
enum { FEW = 4 };

/* One pass over a block: IN[0] is a source in the first step of an element, else what the steps before made of it. */
struct step {
    const void *in[GROUP];
    int k; /* 2 to lockstep; exactly lockstep in all steps but the last */
    bool first, last;
    void *out, *also; /* ALSO: the second destination of two, or NULL */
    size_t count;
};

struct job {
    void *const *dst;
    const void *const *src;
    int ndst, nsrc;
    bool stream;
    int lockstep;
    size_t elem_bytes, block; /* BLOCK elements make a partial result of BLOCK_BYTES */
    void (*fold)(const struct step *s);
};

/* Two sources and two destinations are a step of a ring; in all other shapes the blocks in L1 are copied on. */
static bool both(const struct job *j)
{
    return j->nsrc == 2 && j->ndst == 2 && !j->stream;
}

/*
 * Returns where the result is. Without streaming it goes to a destination at once, but only in the last step: until then a source
 * that is one as well is still needed.
 */
static const char *fold(const struct job *j, size_t at_bytes, size_t count, char *partial)
{
    struct step s = {.first = true, .count = count, .out = partial};
    for (int next = 0; next < j->nsrc; s.first = false) {
        while (s.k < j->lockstep && next < j->nsrc)
            s.in[s.k++] = (const char *)j->src[next++] + at_bytes;
        s.last = next == j->nsrc;
        if (s.last && !j->stream)
            s.out = (char *)j->dst[0] + at_bytes;
        if (both(j))
            s.also = (char *)j->dst[1] + at_bytes;
        j->fold(&s);
        s.in[0] = partial;
        s.k = 1;
    }
    return s.out;
}

static bool reads_ahead(const struct job *j)
{
    return j->stream && j->nsrc > 1 && j->nsrc <= j->ndst && j->nsrc <= AHEAD_SOURCES;
}

/* AHEAD: of the block that follows, lines are asked for. */
static void block(const struct job *j, size_t at_bytes, size_t count, bool ahead)
{
    _Alignas(LINE) char partial[BLOCK_BYTES];
    size_t bytes = count * j->elem_bytes;
    const char *result = j->nsrc == 1 ? (const char *)j->src[0] + at_bytes : fold(j, at_bytes, count, partial);
    for (int i = both(j) ? 2 : 0; i < j->ndst; i++) {
        char *to = (char *)j->dst[i] + at_bytes;
        if (to != result && j->stream)
            stream(to, result, bytes, ahead && i < j->nsrc ? (const char *)j->src[i] + at_bytes + bytes : NULL);
        else if (to != result)
            memcpy(to, result, bytes);
    }
}

/* All at once where nothing is kept in L1. */
static __attribute__((noinline)) void run(const struct job *j, size_t count)
{
    bool direct = j->nsrc == 1 ? j->ndst == 1 : !j->stream && j->nsrc <= j->lockstep && (j->ndst == 1 || both(j));
    const bool ahead = reads_ahead(j);
    size_t step = direct ? count : ahead ? j->block * AHEAD_BYTES / BLOCK_BYTES : j->block;
    for (size_t at = 0; at < count; at += step)
        block(j, at * j->elem_bytes, at + step < count ? step : count - at, ahead && at + step < count);
}

#define T int8_t
#define U uint8_t
#define OF(x) x##_int8
#define REAL 0
#include "exec/reduce_number.h"

#define T uint8_t
#define U uint8_t
#define OF(x) x##_uint8
#define REAL 0
#include "exec/reduce_number.h"

#define T int16_t
#define U uint16_t
#define OF(x) x##_int16
#define REAL 0
#include "exec/reduce_number.h"

#define T uint16_t
#define U uint16_t
#define OF(x) x##_uint16
#define REAL 0
#include "exec/reduce_number.h"

#define T int32_t
#define U uint32_t
#define OF(x) x##_int32
#define REAL 0
#include "exec/reduce_number.h"

#define T uint32_t
#define U uint32_t
#define OF(x) x##_uint32
#define REAL 0
#include "exec/reduce_number.h"

#define T int64_t
#define U uint64_t
#define OF(x) x##_int64
#define REAL 0
#include "exec/reduce_number.h"

#define T uint64_t
#define U uint64_t
#define OF(x) x##_uint64
#define REAL 0
#include "exec/reduce_number.h"

#define T float
#define U uint32_t
#define OF(x) x##_float
#define REAL 1
#include "exec/reduce_number.h"

#define T double
#define U uint64_t
#define OF(x) x##_double
#define REAL 1
#include "exec/reduce_number.h"

#include "exec/reduce_half.h"
#include "exec/reduce_fp8.h"

#if defined(__AVX512F__)
NATIVE static void native_SUM(const struct step *s)
{
    fold_native(PEAL_SUM, s);
}

NATIVE static void native_PROD(const struct step *s)
{
    fold_native(PEAL_PROD, s);
}
#endif

static INLINE void fold_bf16_best(peal_op op, const struct step *s)
{
#if defined(__AVX512F__)
    if (__builtin_cpu_supports("avx512bf16")) {
        (op == PEAL_SUM ? native_SUM : native_PROD)(s);
        return;
    }
#endif
    fold_bf16(op, s);
}

static INLINE void few_bf16_best(peal_op op, void *const *dst, int ndst, const void *const *src, int nsrc, size_t count)
{
    few_bf16(op, dst, ndst, src, nsrc, count);
}

/* The function reduce_<name>_<OP>, by the loops of WAY. */
#define PAIR(name, OP, way, bytes, wide, lockstep) \
    static void fold_##name##_##OP(const struct step *s) \
    { \
        fold_##way(PEAL_##OP, s); \
    } \
    static void reduce_##name##_##OP(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, bool stream) \
    { \
        if (count <= FEW && nsrc > 1) \
            few_##way(PEAL_##OP, dst, ndst, src, nsrc, count); \
        else \
            run(&(struct job){dst, src, ndst, nsrc, stream, lockstep, bytes, BLOCK_BYTES / (wide), fold_##name##_##OP}, count); \
    }
#define SAME(name, OP, bytes) PAIR(name, OP, name, bytes, bytes, GROUP)
#define ORDERED(name, bytes) SAME(name, MIN, bytes) SAME(name, MAX, bytes)
#define SUMMED(name, bytes) ORDERED(name, bytes) SAME(name, SUM, bytes) SAME(name, PROD, bytes)
#define WHOLE(name, bytes) \
    SUMMED(name, bytes) SAME(name, LAND, bytes) SAME(name, LOR, bytes) SAME(name, LXOR, bytes) \
    SAME(name, BAND, bytes) SAME(name, BOR, bytes) SAME(name, BXOR, bytes)
#define NARROW(name, way, bytes) \
    PAIR(name, SUM, way, bytes, sizeof(float), GROUP) PAIR(name, PROD, way, bytes, sizeof(float), GROUP) \
    PAIR(name, MIN, name##_order, bytes, bytes, GROUP) PAIR(name, MAX, name##_order, bytes, bytes, GROUP)
#define SCALAR(name, OP, type) PAIR(name, OP, name, sizeof(type), sizeof(type), 2)

WHOLE(uint8, 1)
WHOLE(uint16, 2)
WHOLE(uint32, 4)
WHOLE(uint64, 8)
ORDERED(int8, 1)
ORDERED(int16, 2)
ORDERED(int32, 4)
ORDERED(int64, 8)
NARROW(fp8_e4m3, fp8_e4m3, 1)
NARROW(fp8_e5m2, fp8_e5m2, 1)
NARROW(fp16, fp16, 2)
NARROW(bf16, bf16_best, 2)
SUMMED(float, 4)
SUMMED(double, 8)

/* A complex number is two of its parts to a sum. */
#define PARTS(name, part) \
    static void reduce_##name##_SUM(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, bool stream) \
    { \
        reduce_##part##_SUM(dst, ndst, src, nsrc, 2 * count, stream); \
    }
PARTS(complex_float, float)
PARTS(complex_double, double)

/* WIDE holds every quotient so well that none is rounded up to a whole number. It divides faster than integers do. */
#define DIVIDE(name, type, wide) \
    static void divide_##name(void *vector, size_t count, int32_t n) \
    { \
        type *x = vector; \
        for (size_t i = 0; i < count; i++) \
            x[i] = give_##name(PEAL_AVG, (type)(x[i] / (wide)n)); \
    }
#define DIVIDE_PARTS(name, part) \
    static void divide_##name(void *vector, size_t count, int32_t n) \
    { \
        divide_##part(vector, 2 * count, n); \
    }

DIVIDE(int8, int8_t, float)
DIVIDE(uint8, uint8_t, float)
DIVIDE(int16, int16_t, float)
DIVIDE(uint16, uint16_t, float)
DIVIDE(int32, int32_t, double)
DIVIDE(uint32, uint32_t, double)
DIVIDE(int64, int64_t, int64_t)
DIVIDE(uint64, uint64_t, uint64_t)
DIVIDE(float, float, float)
DIVIDE(double, double, double)
DIVIDE_PARTS(complex_float, float)
DIVIDE_PARTS(complex_double, double)

/*
 * Once for all instruction sets: x87 has but one, and where there is a fused multiply-add, gcc 12 makes one of complex products,
 * although contraction is off.
 */
#if !defined(__AVX2__)
#include "exec/reduce_scalar.h"

SCALAR(long_double, SUM, long_double)
SCALAR(long_double, PROD, long_double)
SCALAR(long_double, MIN, long_double)
SCALAR(long_double, MAX, long_double)
SCALAR(complex_float, PROD, complex_float)
SCALAR(complex_double, PROD, complex_double)
SCALAR(long_complex, PROD, long_complex)
PARTS(long_complex, long_double)
DIVIDE_PARTS(long_complex, long_double)
#define PLAIN_ENTRY(name, OP) ENTRY(name, OP)
#else
#define PLAIN_ENTRY(name, OP) [PEAL_##OP] = NULL
#endif

/* Signed integers differ from unsigned ones in min and max only. */
#define ENTRY(name, OP) [PEAL_##OP] = reduce_##name##_##OP
#define LOGIC(name) ENTRY(name, LAND), ENTRY(name, LOR), ENTRY(name, LXOR)
#define BITS(name) ENTRY(name, BAND), ENTRY(name, BOR), ENTRY(name, BXOR)
#define REALS(name) {ENTRY(name, SUM), ENTRY(name, PROD), ENTRY(name, MIN), ENTRY(name, MAX)}
#define INTEGERS(name, uname) \
    {ENTRY(uname, SUM), ENTRY(uname, PROD), ENTRY(name, MIN), ENTRY(name, MAX), LOGIC(uname), BITS(uname)}

const peali_reduce_table TABLE = {
    .reduce = {
        [PEAL_INT8] = INTEGERS(int8, uint8),     [PEAL_UINT8] = INTEGERS(uint8, uint8),
        [PEAL_INT16] = INTEGERS(int16, uint16),  [PEAL_UINT16] = INTEGERS(uint16, uint16),
        [PEAL_INT32] = INTEGERS(int32, uint32),  [PEAL_UINT32] = INTEGERS(uint32, uint32),
        [PEAL_INT64] = INTEGERS(int64, uint64),  [PEAL_UINT64] = INTEGERS(uint64, uint64),
        [PEAL_BYTE] = {BITS(uint8)},             [PEAL_BOOL] = {LOGIC(uint8)},
        [PEAL_FP8_E4M3] = REALS(fp8_e4m3),       [PEAL_FP8_E5M2] = REALS(fp8_e5m2),
        [PEAL_FP16] = REALS(fp16),               [PEAL_BF16] = REALS(bf16),
        [PEAL_FLOAT] = REALS(float),             [PEAL_DOUBLE] = REALS(double),
        [PEAL_COMPLEX_FLOAT] = {ENTRY(complex_float, SUM), PLAIN_ENTRY(complex_float, PROD)},
        [PEAL_COMPLEX_DOUBLE] = {ENTRY(complex_double, SUM), PLAIN_ENTRY(complex_double, PROD)},
#if !defined(__AVX2__)
        [PEAL_LONG_DOUBLE] = REALS(long_double),
        [PEAL_COMPLEX_LONG_DOUBLE] = {ENTRY(long_complex, SUM), ENTRY(long_complex, PROD)},
#endif
    },
    .divide = {
        [PEAL_INT8] = divide_int8,               [PEAL_UINT8] = divide_uint8,
        [PEAL_INT16] = divide_int16,             [PEAL_UINT16] = divide_uint16,
        [PEAL_INT32] = divide_int32,             [PEAL_UINT32] = divide_uint32,
        [PEAL_INT64] = divide_int64,             [PEAL_UINT64] = divide_uint64,
        [PEAL_FP8_E4M3] = divide_fp8_e4m3,       [PEAL_FP8_E5M2] = divide_fp8_e5m2,
        [PEAL_FP16] = divide_fp16,               [PEAL_BF16] = divide_bf16,
        [PEAL_FLOAT] = divide_float,             [PEAL_DOUBLE] = divide_double,
        [PEAL_COMPLEX_FLOAT] = divide_complex_float,
        [PEAL_COMPLEX_DOUBLE] = divide_complex_double,
#if !defined(__AVX2__)
        [PEAL_LONG_DOUBLE] = divide_long_double,
        [PEAL_COMPLEX_LONG_DOUBLE] = divide_long_complex,
#endif
    },
};
