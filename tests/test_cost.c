/* The closed forms: figures by hand, growth with bytes, and best numbers of slices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "sched/sched.h"
#include "study/cost.h"

static double cost(peal_kind kind, const char *name, int n, double bytes, const peali_cost_params *params, int slices)
{
    peal_problem p = {.kind = kind, .op = PEAL_SUM, .nranks = n, .nnodes = 1};
    const peal_algo *algo = peali_algo_find(kind, name);
    assert_non_null(algo);
    return peali_cost(algo, &p, (size_t)bytes, params, slices);
}

static void same(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.17g is not %.17g", a, b);
}

/* By hand, for n = 16: a = 1000, b = 1 and g = 0.5 ns. */
static void test_table(void **state)
{
    double a = 1000, m = 65536, g = 0.5, part = 15.0 / 16, l = 4;
    peali_cost_params p;
    peali_cost_uniform(&p, a / 1e3, 1);
    p.reduce_byte_ns = g;
    same(cost(PEAL_ALLREDUCE, "ring", 16, m, &p, 1), 2 * 15 * a + 2 * part * m + part * m * g);
    same(cost(PEAL_ALLGATHER, "ring", 16, m, &p, 1), 15 * a + part * m);
    same(cost(PEAL_REDUCE_SCATTER, "ring", 16, m, &p, 1), 15 * a + part * m + part * m * g);
    same(cost(PEAL_ALLREDUCE, "recursive_doubling", 16, m, &p, 1), l * (a + m + m * g));
    same(cost(PEAL_ALLREDUCE, "rabenseifner", 16, m, &p, 1), 2 * l * a + 2 * part * m + part * m * g);
    same(cost(PEAL_ALLREDUCE, "binomial", 16, m, &p, 1), 2 * l * (a + m) + l * m * g);
    same(cost(PEAL_BROADCAST, "chain", 16, m, &p, 8), (15 + 8 - 1) * (a + m / 8));
    p.link[PEALI_NEAR] = (peali_link_cost){.latency_ns = a, .byte_ns = 1}; /* ports free between messages, as for direct ones */
    same(cost(PEAL_ALLREDUCE, "one_shot", 16, m, &p, 1), a + 15 * m + 15 * m * g);
    same(cost(PEAL_ALLREDUCE, "two_shot", 16, m, &p, 1), 2 * a + 2 * part * m + part * m * g);
    same(cost(PEAL_ALLREDUCE, "circulant", 16, m, &p, 1), 2 * l * a + 2 * part * m + part * m * g);
}

/* Sanders: m b + 2La + 2 sqrt(2Lamb) at the best number of slices; twice that for the double tree. */
static void test_trees(void **state)
{
    double a = 1000, m = 64e6, l = 5, one = m + 2 * l * a + 2 * sqrt(2 * l * a * m);
    peal_problem p = {.kind = PEAL_BROADCAST, .nranks = 32, .nnodes = 1};
    peali_cost_params params;
    peali_cost_uniform(&params, a / 1e3, 1);
    peali_slicing two = peali_cost_best_slices(peali_algo_find(PEAL_BROADCAST, "two_tree"), &p, (size_t)m, &params);
    assert_true(fabs(two.ns / one - 1) < 0.01);
    p.kind = PEAL_ALLREDUCE;
    peali_slicing both = peali_cost_best_slices(peali_algo_find(PEAL_ALLREDUCE, "double_binary_tree"), &p, (size_t)m, &params);
    assert_true(fabs(both.ns / (2 * one) - 1) < 0.01);
}

/* Two levels: 2(g-1)a1 + 2(g-1)/g m b1 + T(N, m/g; a2, b2). */
static void test_levels(void **state)
{
    static const int node[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 16, .nnodes = 4, .node = node};
    peali_cost_params params = {.ports = 1};
    params.link[PEALI_NEAR] = (peali_link_cost){.send_ns = 200, .byte_ns = 0.25};
    params.link[PEALI_FAR] = (peali_link_cost){.send_ns = 3000, .byte_ns = 2};
    double m = 65536, near = 2 * 3 * 200 + 2 * 0.75 * m * 0.25, far = 2 * 3 * 3000 + 2 * 0.75 * m / 4 * 2;
    same(peali_cost(peali_algo_find(PEAL_ALLREDUCE, "hierarchical"), &p, (size_t)m, &params, 1), near + far);
}

static void check_growth(const peal_algo *algo, const peal_problem *p, const peali_cost_params *params)
{
    for (int slices = 1; slices <= 64; slices *= 4) {
        double last = -1;
        for (size_t bytes = 64; bytes <= (size_t)64 << 20; bytes *= 4) {
            double now = peali_cost(algo, p, bytes, params, slices);
            if (!(now >= last) || (p->nranks > 1 && !(now > last)))
                fail_msg("%s %s, %d ranks: %g ns for %zu bytes, less for more", peal_kind_name(algo->kind), algo->name, p->nranks,
                         now, bytes);
            last = now;
        }
    }
}

static void check_best(const peal_algo *algo, const peal_problem *p, const peali_cost_params *params)
{
    for (size_t bytes = 64; bytes <= (size_t)64 << 20; bytes *= 16) {
        peali_slicing best = peali_cost_best_slices(algo, p, bytes, params);
        assert_in_range(best.slices, 1, PEALI_COST_SLICES);
        assert_in_range(best.window, 1, best.slices);
        same(best.ns, peali_cost(algo, p, bytes, params, best.slices));
        int most = bytes < PEALI_COST_SLICES ? (int)bytes : PEALI_COST_SLICES;
        for (int slices = 1; slices <= most; slices += slices < 100 ? 1 : 37)
            if (peali_cost(algo, p, bytes, params, slices) < best.ns * (1 - 1e-9))
                fail_msg("%s %s, %d ranks, %zu bytes: %d slices beat the best, %d", peal_kind_name(algo->kind), algo->name,
                         p->nranks, bytes, slices, best.slices);
    }
}

/* Every algorithm, those without a form of their own too. */
static void test_all(void **state)
{
    peali_cost_params params;
    peali_cost_uniform(&params, 1, 10);
    params.link[PEALI_FAR] = (peali_link_cost){.latency_ns = 3000, .send_ns = 300, .recv_ns = 200, .byte_ns = 0.2};
    params.reduce_byte_ns = 0.05;
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int n = 1; n <= 24; n++) {
            int node[24];
            for (int r = 0; r < n; r++)
                node[r] = r / 4;
            peal_problem p = {.kind = (*a)->kind, .op = PEAL_SUM, .nranks = n, .nnodes = n % 2 ? 1 : node[n - 1] + 1};
            p.node = n % 2 ? NULL : node;
            if (!peali_algo_fits(*a, &p))
                continue;
            check_growth(*a, &p, &params);
            check_best(*a, &p, &params);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
