/*
 * Reductions for one instruction set: compiled once for each (meson.build), into the table that TABLE names.
 *
 * All compilations give the same bits: each element is folded left to right by itself, nothing is contracted into a fused
 * multiply-add, and every NaN that a reduction makes or passes on is the one that NAN is. The compiler makes the vectors.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "exec/reduce_isa.h"

#define INLINE inline __attribute__((always_inline))

enum { GROUP = 4, BLOCK_BYTES = 4096 }; /* sources read in lockstep, and what of them is kept in L1; bench_reduce measures both */

struct job {
    void *const *dst;
    const void *const *src;
    int ndst, nsrc;
    size_t elem_bytes;
    void (*fold)(void *out, void *also, const void *const *in, int k, size_t count); /* k: 2 to GROUP; ALSO may be NULL */
};

static void copy(const struct job *j, size_t count)
{
    for (int i = 0; i < j->ndst; i++)
        if (j->dst[i] != j->src[0])
            memcpy(j->dst[i], j->src[0], count * j->elem_bytes);
}

/* Only the last group is written to a destination: until then a source that is one as well is still needed. */
static void block(const struct job *j, size_t at_bytes, size_t count)
{
    _Alignas(64) char partial[BLOCK_BYTES];
    const void *in[GROUP];
    char *out = (char *)j->dst[0] + at_bytes, *also = j->ndst > 1 ? (char *)j->dst[1] + at_bytes : NULL;
    int k = 0;
    for (int s = 0; s < j->nsrc;) {
        while (k < GROUP && s < j->nsrc)
            in[k++] = (const char *)j->src[s++] + at_bytes;
        if (s < j->nsrc)
            j->fold(partial, NULL, in, k, count);
        else
            j->fold(out, also, in, k, count);
        in[0] = partial;
        k = 1;
    }
    for (int i = 2; i < j->ndst; i++)
        memcpy((char *)j->dst[i] + at_bytes, out, count * j->elem_bytes);
}

static void run(const struct job *j, size_t count)
{
    size_t step = j->nsrc <= GROUP && j->ndst <= 2 ? count : BLOCK_BYTES / j->elem_bytes;
    if (j->nsrc == 1)
        copy(j, count);
    else
        for (size_t at = 0; at < count; at += step)
            block(j, at * j->elem_bytes, at + step < count ? step : count - at);
}

#define T int8_t
#define U uint8_t
#define OF(x) x##_int8
#define REAL 0
#include "exec/reduce_fold.h"

#define T uint8_t
#define U uint8_t
#define OF(x) x##_uint8
#define REAL 0
#include "exec/reduce_fold.h"

#define T int16_t
#define U uint16_t
#define OF(x) x##_int16
#define REAL 0
#include "exec/reduce_fold.h"

#define T uint16_t
#define U uint16_t
#define OF(x) x##_uint16
#define REAL 0
#include "exec/reduce_fold.h"

#define T int32_t
#define U uint32_t
#define OF(x) x##_int32
#define REAL 0
#include "exec/reduce_fold.h"

#define T uint32_t
#define U uint32_t
#define OF(x) x##_uint32
#define REAL 0
#include "exec/reduce_fold.h"

#define T int64_t
#define U uint64_t
#define OF(x) x##_int64
#define REAL 0
#include "exec/reduce_fold.h"

#define T uint64_t
#define U uint64_t
#define OF(x) x##_uint64
#define REAL 0
#include "exec/reduce_fold.h"

#define T float
#define U uint32_t
#define OF(x) x##_float
#define REAL 1
#include "exec/reduce_fold.h"

#define T double
#define U uint64_t
#define OF(x) x##_double
#define REAL 1
#include "exec/reduce_fold.h"

/* The functions reduce_<name>_<OP> for one type. */
#define PAIR(name, bytes, OP) \
    static void fold_##name##_##OP(void *out, void *also, const void *const *in, int k, size_t count) \
    { \
        fold_##name(PEAL_##OP, out, also, in, k, count); \
    } \
    static void reduce_##name##_##OP(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count) \
    { \
        run(&(struct job){dst, src, ndst, nsrc, bytes, fold_##name##_##OP}, count); \
    }
#define ORDERED(name, bytes) PAIR(name, bytes, MIN) PAIR(name, bytes, MAX)
#define SUMMED(name, bytes) ORDERED(name, bytes) PAIR(name, bytes, SUM) PAIR(name, bytes, PROD)
#define WHOLE(name, bytes) \
    SUMMED(name, bytes) PAIR(name, bytes, LAND) PAIR(name, bytes, LOR) PAIR(name, bytes, LXOR) \
    PAIR(name, bytes, BAND) PAIR(name, bytes, BOR) PAIR(name, bytes, BXOR)

WHOLE(uint8, 1)
WHOLE(uint16, 2)
WHOLE(uint32, 4)
WHOLE(uint64, 8)
ORDERED(int8, 1)
ORDERED(int16, 2)
ORDERED(int32, 4)
ORDERED(int64, 8)
SUMMED(float, 4)
SUMMED(double, 8)

/* Signed integers differ from unsigned ones in min and max only. */
#define ENTRY(name, OP) [PEAL_##OP] = reduce_##name##_##OP
#define REALS(name) {ENTRY(name, SUM), ENTRY(name, PROD), ENTRY(name, MIN), ENTRY(name, MAX)}
#define INTEGERS(name, uname) \
    {ENTRY(uname, SUM), ENTRY(uname, PROD), ENTRY(name, MIN), ENTRY(name, MAX), ENTRY(uname, LAND), ENTRY(uname, LOR), \
     ENTRY(uname, LXOR), ENTRY(uname, BAND), ENTRY(uname, BOR), ENTRY(uname, BXOR)}

peali_reduce_table TABLE = {
    [PEAL_INT8] = INTEGERS(int8, uint8),     [PEAL_UINT8] = INTEGERS(uint8, uint8),
    [PEAL_INT16] = INTEGERS(int16, uint16),  [PEAL_UINT16] = INTEGERS(uint16, uint16),
    [PEAL_INT32] = INTEGERS(int32, uint32),  [PEAL_UINT32] = INTEGERS(uint32, uint32),
    [PEAL_INT64] = INTEGERS(int64, uint64),  [PEAL_UINT64] = INTEGERS(uint64, uint64),
    [PEAL_FLOAT] = REALS(float),             [PEAL_DOUBLE] = REALS(double),
};
