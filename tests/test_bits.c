/*
 * The same bits on all ranks and in repeated runs, for every allreduce, type and operation, on values that round, overflow and are
 * no numbers; by messages, across reach in both modes, and on two nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "sched/sched.h"
#include "team.h"

enum { MOST_RANKS = 8, COUNT = 97, MOST_BYTES = COUNT * 32, PAIRS = PEAL_TYPE_COUNT * PEAL_OP_COUNT };

typedef struct scene {
    int n;
    const peal_algo *algo;
    int failed[MOST_RANKS];
    unsigned char *out[MOST_RANKS]; /* the results of all pairs, twice */
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

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned char *in = malloc(MOST_BYTES);
    s->failed[rank] |= peal_comm_force(comm, PEAL_ALLREDUCE, s->algo->name) != PEAL_OK;
    for (int run = 0; run < 2; run++)
        for (int t = 0; t < PEAL_TYPE_COUNT; t++)
            for (int o = 0; o < PEAL_OP_COUNT && !s->failed[rank]; o++) {
                if (!peal_op_takes((peal_op)o, (peal_type)t))
                    continue;
                unsigned char *out = s->out[rank] + (size_t)((run * PEAL_TYPE_COUNT + t) * PEAL_OP_COUNT + o) * MOST_BYTES;
                fill((peal_type)t, rank, in);
                s->failed[rank] |= peal_allreduce(in, out, COUNT, (peal_type)t, (peal_op)o, comm, NULL) != PEAL_OK;
            }
    free(in);
}

static void compare(const scene *s, const char *where)
{
    for (int r = 0; r < s->n; r++) {
        if (s->failed[r])
            fail_msg("%s on %d ranks, %s: rank %d failed", s->algo->name, s->n, where, r);
        for (int run = 0; run < 2; run++)
            for (int p = 0; p < PAIRS; p++) {
                const unsigned char *mine = s->out[r] + (size_t)(run * PAIRS + p) * MOST_BYTES;
                if (memcmp(mine, s->out[0] + (size_t)p * MOST_BYTES, MOST_BYTES) != 0)
                    fail_msg("%s on %d ranks, %s: %s %s has other bits on rank %d in run %d", s->algo->name, s->n, where,
                             peal_type_name((peal_type)(p / PEAL_OP_COUNT)), peal_op_name((peal_op)(p % PEAL_OP_COUNT)), r, run);
            }
    }
}

static void all_algos(int n, peali_layout layout, const char *where)
{
    int node[MOST_RANKS];
    for (int r = 0; r < n; r++)
        node[r] = layout.nodes && r >= (n + 1) / 2;
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = n, .nnodes = layout.nodes ? 2 : 1, .node = node};
    peali_layout layouts[MOST_RANKS];
    for (int r = 0; r < n; r++)
        layouts[r] = layout;
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        if (!peali_algo_fits(*a, &problem))
            continue;
        scene s = {.n = n, .algo = *a};
        for (int r = 0; r < n; r++)
            s.out[r] = calloc(2 * PAIRS, MOST_BYTES);
        assert_int_equal(team_run_in((unsigned)n, layouts, play, &s), PEAL_OK);
        compare(&s, where);
        for (int r = 0; r < n; r++)
            free(s.out[r]);
    }
}

static void test_messages(void **state)
{
    static const int sizes[] = {2, 3, 5, 8};
    for (int i = 0; i < 4; i++)
        all_algos(sizes[i], (peali_layout){.apart = true}, "messages");
}

static void test_slices(void **state)
{
    all_algos(5, (peali_layout){.apart = true, .slices = 3, .window = 2}, "messages, 3 slices");
}

static void test_pull(void **state)
{
    all_algos(3, (peali_layout){0}, "pull");
    all_algos(6, (peali_layout){0}, "pull");
}

static void test_push(void **state)
{
    all_algos(4, (peali_layout){.push = true}, "push");
}

static void test_nodes(void **state)
{
    all_algos(5, (peali_layout){.nodes = "3+2"}, "pull on nodes 3+2");
    all_algos(5, (peali_layout){.nodes = "3+2", .push = true}, "push on nodes 3+2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages), cmocka_unit_test(test_slices), cmocka_unit_test(test_pull),
        cmocka_unit_test(test_push),     cmocka_unit_test(test_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
