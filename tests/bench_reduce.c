/*
 * Reductions against a STREAM-like add on the same core in the same instruction set: bytes read and written per second, and
 * the ratio. Both are timed in turn, and the best of all rounds counts. Every result is compared with the plain instruction set's.
 *
 *     bench_reduce [ISA]      ISA: a number of peali_isa; by default the best of this CPU
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/reduce.h"

enum { ROUNDS = 15, MAX_K = 64, MAX_M = 4 };
static const double ROUND_S = 0.004; /* shorter ones drown in the clock and in interrupts */

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

static void *src[MAX_K], *dst[MAX_M];

static void reduce_once(const struct shape *s, peali_isa isa)
{
    peali_reduce_find_isa(s->type, s->op, isa)(dst, s->ndst, (const void *const *)src, s->nsrc,
                                               s->bytes / peal_type_bytes(s->type));
}

static int same_as_plain(const struct shape *s, peali_isa isa)
{
    char *want = malloc(s->bytes);
    reduce_once(s, PEALI_ISA_PLAIN);
    memcpy(want, dst[0], s->bytes);
    memset(dst[0], 0xff, s->bytes);
    reduce_once(s, isa);
    int same = memcmp(want, dst[0], s->bytes) == 0;
    free(want);
    return same;
}

/* Bytes a second of the reduction, and of the add over vectors of the same size. */
static void race(const struct shape *s, peali_isa isa, double *reduced, double *added)
{
    double bytes = (double)s->bytes * (s->nsrc + s->ndst);
    size_t reps = 1 + (size_t)(ROUND_S * 2e10 / bytes);
    *reduced = *added = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = now_s();
        for (size_t i = 0; i < reps; i++)
            streams[isa](dst[0], src[0], src[1], s->bytes / sizeof(double));
        double t1 = now_s();
        for (size_t i = 0; i < reps; i++)
            reduce_once(s, isa);
        double t2 = now_s();
        double add = 3.0 * (double)s->bytes * (double)reps / (t1 - t0), reduce = bytes * (double)reps / (t2 - t1);
        *added = add > *added ? add : *added;
        *reduced = reduce > *reduced ? reduce : *reduced;
    }
}

static int row(const struct shape *s, peali_isa isa)
{
    double reduced, added;
    if (!same_as_plain(s, isa))
        return fprintf(stderr, "wrong: %s %s\n", peal_type_name(s->type), peal_op_name(s->op)), 1;
    race(s, isa, &reduced, &added);
    printf("%-8s %-8s %-5s %4d %4d %10zu %9.2f %9.2f %7.2f\n", isa_names[isa], peal_type_name(s->type), peal_op_name(s->op),
           s->nsrc, s->ndst, s->bytes, reduced * 1e-9, added * 1e-9, reduced / added);
    return 0;
}

/* Every pair of type and op in the shape of STREAM, then other shapes for one of them. */
static int table(peali_isa isa)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    static const int shapes[][2] = {{2, 2}, {3, 1}, {4, 1}, {4, 4}, {16, 1}, {64, 1}, {64, 4}};
    static const peal_type types[] = {PEAL_FLOAT, PEAL_DOUBLE, PEAL_INT32, PEAL_BF16, PEAL_FP16, PEAL_INT8, PEAL_INT64};
    static const peal_op ops[] = {PEAL_SUM, PEAL_MAX};
    int failed = 0;
    printf("%-8s %-8s %-5s %4s %4s %10s %9s %9s %7s\n", "isa", "type", "op", "nsrc", "ndst", "bytes", "GB/s", "add GB/s", "ratio");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int o = 0; o < 2; o++)
            for (int z = 0; z < 3; z++)
                failed += row(&(struct shape){types[t], ops[o], 2, 1, sizes[z]}, isa);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int z = 0; z < 2; z++)
            failed += row(&(struct shape){PEAL_FLOAT, PEAL_SUM, shapes[i][0], shapes[i][1], sizes[z]}, isa);
    return failed;
}

/* Only the first sources are ever as long as the largest size. */
static int make_vectors(void)
{
    for (int i = 0; i < MAX_K + MAX_M; i++) {
        size_t bytes = i < 2 || i == MAX_K ? 64 << 20 : 1 << 20;
        char *v = aligned_alloc(4096, bytes);
        if (!v)
            return -1;
        for (size_t b = 0; b < bytes; b++)
            v[b] = (char)(b * 31 + (size_t)i * 7) & 0x3f; /* no NaN in any type */
        *(i < MAX_K ? &src[i] : &dst[i - MAX_K]) = v;
    }
    return 0;
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
    return make_vectors() || table((peali_isa)isa);
}
