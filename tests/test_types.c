/*
 * Types whose bits could differ between ranks, over threads: those of 8 and 16 bits, rounded where a partial result is stored, and
 * those with padding or parts. Every allreduce algorithm, with ranks in reach of each other by pull and by push, some of them, or
 * none: the same bits on all ranks, and sums no further from the exact ones than their roundings allow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "narrow.h"
#include "sched/sched.h"
#include "team.h"

enum { MOST = 8, COUNT = 1500, MOST_BYTES = 2 * sizeof(long double), LONG_BYTES = LDBL_MANT_DIG == 64 ? 10 : sizeof(long double) };

typedef struct scene {
    int n;
    peal_type type;
    peal_op op;
    const peal_algo *algo;
    peal_status status[MOST];
    unsigned char in[MOST][COUNT * MOST_BYTES], out[MOST][COUNT * MOST_BYTES];
} scene;

static unsigned next_random(void)
{
    static uint64_t state = 88172645463325252; /* xorshift64, G. Marsaglia 2003 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 20);
}

/* Values of several magnitudes and both signs, in the bits of the type; garbage in padding. */
static void fill(scene *s)
{
    size_t bytes = peal_type_bytes(s->type);
    for (int r = 0; r < s->n; r++)
        for (size_t i = 0; i < COUNT * bytes; i++)
            s->in[r][i] = (unsigned char)next_random();
    for (int r = 0; r < s->n; r++)
        for (size_t i = 0; i < COUNT; i++) {
            double v = ((double)next_random() / 2e9 - 1) * (1 << next_random() % 8);
            float f = (float)v;
            uint32_t u;
            memcpy(&u, &f, sizeof u);
            uint16_t h = (uint16_t)(u >> 16), fp16 = (uint16_t)((u >> 16 & 0x8000) | (0x3000 + (u >> 8 & 0x1fff)));
            long double l[2] = {(long double)v, (long double)v / 3};
            if (s->type == PEAL_FP8_E4M3 || s->type == PEAL_FP8_E5M2)
                s->in[r][i] &= 0xdf; /* so small that no sum is beyond the largest number */
            else if (s->type == PEAL_BF16 || s->type == PEAL_FP16)
                memcpy(s->in[r] + 2 * i, s->type == PEAL_BF16 ? &h : &fp16, 2);
            else if (s->type == PEAL_LONG_DOUBLE || s->type == PEAL_COMPLEX_LONG_DOUBLE)
                for (size_t part = 0; part < bytes / sizeof l[0]; part++)
                    memcpy(s->in[r] + i * bytes + part * sizeof l[0], &l[part], LONG_BYTES);
        }
}

static void reduce(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    s->status[rank] = peal_comm_force(comm, PEAL_ALLREDUCE, s->algo->name);
    for (size_t count = 1; count <= COUNT && s->status[rank] == PEAL_OK; count += COUNT - 1)
        s->status[rank] = peal_allreduce(s->in[rank], s->out[rank], count, s->type, s->op, comm, NULL);
}

static double value(peal_type type, const unsigned char *at)
{
    uint16_t bits = 0;
    memcpy(&bits, at, peal_type_bytes(type));
    return narrow_value(type, bits);
}

/* The worst error of a sum, in the unit that 1 has in its last place times the sum of all magnitudes; each rounding adds a half. */
static double worst_error(const scene *s)
{
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0, size = 0;
        size_t at = i * peal_type_bytes(s->type);
        for (int r = 0; r < s->n; r++) {
            sum += value(s->type, s->in[r] + at);
            size += fabs(value(s->type, s->in[r] + at));
        }
        double error = fabs(value(s->type, s->out[0] + at) - sum) / ldexp(size, -narrow_mant(s->type));
        worst = error > worst ? error : worst;
    }
    return worst;
}

static const char *const ways[] = {"pull", "pull, one staged", "push", "two nodes", "messages only"};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void lay_out(peali_layout *layouts, int n, int way, char *nodes, size_t bytes)
{
    snprintf(nodes, bytes, "%d+%d", n - n / 2, n / 2);
    for (int r = 0; r < n; r++)
        layouts[r] = (peali_layout){.staged = way == 1 && r == n / 2, .push = way == 2, .nodes = way == 3 ? nodes : NULL,
                                    .apart = way == 4, .slices = 1 + way % 3};
}

static void play(scene *s, int way)
{
    peali_layout layouts[MOST];
    char nodes[16];
    size_t bytes = COUNT * peal_type_bytes(s->type);
    lay_out(layouts, s->n, way, nodes, sizeof nodes);
    fill(s);
    assert_int_equal(team_run_in((unsigned)s->n, layouts, reduce, s), PEAL_OK);
    for (int r = 0; r < s->n; r++) {
        if (s->status[r] != PEAL_OK || memcmp(s->out[r], s->out[0], bytes) != 0)
            fail_msg("%s %s by %s, %d ranks, %s: rank %d %s", peal_op_name(s->op), peal_type_name(s->type), s->algo->name, s->n,
                     ways[way], r, s->status[r] == PEAL_OK ? "has other bits than rank 0" : peal_status_text(s->status[r]));
    }
}

static int fits(const peal_algo *algo, int n, int way)
{
    int node[MOST];
    for (int r = 0; r < n; r++)
        node[r] = r >= n - n / 2;
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = n, .nnodes = way == 3 ? 2 : 1, .node = way == 3 ? node : NULL};
    return algo->kind == PEAL_ALLREDUCE && peali_algo_fits(algo, &problem);
}

/* With WORST every algorithm, number of ranks and way; else a third of them, another one for each type and op. */
static void every_way(peal_type type, peal_op op, double *worst)
{
    scene *s = calloc(1, sizeof *s);
    int turn = (int)type + (int)op;
    assert_non_null(s);
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (s->n = 2; s->n <= MOST; s->n++)
            for (int way = 0; way < WAYS; way++)
                if (fits(*a, s->n, way) && (worst || turn++ % 3 == 0)) {
                    s->type = type;
                    s->op = op;
                    s->algo = *a;
                    play(s, way);
                    double error = worst ? worst_error(s) : 0;
                    if (worst && error > 0.5 * s->n)
                        fail_msg("%s by %s, %d ranks, %s: off by %.2f units", peal_type_name(type), (*a)->name, s->n, ways[way],
                                 error);
                    if (worst && error > *worst)
                        *worst = error;
                }
    free(s);
}

static void test_narrow(void **state)
{
    for (peal_type type = PEAL_FP8_E4M3; type <= PEAL_BF16; type++) {
        double worst = 0;
        every_way(type, PEAL_SUM, &worst);
        print_message("%s sums of up to %d ranks: off by at most %.2f units in the last place of the sum of magnitudes\n",
                      peal_type_name(type), MOST, worst);
        every_way(type, PEAL_PROD, NULL);
        every_way(type, PEAL_MAX, NULL);
    }
}

static void test_padding_and_parts(void **state)
{
    every_way(PEAL_LONG_DOUBLE, PEAL_SUM, NULL);
    every_way(PEAL_LONG_DOUBLE, PEAL_MIN, NULL);
    every_way(PEAL_COMPLEX_FLOAT, PEAL_PROD, NULL);
    every_way(PEAL_COMPLEX_LONG_DOUBLE, PEAL_PROD, NULL);
    every_way(PEAL_COMPLEX_LONG_DOUBLE, PEAL_SUM, NULL);
}

/* What is only moved has no op that every type takes. */
static void move(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned char all[3 * 4] = {0}, one[4] = {(unsigned char)rank, 1, 2, 3};
    s->status[rank] = peal_allgather(one, all, 4, s->type, comm, NULL);
    if (s->status[rank] == PEAL_OK)
        s->status[rank] = peal_broadcast(one, 4, s->type, 2, comm, NULL);
    memcpy(s->out[rank], all, sizeof all);
    memcpy(s->out[rank] + sizeof all, one, sizeof one);
}

static void test_moves(void **state)
{
    static const unsigned char want[] = {0, 1, 2, 3, 1, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3};
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (s->type = PEAL_BYTE; s->type <= PEAL_BOOL; s->type++) {
        assert_int_equal(team_run(3, move, s), PEAL_OK);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(s->status[r], PEAL_OK);
            assert_memory_equal(s->out[r], want, sizeof want);
        }
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_padding_and_parts),
        cmocka_unit_test(test_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
