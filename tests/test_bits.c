/*
 * The same bits on all ranks, in repeated runs, and by messages, pull and push, for every algorithm that reduces, type and
 * operation, on values that round, overflow and are no numbers; on one node and on two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "narrow.h"
#include "sched/sched.h"
#include "team.h"

enum { MOST_RANKS = 8, SIZES = 4, COUNT = 97, MOST_BYTES = COUNT * 32, PAIRS = PEAL_TYPE_COUNT * PEAL_OP_COUNT };

typedef struct scene {
    int n, runs;
    const peal_algo *algo;
    int failed[MOST_RANKS];
    unsigned char *out[MOST_RANKS]; /* the results of all pairs, in each run */
} scene;

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static long double some_number(uint32_t at)
{
    long double v = (long double)mix(at) / 65536 - 32768;
    return mix(at + 77) % 16 == 0 ? -0.0L * v : v;
}

/* Any bytes are a value of most types; not of bool, and not of long double, whose padding and unnormal forms are none. */
static void fill(peal_type type, int rank, unsigned char *buf)
{
    size_t bytes = peal_type_bytes(type) * COUNT;
    for (size_t i = 0; i < bytes; i++)
        buf[i] = (unsigned char)mix((uint32_t)(i * 131 + (size_t)rank * 7919 + (size_t)type));
    if (type == PEAL_BOOL)
        for (size_t i = 0; i < bytes; i++)
            buf[i] &= 1;
    if (type == PEAL_LONG_DOUBLE || type == PEAL_COMPLEX_LONG_DOUBLE)
        for (size_t i = 0; i < bytes / sizeof(long double); i++) {
            long double v = some_number((uint32_t)(i * 31 + (size_t)rank));
            memcpy(buf + i * sizeof v, &v, sizeof v);
        }
}

static peal_status call(const scene *s, peal_comm *comm, const void *in, void *out, peal_type type, peal_op op)
{
    if (s->algo->kind == PEAL_REDUCE)
        return peal_reduce(in, out, COUNT, type, op, 0, comm, NULL);
    if (s->algo->kind == PEAL_REDUCE_SCATTER)
        return peal_reduce_scatter(in, out, (size_t)(COUNT / s->n), type, op, comm, NULL);
    return peal_allreduce(in, out, COUNT, type, op, comm, NULL);
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned char *in = malloc(MOST_BYTES);
    s->failed[rank] |= peal_comm_force(comm, s->algo->kind, s->algo->name) != PEAL_OK;
    for (int run = 0; run < s->runs; run++)
        for (int p = 0; p < PAIRS && !s->failed[rank]; p++) {
            peal_type type = (peal_type)(p / PEAL_OP_COUNT);
            peal_op op = (peal_op)(p % PEAL_OP_COUNT);
            if (!peal_op_takes(op, type))
                continue;
            fill(type, rank, in);
            s->failed[rank] |= call(s, comm, in, s->out[rank] + (size_t)(run * PAIRS + p) * MOST_BYTES, type, op) != PEAL_OK;
        }
    free(in);
}

static const unsigned char *result(const scene *s, int rank, int run, int pair)
{
    return s->out[rank] + (size_t)(run * PAIRS + pair) * MOST_BYTES;
}

static void same(const scene *s, int rank, const unsigned char *one, const unsigned char *other, int pair, const char *what)
{
    if (memcmp(one, other, MOST_BYTES) != 0)
        fail_msg("%s %s on %d ranks: %s %s has other bits on rank %d %s", peal_kind_name(s->algo->kind), s->algo->name, s->n,
                 peal_type_name((peal_type)(pair / PEAL_OP_COUNT)), peal_op_name((peal_op)(pair % PEAL_OP_COUNT)), rank, what);
}

/* Sums of 8 and 16 bits are rounded where they are stored or sent, so there the way that messages take shows. */
static int rounds_once(int pair)
{
    peal_type type = (peal_type)(pair / PEAL_OP_COUNT);
    return narrow(type);
}

/* On all ranks, where all get the same; in both runs; and, but for these, as FIRST was by another way. */
static void compare(const scene *s, const scene *first, const char *where)
{
    for (int r = 0; r < s->n; r++) {
        if (s->failed[r])
            fail_msg("%s on %d ranks, %s: rank %d failed", s->algo->name, s->n, where, r);
        for (int p = 0; p < PAIRS; p++) {
            if (s->algo->kind == PEAL_ALLREDUCE)
                same(s, r, result(s, r, 0, p), result(s, 0, 0, p), p, where);
            same(s, r, result(s, r, s->runs - 1, p), result(s, r, 0, p), p, "the last time");
            if (!rounds_once(p))
                same(s, r, result(s, r, 0, p), result(first, r, 0, p), p, where);
        }
    }
}

static scene play_on(int n, int runs, const peal_algo *algo, const peali_layout *layout)
{
    peali_layout layouts[MOST_RANKS];
    scene s = {.n = n, .runs = runs, .algo = algo};
    for (int r = 0; r < n; r++) {
        layouts[r] = *layout;
        s.out[r] = calloc((size_t)runs * PAIRS, MOST_BYTES);
    }
    assert_int_equal(team_run_in((unsigned)n, layouts, play, &s), PEAL_OK);
    return s;
}

static void end(scene *s)
{
    for (int r = 0; r < s->n; r++)
        free(s->out[r]);
}

/*
 * By messages, pull, push and what is chosen, which is one of these, once more: every algorithm that reduces, on N ranks, which may
 * be on two nodes.
 */
static void all_ways(int n, const char *nodes, int slices)
{
    static const char *const names[] = {"by messages", "by pull", "by push", "by what is chosen"};
    const peali_layout ways[] = {{.apart = true}, {.pull = true}, {.push = true}, {0}};
    int node[MOST_RANKS];
    for (int r = 0; r < n; r++)
        node[r] = nodes && r >= (n + 1) / 2;
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        const peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = nodes ? 2 : 1, .node = node};
        if (!peali_algo_fits(*a, &problem) || (*a)->kind == PEAL_ALLGATHER || (*a)->kind == PEAL_BROADCAST)
            continue;
        scene first = {0};
        for (int w = 0; w < 4; w++) {
            peali_layout layout = ways[w];
            layout.nodes = nodes;
            layout.slices = slices;
            layout.window = slices > 1 ? 2 : 0;
            scene s = play_on(n, w < 3 ? 1 : 2, *a, &layout);
            if (w == 0)
                first = s;
            compare(&s, &first, names[w]);
            if (w > 0)
                end(&s);
        }
        end(&first);
    }
}

static void test_ranks(void **state)
{
    static const int sizes[] = {3, 2, 5, 8};
    for (int i = 0; i < SIZES; i++)
        all_ways(sizes[i], NULL, 0);
}

static void test_slices(void **state)
{
    all_ways(4, NULL, 3);
}

static void test_nodes(void **state)
{
    all_ways(5, "3+2", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
