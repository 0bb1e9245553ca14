/*
 * Every reduction in every instruction set of this CPU, bit for bit against a scalar reference that shares no code with it.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/reduce.h"
#include "narrow.h"

enum { MAX_K = 64, MAX_M = 5, MOST_M = 17, SMALL = 67, MEDIUM = 1201, LARGE = 20011, GUARD_BYTES = 64, GUARD = 0xa5 };

static uint64_t load(const char *at, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, at, bytes); /* little-endian, as all CPUs that Peal is tested on */
    return bits;
}

static __int128 integer_of(peal_type type, uint64_t bits)
{
    int unused = 64 - 8 * (int)peal_type_bytes(type);
    int is_signed = type == PEAL_INT8 || type == PEAL_INT16 || type == PEAL_INT32 || type == PEAL_INT64;
    return is_signed ? (__int128)((int64_t)(bits << unused) >> unused) : (__int128)(bits << unused >> unused);
}

static unsigned __int128 integer_ref(peal_op op, __int128 a, __int128 b)
{
    switch (op) {
    case PEAL_SUM: return (unsigned __int128)(a + b);
    case PEAL_PROD: return (unsigned __int128)a * (unsigned __int128)b;
    case PEAL_MIN: return (unsigned __int128)(a <= b ? a : b);
    case PEAL_MAX: return (unsigned __int128)(a >= b ? a : b);
    case PEAL_LAND: return a && b;
    case PEAL_LOR: return a || b;
    case PEAL_LXOR: return !a != !b;
    case PEAL_BAND: return (unsigned __int128)(a & b);
    case PEAL_BOR: return (unsigned __int128)(a | b);
    default: return (unsigned __int128)(a ^ b);
    }
}

/* Min and max of floating point; a float is exact as a double, its NaN and its zeros too. */
static double extreme(peal_op op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    int a_less = a < b || (a == b && signbit(a));
    return a_less == (op == PEAL_MIN) ? a : b;
}

static uint64_t float_ref(peal_op op, uint64_t abits, uint64_t bbits)
{
    float a, b;
    memcpy(&a, &abits, sizeof a);
    memcpy(&b, &bbits, sizeof b);
    float r = op == PEAL_SUM ? a + b : op == PEAL_PROD ? a * b : (float)extreme(op, a, b);
    uint32_t bits;
    memcpy(&bits, &r, sizeof bits);
    return isnan(r) ? 0x7fc00000 : bits;
}

static uint64_t double_ref(peal_op op, uint64_t abits, uint64_t bbits)
{
    double a, b;
    memcpy(&a, &abits, sizeof a);
    memcpy(&b, &bbits, sizeof b);
    double r = op == PEAL_SUM ? a + b : op == PEAL_PROD ? a * b : extreme(op, a, b);
    uint64_t bits;
    memcpy(&bits, &r, sizeof bits);
    return isnan(r) ? 0x7ff8000000000000 : bits;
}

/* Min and max of two are one of them: they round nothing, and keep infinity. */
static uint64_t narrow_ref(peal_type type, peal_op op, const uint64_t *from, int n)
{
    volatile float total = (float)narrow_value(type, (unsigned)from[0]);
    for (int i = 1; i < n; i++) {
        float next = (float)narrow_value(type, (unsigned)from[i]);
        total = op == PEAL_SUM ? total + next : op == PEAL_PROD ? total * next : (float)extreme(op, total, next);
    }
    if (type == PEAL_FP8_E5M2 && isinf(total) && op != PEAL_SUM && op != PEAL_PROD)
        return total > 0 ? 0x7c : 0xfc;
    return narrow_bits(type, total);
}

static uint64_t ref(peal_type type, peal_op op, uint64_t a, uint64_t b)
{
    if (type == PEAL_FLOAT)
        return float_ref(op, a, b);
    if (type == PEAL_DOUBLE)
        return double_ref(op, a, b);
    return (uint64_t)integer_ref(op, integer_of(type, a), integer_of(type, b));
}

static long double long_ref(peal_op op, long double a, long double b)
{
    int a_less = a < b || (a == b && signbit(a));
    if (op == PEAL_SUM || op == PEAL_PROD)
        return op == PEAL_SUM ? a + b : a * b;
    return isnan(a) || isnan(b) ? (long double)NAN : a_less == (op == PEAL_MIN) ? a : b;
}

/* What a number of TYPE consists of: two for complex types, else itself. */
static peal_type part_of(peal_type type)
{
    switch (type) {
    case PEAL_COMPLEX_FLOAT: return PEAL_FLOAT;
    case PEAL_COMPLEX_DOUBLE: return PEAL_DOUBLE;
    case PEAL_COMPLEX_LONG_DOUBLE: return PEAL_LONG_DOUBLE;
    default: return type;
    }
}

/* One element of any type, as it lies in memory. */
typedef struct elem {
    char bytes[2 * sizeof(long double)];
} elem;

enum { LONG_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double) };

/* C = A op B for one part. The padding of long double is garbage in operands, and zero in results. */
static void part_ref(peal_type part, peal_op op, const char *a, const char *b, char *c)
{
    size_t bytes = peal_type_bytes(part);
    long double x, y;
    if (part != PEAL_LONG_DOUBLE) {
        uint64_t bits = ref(part, op, load(a, bytes), load(b, bytes));
        memcpy(c, &bits, bytes);
        return;
    }
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    x = long_ref(op, x, y);
    x = isnan(x) ? (long double)NAN : x;
    memset(c, 0, sizeof x);
    memcpy(c, &x, LONG_BYTES);
}

static void complex_product(peal_type part, const char *a, const char *b, char *c)
{
    size_t bytes = peal_type_bytes(part), sign = (part == PEAL_LONG_DOUBLE ? LONG_BYTES : bytes) - 1;
    elem p, q, r, s;
    part_ref(part, PEAL_PROD, a, b, p.bytes);
    part_ref(part, PEAL_PROD, a + bytes, b + bytes, q.bytes);
    part_ref(part, PEAL_PROD, a, b + bytes, r.bytes);
    part_ref(part, PEAL_PROD, a + bytes, b, s.bytes);
    q.bytes[sign] = (char)(q.bytes[sign] ^ 0x80);
    part_ref(part, PEAL_SUM, p.bytes, q.bytes, c);
    part_ref(part, PEAL_SUM, r.bytes, s.bytes, c + bytes);
}

static void elem_ref(peal_type type, peal_op op, const elem *from, int n, elem *to)
{
    peal_type part = part_of(type);
    size_t bytes = peal_type_bytes(part);
    *to = from[0];
    if (narrow(type) && n > 1) {
        uint64_t bits[MAX_K], total;
        for (int i = 0; i < n; i++)
            bits[i] = load(from[i].bytes, bytes);
        total = narrow_ref(type, op, bits, n);
        memcpy(to->bytes, &total, bytes);
        return;
    }
    for (int i = 1; i < n; i++) {
        elem left = *to;
        if (part != type && op == PEAL_PROD)
            complex_product(part, left.bytes, from[i].bytes, to->bytes);
        else
            for (size_t at = 0; at < peal_type_bytes(type); at += bytes)
                part_ref(part, op, left.bytes + at, from[i].bytes + at, to->bytes + at);
    }
}

static const uint32_t odd_floats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3f800001, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fc12345, 0xffc54321, 0x7f800001, 0xff812345, 0x4b7fffff,
};
static const uint64_t odd_doubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x3ff0000000000001, 0x0000000000000001,
    0x8000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000,
    0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000000, 0x7ff8000012345678, 0xfff8123400000000, 0x7ff0000000000001,
    0xfff0123400000000, 0x433fffffffffffff,
};
static const uint64_t odd_integers[] = {
    0, 1, 2, 3, 0x7f, 0x80, 0x81, 0xff, 0x7fff, 0x8000, 0x8001, 0xffff, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
    0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xffffffffffffffff,
};
static const uint16_t odd_fp16s[] = {
    0x0000, 0x8000, 0x3c00, 0xbc00, 0x3c01, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff,
    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7e12, 0xfe54, 0x7c01, 0xfc12, 0x63ff,
};
static const uint16_t odd_bf16s[] = {
    0x0000, 0x8000, 0x3f80, 0xbf80, 0x3f81, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f,
    0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7fc1, 0xffc5, 0x7f81, 0xff82, 0x4b7f,
};
enum { ODD = 20 };
_Static_assert(sizeof odd_floats / 4 == ODD && sizeof odd_doubles / 8 == ODD && sizeof odd_integers / 8 == ODD, "equally many");
_Static_assert(sizeof odd_fp16s / 2 == ODD && sizeof odd_bf16s / 2 == ODD, "equally many");

static uint64_t odd(peal_type type, unsigned i)
{
    switch (type) {
    case PEAL_FP16: return odd_fp16s[i % ODD];
    case PEAL_BF16: return odd_bf16s[i % ODD];
    case PEAL_FLOAT: return odd_floats[i % ODD];
    case PEAL_DOUBLE: case PEAL_LONG_DOUBLE: return odd_doubles[i % ODD];
    default: return odd_integers[i % ODD];
    }
}

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252; /* xorshift64, G. Marsaglia 2003 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Odd values and zeros in some places only: everywhere, they would make each long sum a NaN and each long product 0. */
static uint64_t draw(peal_type type, size_t i)
{
    uint64_t r = next_random() >> 8;
    float f = (float)(int)(r % 20001 - 10000) / 7000;
    double d = (double)f / 3;
    uint64_t bits = 0;
    if (i % 8 == 0)
        return odd(type, (unsigned)r);
    if (narrow(type))
        return i % 8 == 1 ? r & 0xffff : narrow_bits(type, d);
    if (type == PEAL_FLOAT)
        memcpy(&bits, &f, sizeof f);
    else if (type == PEAL_DOUBLE || type == PEAL_LONG_DOUBLE)
        memcpy(&bits, &d, sizeof d);
    else
        bits = i % 8 > 1 ? r << 7 | 1 : r % 3;
    return bits;
}

/* BITS of one part; those of a double make a long double, a third of it where that has no NaN. */
static void put(peal_type part, uint64_t bits, char *at)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    if (part != PEAL_LONG_DOUBLE) {
        memcpy(at, &bits, peal_type_bytes(part));
        return;
    }
    long double x = isnormal(d) ? (long double)d / 3 : (long double)d;
    memset(at, (int)next_random(), sizeof x);
    memcpy(at, &x, LONG_BYTES);
}

static elem elem_of(peal_type type, uint64_t re, uint64_t im)
{
    peal_type part = part_of(type);
    elem e = {{0}};
    put(part, re, e.bytes);
    if (part != type)
        put(part, im, e.bytes + peal_type_bytes(part));
    return e;
}

/* Sources at every offset that their type allows, what is to come out, and destinations between guards. */
struct world {
    peal_type type;
    peal_op op;
    peali_isa isa;
    size_t bytes;
    char *src_buf[MAX_K], *dst_buf[MOST_M], *want, *saved;
    char *src[MAX_K], *dst[MOST_M];
};

static void world_open(struct world *w)
{
    size_t room = LARGE * sizeof(elem) + 2 * GUARD_BYTES;
    for (int i = 0; i < MAX_K; i++)
        w->src_buf[i] = malloc(room);
    for (int i = 0; i < MOST_M; i++)
        w->dst_buf[i] = malloc(room);
    w->want = malloc(room);
    w->saved = malloc(room);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < MAX_K; i++)
        free(w->src_buf[i]);
    for (int i = 0; i < MOST_M; i++)
        free(w->dst_buf[i]);
    free(w->want);
    free(w->saved);
}

static void place(struct world *w, int nsrc)
{
    for (int i = 0; i < nsrc; i++)
        w->src[i] = w->src_buf[i] + (next_random() >> 20) % (GUARD_BYTES / w->bytes) * w->bytes;
    for (int i = 0; i < MOST_M; i++)
        w->dst[i] = w->dst_buf[i] + (1 + (next_random() >> 20) % (GUARD_BYTES / w->bytes)) * w->bytes;
}

static void fill(struct world *w, int nsrc, size_t count)
{
    peal_type part = part_of(w->type);
    elem from[MAX_K], total;
    for (size_t e = 0; e < count; e++) {
        for (int i = 0; i < nsrc; i++) {
            uint64_t re = draw(part, e);
            from[i] = elem_of(w->type, re, part != w->type ? draw(part, e + 3) : 0);
            memcpy(w->src[i] + e * w->bytes, from[i].bytes, w->bytes);
        }
        elem_ref(w->type, w->op, from, nsrc, &total);
        memcpy(w->want + e * w->bytes, total.bytes, w->bytes);
    }
}

/* Calls with ordinary and with streaming stores, destination D laid on source ALIAS (-1: on none), which is restored afterwards. */
static void call(struct world *w, int nsrc, int ndst, size_t count, int alias)
{
    peali_reduce_fn reduce = peali_reduce_find_isa(w->type, w->op, w->isa);
    void *dst[MOST_M];
    int laid = alias < 0 ? -1 : (int)(count % (size_t)ndst);
    if (alias >= 0)
        memcpy(w->saved, w->src[alias], count * w->bytes);
    for (int stream = 0; stream < 2; stream++) {
        for (int i = 0; i < ndst; i++) {
            dst[i] = i == laid ? w->src[alias] : w->dst[i];
            memset(w->dst[i] - w->bytes, GUARD, (count + 2) * w->bytes);
        }
        reduce(dst, ndst, (const void *const *)w->src, nsrc, count, stream);
        for (int i = 0; i < ndst; i++) {
            assert_memory_equal(dst[i], w->want, count * w->bytes);
            for (size_t b = 0; b < w->bytes; b++) {
                assert_int_equal((unsigned char)w->dst[i][-1 - (ptrdiff_t)b], GUARD);
                assert_int_equal((unsigned char)w->dst[i][count * w->bytes + b], GUARD);
            }
        }
        if (alias >= 0)
            memcpy(w->src[alias], w->saved, count * w->bytes);
    }
}

/* Calls F for every pair of type and op that exists. */
static void every_pair(void **state, void (*f)(struct world *w))
{
    struct world w = {.isa = (peali_isa)(intptr_t)*state};
    if (!peali_reduce_find_isa(PEAL_FLOAT, PEAL_SUM, w.isa)) {
        print_message("skipped: this CPU has no instruction set %d of reduce.h\n", (int)w.isa);
        skip();
    }
    world_open(&w);
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op < PEAL_OP_COUNT; op++)
            if (op != PEAL_AVG && peal_op_takes((peal_op)op, (peal_type)type)) { /* averages are sums: test_find, test_divide */
                w.type = (peal_type)type;
                w.op = (peal_op)op;
                w.bytes = peal_type_bytes(w.type);
                f(&w);
            }
    world_close(&w);
}

static void shapes(struct world *w)
{
    static const int nsrcs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, MAX_K};
    for (size_t i = 0; i < sizeof nsrcs / sizeof nsrcs[0]; i += ONE_OF > 1 ? 3 : 1) {
        int nsrc = nsrcs[i];
        place(w, nsrc);
        fill(w, nsrc, MEDIUM);
        for (int count = 0; count <= SMALL; count++)
            call(w, nsrc, 1 + count % MAX_M, (size_t)count, count % 3 ? count % nsrc : -1);
        for (int ndst = 1; ndst <= MAX_M; ndst++) {
            call(w, nsrc, ndst, MEDIUM, -1);
            call(w, nsrc, ndst, MEDIUM, 0);
            call(w, nsrc, ndst, MEDIUM, nsrc - 1);
        }
    }
}

static void test_shapes(void **state)
{
    every_pair(state, shapes);
}

static void large(struct world *w)
{
    place(w, 5);
    fill(w, 2, LARGE);
    call(w, 2, 1, LARGE, -1);
    call(w, 2, 1, LARGE, 0);
    call(w, 2, 2, LARGE, 1);
    fill(w, 5, LARGE);
    call(w, 5, 3, LARGE, 4);
    for (int n = MOST_M - 1; n <= MOST_M; n++) { /* as many as are read ahead of what is streamed, and one more */
        place(w, n);
        fill(w, n, MEDIUM);
        call(w, n, n, MEDIUM, -1);
        call(w, n, n, MEDIUM, n - 1);
    }
}

static void test_large(void **state)
{
    every_pair(state, large);
}

/* Each odd value with each other, at two places of a vector: odd values must not be told by their lane. */
static void odd_values(struct world *w)
{
    peal_type part = part_of(w->type);
    elem from[2], total;
    for (unsigned shift = 0; shift < 2; shift++) {
        place(w, 2);
        for (unsigned e = 0; e < ODD * ODD; e++) {
            from[0] = elem_of(w->type, odd(part, e / ODD), odd(part, e % 7));
            from[1] = elem_of(w->type, odd(part, e % ODD + shift), odd(part, e % 11));
            for (int i = 0; i < 2; i++)
                memcpy(w->src[i] + e * w->bytes, from[i].bytes, w->bytes);
            elem_ref(w->type, w->op, from, 2, &total);
            memcpy(w->want + e * w->bytes, total.bytes, w->bytes);
        }
        call(w, 2, 1, ODD * ODD, -1);
    }
}

static void test_odd_values(void **state)
{
    every_pair(state, odd_values);
}

/* Every fp16 and bf16 with some others: all conversions, and ties in both directions. */
static void every_half(struct world *w)
{
    enum { PIECE = 16384, OTHERS = 12 };
    for (unsigned from = 0; narrow(w->type) && w->bytes == 2 && from < 65536; from += PIECE)
        for (unsigned other = 0; other < OTHERS; other += ONE_OF) {
            place(w, 2);
            for (unsigned e = 0; e < PIECE; e++) {
                uint64_t pair[2] = {from + e, other < OTHERS / 2 ? odd(w->type, 2 + other) : draw(w->type, 2)};
                uint64_t r = narrow_ref(w->type, w->op, pair, 2);
                memcpy(w->src[0] + e * 2, &pair[0], 2);
                memcpy(w->src[1] + e * 2, &pair[1], 2);
                memcpy(w->want + e * 2, &r, 2);
            }
            call(w, 2, 1, PIECE, -1);
        }
}

static void test_every_half(void **state)
{
    every_pair(state, every_half);
}

/* All pairs of numbers of 8 bits: all conversions, and all ties, for a number and half the next are among the products. */
static void every_quarter_pair(struct world *w)
{
    for (unsigned row = 0; narrow(w->type) && w->bytes == 1 && row < 4; row++) {
        place(w, 2);
        for (unsigned e = 0; e < 64 * 256; e++) {
            uint64_t pair[2] = {64 * row + e / 256, e % 256};
            w->src[0][e] = (char)pair[0];
            w->src[1][e] = (char)pair[1];
            w->want[e] = (char)narrow_ref(w->type, w->op, pair, 2);
        }
        call(w, 2, 1, 64 * 256, -1);
    }
}

static void test_every_quarter_pair(void **state)
{
    every_pair(state, every_quarter_pair);
}

static void test_find(void **state)
{
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op < PEAL_OP_COUNT; op++) {
            int takes = peal_op_takes((peal_op)op, (peal_type)type);
            assert_int_equal(takes, peali_reduce_find((peal_type)type, (peal_op)op) != NULL);
            assert_int_equal(takes, peali_reduce_find_isa((peal_type)type, (peal_op)op, PEALI_ISA_PLAIN) != NULL);
        }
    for (int type = 0; type < PEAL_TYPE_COUNT; type++) {
        assert_ptr_equal(peali_reduce_find((peal_type)type, PEAL_AVG), peali_reduce_find((peal_type)type, PEAL_SUM));
        assert_int_equal(peal_op_takes(PEAL_AVG, (peal_type)type), peali_divide_find((peal_type)type) != NULL);
    }
    assert_null(peali_reduce_find_isa(PEAL_FLOAT, PEAL_SUM, PEALI_ISA_COUNT));
    assert_null(peali_divide_find_isa(PEAL_FLOAT, PEALI_ISA_COUNT));
}

static uint64_t quotient_ref(peal_type type, uint64_t bits, int32_t n)
{
    float f;
    double d;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    f = (narrow(type) ? (float)narrow_value(type, (unsigned)bits) : f) / (float)n;
    d /= n;
    if (narrow(type))
        return narrow_bits(type, f);
    if (type != PEAL_FLOAT && type != PEAL_DOUBLE)
        return (uint64_t)(integer_of(type, bits) / n);
    memcpy(&bits, type == PEAL_FLOAT ? (void *)&f : (void *)&d, peal_type_bytes(type));
    return type == PEAL_FLOAT ? isnan(f) ? 0x7fc00000 : bits : isnan(d) ? 0x7ff8000000000000 : bits;
}

/* C = A / N for one part. */
static void part_quotient(peal_type part, const char *a, int32_t n, char *c)
{
    size_t bytes = peal_type_bytes(part);
    long double x;
    if (part != PEAL_LONG_DOUBLE) {
        uint64_t bits = quotient_ref(part, load(a, bytes), n);
        memcpy(c, &bits, bytes);
        return;
    }
    memcpy(&x, a, sizeof x);
    x = isnan(x) ? (long double)NAN : x / n;
    memset(c, 0, sizeof x);
    memcpy(c, &x, LONG_BYTES);
}

/* COUNT elements at dst[0], between guards. */
static void divide(struct world *w, size_t count, int32_t n)
{
    peal_type part = part_of(w->type);
    size_t bytes = peal_type_bytes(part);
    char *at = w->dst[0];
    for (size_t b = 0; b < count * w->bytes; b += bytes)
        part_quotient(part, at + b, n, w->want + b);
    memset(at - w->bytes, GUARD, w->bytes);
    memset(at + count * w->bytes, GUARD, w->bytes);
    peali_divide_find_isa(w->type, w->isa)(at, count, n);
    assert_memory_equal(at, w->want, count * w->bytes);
    for (size_t b = 0; b < w->bytes; b++) {
        assert_int_equal((unsigned char)at[-1 - (ptrdiff_t)b], GUARD);
        assert_int_equal((unsigned char)at[count * w->bytes + b], GUARD);
    }
}

/* All values of 8 and 16 bits in turn; else what is drawn, and of integers those about a multiple of the divisor. */
static void fill_dividends(struct world *w, size_t count, int32_t n)
{
    static uint64_t turn;
    peal_type part = part_of(w->type);
    for (size_t e = 0; e < count; e++) {
        uint64_t near_multiple = (next_random() >> 40) * (uint64_t)n + e % 3 - 1;
        uint64_t re = w->bytes <= 2 ? turn++ : part < PEAL_BYTE && e % 4 < 3 ? near_multiple : draw(part, e);
        elem from = elem_of(w->type, re, part != w->type ? draw(part, e + 3) : 0);
        memcpy(w->dst[0] + e * w->bytes, from.bytes, w->bytes);
    }
}

static void quotients(struct world *w)
{
    static const int32_t divisors[] = {1, 2, 3, 5, 7, 16, 127, 128, 1000, 65535, 65536, 99991, 16777217, INT32_MAX};
    if (w->op != PEAL_SUM)
        return;
    for (size_t d = 0; d < sizeof divisors / sizeof divisors[0]; d += ONE_OF)
        for (size_t k = 0; k <= SMALL + 4; k++) {
            size_t count = k <= SMALL ? k : LARGE; /* at last 4 times 20,011: all 65,536 values of 16 bits */
            place(w, 0);
            fill_dividends(w, count, divisors[d]);
            divide(w, count, divisors[d]);
        }
}

static void test_divide(void **state)
{
    every_pair(state, quotients);
}

#define IN_ISA(test, isa) {#test " " #isa, test, NULL, NULL, (void *)(intptr_t)PEALI_ISA_##isa}
#define IN_ALL(test) IN_ISA(test, PLAIN), IN_ISA(test, AVX2), IN_ISA(test, AVX512)
_Static_assert(PEALI_ISA_COUNT == 3, "all instruction sets are named here");

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        IN_ALL(test_odd_values),
        IN_ALL(test_every_half),
        IN_ALL(test_every_quarter_pair),
        IN_ALL(test_shapes),
        IN_ALL(test_large),
        IN_ALL(test_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
