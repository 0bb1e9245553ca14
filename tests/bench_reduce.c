/*
 * Reductions, with ordinary and with streaming stores, against a STREAM-like add of as many bytes on the same core in the same
 * instruction set: bytes read and written per second, and the ratios. They are timed in turn, and the best of all rounds counts.
 * Every result is compared with the plain instruction set's.
 *
 *     bench_reduce [ISA]      ISA: a number of peali_isa; by default the best of this CPU
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/reduce.h"

enum { ROUNDS = 15, MAX_K = 64, MAX_M = 16 };
static const double ROUND_S = 0.004; /* shorter ones drown in the clock and in interrupts */
static const size_t POOL_BYTES = 128 << 20, MOST_BYTES = 192 << 20; /* for all sources, for all destinations; for both */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void (*stream_fn)(double *restrict c, const double *restrict a, const double *restrict b, size_t count);

/* Vectors whatever the build type, or the add is no measure. */
#define STREAM(name, target) \
    target __attribute__((optimize("O3"))) \
    static void name(double *restrict c, const double *restrict a, const double *restrict b, size_t count) \
    { \
        for (size_t i = 0; i < count; i++) \
            c[i] = a[i] + b[i]; \
    }
STREAM(stream_plain, )
#if defined(__x86_64__)
STREAM(stream_avx2, __attribute__((target("avx2"))))
STREAM(stream_avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))))
static const stream_fn streams[PEALI_ISA_COUNT] = {stream_plain, stream_avx2, stream_avx512};
#else
static const stream_fn streams[PEALI_ISA_COUNT] = {stream_plain};
#endif
static const char *const isa_names[PEALI_ISA_COUNT] = {"plain", "avx2", "avx512"};

struct shape {
    peal_type type;
    peal_op op;
    int nsrc, ndst;
    size_t bytes; /* of one vector */
};

static char *sources, *destinations;
static const void *src[MAX_K];
static void *dst[MAX_M];

static void lay_out(const struct shape *s)
{
    for (int i = 0; i < s->nsrc; i++)
        src[i] = sources + (size_t)i * s->bytes;
    for (int i = 0; i < s->ndst; i++)
        dst[i] = destinations + (size_t)i * s->bytes;
}

static void reduce(const struct shape *s, peali_isa isa, bool stream, size_t times)
{
    peali_reduce_fn f = peali_reduce_find_isa(s->type, s->op, isa);
    for (size_t i = 0; i < times; i++)
        f(dst, s->ndst, src, s->nsrc, s->bytes / peal_type_bytes(s->type), stream);
}

static int same_as_plain(const struct shape *s, peali_isa isa, bool stream)
{
    char *want = malloc(s->bytes);
    int same = want != NULL;
    reduce(s, PEALI_ISA_PLAIN, false, 1);
    if (want)
        memcpy(want, dst[0], s->bytes);
    memset(destinations, 0xff, s->bytes * (size_t)s->ndst);
    reduce(s, isa, stream, 1);
    for (int i = 0; same && i < s->ndst; i++)
        same = memcmp(want, dst[i], s->bytes) == 0;
    free(want);
    return same;
}

static void add(peali_isa isa, size_t bytes, size_t times)
{
    size_t each = bytes / 3 / sizeof(double) * sizeof(double);
    for (size_t i = 0; i < times; i++)
        streams[isa]((double *)destinations, (double *)sources, (double *)(sources + each), each / sizeof(double));
}

/* The most bytes a second of the reduction with ordinary and with streaming stores, and of the add. */
static void race(const struct shape *s, peali_isa isa, double rates[3])
{
    size_t bytes = s->bytes * (size_t)(s->nsrc + s->ndst), times = 1 + (size_t)(ROUND_S * 2e10 / (double)bytes);
    rates[0] = rates[1] = rates[2] = 0;
    for (int i = 0; i < 3 * ROUNDS; i++) {
        double t = now_s();
        if (i % 3 < 2)
            reduce(s, isa, i % 3 == 1, times);
        else
            add(isa, bytes, times);
        double rate = (double)bytes * (double)times / (now_s() - t);
        rates[i % 3] = rate > rates[i % 3] ? rate : rates[i % 3];
    }
}

static int row(const struct shape *s, peali_isa isa)
{
    double rates[3];
    lay_out(s);
    if (!same_as_plain(s, isa, false) || !same_as_plain(s, isa, true))
        return fprintf(stderr, "wrong: %s %s\n", peal_type_name(s->type), peal_op_name(s->op)), 1;
    race(s, isa, rates);
    printf("%-8s %-8s %-5s %4d %4d %10zu %9.2f %9.2f %9.2f %7.2f %7.2f\n", isa_names[isa], peal_type_name(s->type),
           peal_op_name(s->op), s->nsrc, s->ndst, s->bytes, rates[0] * 1e-9, rates[1] * 1e-9, rates[2] * 1e-9,
           rates[0] / rates[2], rates[1] / rates[2]);
    return 0;
}

/* Every pair of type and op in the shape of STREAM. */
static int pairs(peali_isa isa)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    static const peal_type types[] = {PEAL_FLOAT, PEAL_DOUBLE, PEAL_INT32, PEAL_BF16, PEAL_FP16, PEAL_FP8_E4M3,
                                      PEAL_FP8_E5M2, PEAL_INT8, PEAL_INT64};
    static const peal_op ops[] = {PEAL_SUM, PEAL_MAX};
    int failed = 0;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int o = 0; o < 2; o++)
            for (int z = 0; z < 3; z++)
                failed += row(&(struct shape){types[t], ops[o], 2, 1, sizes[z]}, isa);
    return failed;
}

static bool fits(const struct shape *s)
{
    return s->bytes * (size_t)s->nsrc <= POOL_BYTES && s->bytes * (size_t)(s->nsrc + s->ndst) <= MOST_BYTES;
}

/* Other shapes for one of them. */
static int shapes(peali_isa isa)
{
    static const size_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 8 << 20};
    static const int ks[] = {1, 2, 4, 16, 64}, ms[] = {1, 2, 4, 16};
    int failed = 0;
    for (int k = 0; k < 5; k++)
        for (int m = 0; m < 4; m++)
            for (int z = 0; z < 4; z++) {
                struct shape s = {PEAL_FLOAT, PEAL_SUM, ks[k], ms[m], sizes[z]};
                failed += fits(&s) && row(&s, isa);
            }
    return failed;
}

static int make_vectors(void)
{
    sources = aligned_alloc(4096, POOL_BYTES);
    destinations = aligned_alloc(4096, POOL_BYTES);
    for (size_t b = 0; sources && b < POOL_BYTES; b++)
        sources[b] = (char)(b * 31 + b / 4096 * 7) & 0x3f; /* no NaN in any type */
    return sources && destinations ? 0 : -1;
}

int main(int argc, char **argv)
{
    int isa = argc > 1 ? atoi(argv[1]) : PEALI_ISA_COUNT - 1;
    while (argc < 2 && !peali_reduce_find_isa(PEAL_FLOAT, PEAL_SUM, (peali_isa)isa))
        isa--;
    if (!peali_reduce_find_isa(PEAL_FLOAT, PEAL_SUM, (peali_isa)isa)) {
        fprintf(stderr, "skipped: this CPU has no instruction set %d of reduce.h\n", isa);
        return 77;
    }
    if (make_vectors())
        return 1;
    printf("%-8s %-8s %-5s %4s %4s %10s %9s %9s %9s %7s %7s\n", "isa", "type", "op", "nsrc", "ndst", "bytes", "GB/s", "streamed",
           "add", "ratio", "str.");
    return pairs((peali_isa)isa) + shapes((peali_isa)isa) > 0;
}
