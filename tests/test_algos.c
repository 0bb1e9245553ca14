/*
 * The costs of every algorithm, written down: blocks, rounds, blocks sent by the busiest rank, and slots of the one that has most.
 * Then composition: levels of any algorithms, on even and uneven nodes; and the time that it takes to write schedules for 100,000
 * ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "study/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { SIZES = 6, MOST_NODES = 16, MOST = 64, MANY = 100000 };

static const int sizes[SIZES] = {2, 3, 4, 5, 8, 16};

typedef struct cost {
    int blocks, rounds, sent, slots;
} cost;

typedef struct golden {
    peal_kind kind;
    const char *name;
    cost at[SIZES]; /* of each of SIZES, on one node, from root 0 */
} golden;

static const golden table[] = {
    {PEAL_ALLREDUCE, "ring", {{2, 2, 2, 1}, {3, 4, 4, 2}, {4, 6, 6, 2}, {5, 8, 8, 2}, {8, 14, 14, 2}, {16, 30, 30, 2}}},
    {PEAL_ALLREDUCE, "recursive_doubling", {{1, 1, 1, 1}, {1, 2, 2, 2}, {1, 2, 2, 2}, {1, 3, 3, 2}, {1, 3, 3, 2}, {1, 4, 4, 2}}},
    {PEAL_ALLREDUCE, "recursive_multiplying",
     {{1, 1, 1, 3}, {1, 1, 2, 4}, {1, 1, 3, 5}, {1, 1, 4, 6}, {1, 1, 7, 9}, {1, 2, 6, 9}}},
    {PEAL_ALLREDUCE, "binomial", {{1, 2, 1, 1}, {1, 2, 2, 2}, {1, 4, 2, 2}, {1, 4, 3, 2}, {1, 6, 3, 2}, {1, 8, 4, 2}}},
    {PEAL_ALLREDUCE, "rabenseifner", {{2, 2, 2, 1}, {2, 4, 4, 2}, {4, 4, 6, 2}, {4, 6, 10, 2}, {8, 6, 14, 2}, {16, 8, 30, 2}}},
    {PEAL_ALLREDUCE, "circulant", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 4, 6, 2}, {5, 4, 8, 2}, {8, 6, 14, 2}, {16, 8, 30, 2}}},
    {PEAL_ALLREDUCE, "double_binary_tree", {{2, 2, 2, 1}, {2, 2, 3, 2}, {2, 4, 4, 2}, {2, 4, 4, 2}, {2, 6, 4, 2}, {2, 8, 4, 2}}},
    {PEAL_ALLREDUCE, "one_shot", {{1, 1, 1, 2}, {1, 1, 2, 3}, {1, 1, 3, 4}, {1, 1, 4, 5}, {1, 1, 7, 8}, {1, 1, 15, 16}}},
    {PEAL_ALLREDUCE, "two_shot", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 2, 14, 7}, {16, 2, 30, 15}}},
    {PEAL_ALLREDUCE, "sra_knomial", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 4, 14, 4}, {16, 4, 30, 6}}},
    {PEAL_ALLREDUCE, "grid", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {1, 1, 4, 6}, {4, 3, 7, 3}, {4, 3, 9, 5}}},
    {PEAL_ALLREDUCE, "grid_wide", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 2, 14, 7}, {8, 3, 15, 7}}},
    {PEAL_ALLREDUCE, "hierarchical", {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 2, 14, 7}, {16, 2, 30, 15}}},
    {PEAL_ALLREDUCE, "hierarchical_tree",
     {{4, 2, 4, 1}, {6, 2, 8, 2}, {8, 2, 12, 3}, {10, 2, 16, 4}, {16, 2, 28, 7}, {32, 2, 60, 15}}},
    {PEAL_ALLREDUCE, "hierarchical_halving",
     {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 2, 14, 7}, {16, 2, 30, 15}}},
    {PEAL_ALLREDUCE, "hierarchical_doubling",
     {{2, 2, 2, 1}, {3, 2, 4, 2}, {4, 2, 6, 3}, {5, 2, 8, 4}, {8, 2, 14, 7}, {16, 2, 30, 15}}},
    {PEAL_ALLREDUCE, "hierarchical_leaders",
     {{1, 2, 1, 1}, {1, 2, 2, 2}, {1, 2, 3, 3}, {1, 2, 4, 4}, {1, 2, 7, 7}, {1, 2, 15, 15}}},
    {PEAL_ALLGATHER, "ring", {{2, 1, 1, 0}, {3, 2, 2, 0}, {4, 3, 3, 0}, {5, 4, 4, 0}, {8, 7, 7, 0}, {16, 15, 15, 0}}},
    {PEAL_ALLGATHER, "circulant", {{2, 1, 1, 0}, {3, 1, 2, 0}, {4, 2, 3, 0}, {5, 2, 4, 0}, {8, 3, 7, 0}, {16, 4, 15, 0}}},
    {PEAL_ALLGATHER, "direct", {{2, 1, 1, 0}, {3, 1, 2, 0}, {4, 1, 3, 0}, {5, 1, 4, 0}, {8, 1, 7, 0}, {16, 1, 15, 0}}},
    {PEAL_ALLGATHER, "hierarchical", {{2, 1, 1, 0}, {3, 1, 2, 0}, {4, 1, 3, 0}, {5, 1, 4, 0}, {8, 1, 7, 0}, {16, 1, 15, 0}}},
    {PEAL_ALLGATHER, "hierarchical_leaders",
     {{2, 1, 1, 0}, {3, 1, 2, 0}, {4, 1, 3, 0}, {5, 1, 4, 0}, {8, 1, 7, 0}, {16, 1, 15, 0}}},
    {PEAL_REDUCE_SCATTER, "ring", {{2, 1, 1, 1}, {3, 2, 2, 2}, {4, 3, 3, 2}, {5, 4, 4, 2}, {8, 7, 7, 2}, {16, 15, 15, 2}}},
    {PEAL_REDUCE_SCATTER, "circulant", {{2, 1, 1, 1}, {3, 1, 2, 2}, {4, 2, 3, 3}, {5, 2, 4, 3}, {8, 3, 7, 6}, {16, 4, 15, 12}}},
    {PEAL_REDUCE_SCATTER, "direct", {{2, 1, 1, 1}, {3, 1, 2, 2}, {4, 1, 3, 3}, {5, 1, 4, 4}, {8, 1, 7, 7}, {16, 1, 15, 15}}},
    {PEAL_REDUCE_SCATTER, "knomial", {{2, 1, 1, 2}, {3, 1, 2, 3}, {4, 1, 3, 4}, {5, 1, 4, 5}, {8, 1, 7, 8}, {16, 2, 15, 8}}},
    {PEAL_REDUCE_SCATTER, "hierarchical", {{2, 1, 1, 1}, {3, 1, 2, 2}, {4, 1, 3, 3}, {5, 1, 4, 4}, {8, 1, 7, 7}, {16, 1, 15, 15}}},
    {PEAL_REDUCE_SCATTER, "hierarchical_leaders",
     {{2, 2, 2, 1}, {3, 2, 3, 2}, {4, 2, 4, 3}, {5, 2, 5, 4}, {8, 2, 8, 7}, {16, 2, 16, 15}}},
    {PEAL_BROADCAST, "binomial", {{1, 1, 1, 0}, {1, 1, 2, 0}, {1, 2, 2, 0}, {1, 2, 3, 0}, {1, 3, 3, 0}, {1, 4, 4, 0}}},
    {PEAL_BROADCAST, "two_tree", {{2, 1, 2, 0}, {2, 2, 2, 0}, {2, 2, 2, 0}, {2, 3, 2, 0}, {2, 3, 2, 0}, {2, 4, 2, 0}}},
    {PEAL_BROADCAST, "chain", {{1, 1, 1, 0}, {1, 2, 1, 0}, {1, 3, 1, 0}, {1, 4, 1, 0}, {1, 7, 1, 0}, {1, 15, 1, 0}}},
    {PEAL_BROADCAST, "direct", {{1, 1, 1, 0}, {1, 1, 2, 0}, {1, 1, 3, 0}, {1, 1, 4, 0}, {1, 1, 7, 0}, {1, 1, 15, 0}}},
    {PEAL_REDUCE, "direct", {{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1, 1, 4}, {1, 1, 1, 7}, {1, 1, 1, 15}}},
    {PEAL_REDUCE, "knomial", {{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1, 1, 4}, {1, 1, 1, 7}, {1, 2, 1, 6}}},
    {PEAL_REDUCE, "binomial", {{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 2}, {1, 3, 1, 2}, {1, 4, 1, 2}}},
    {PEAL_REDUCE, "chain", {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}, {1, 4, 1, 1}, {1, 7, 1, 1}, {1, 15, 1, 1}}},
    {PEAL_REDUCE, "two_tree", {{2, 1, 2, 2}, {2, 2, 2, 2}, {2, 2, 2, 2}, {2, 3, 2, 2}, {2, 3, 2, 2}, {2, 4, 2, 2}}},
};

static void expect(const peal_algo *algo, const peal_problem *p, const cost *want)
{
    peali_check_report report;
    const peal_bill *found = &report.found;
    if (peali_check(algo, p, &report) != PEAL_OK)
        fail_msg("%s", report.why);
    if (found->blocks != want->blocks || found->rounds != want->rounds || found->sent != want->sent || found->slots != want->slots)
        fail_msg("%s %s, n %d: {%d, %d, %d, %d}", peal_kind_name(p->kind), algo->name, p->nranks, found->blocks, found->rounds,
                 (int)found->sent, found->slots);
}

/* PEAL_ALGO, tables and reports know algorithms by name: of two with one nobody would get the second. */
static void test_names(void **state)
{
    for (int i = 0; peali_algos[i]; i++) {
        const peal_algo *found = peali_algo_find(peali_algos[i]->kind, peali_algos[i]->name);
        if (found != peali_algos[i])
            fail_msg("there are two algorithms %s %s", peal_kind_name(found->kind), found->name);
    }
}

static void test_costs(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int k = 0; k < SIZES; k++) {
            const peal_algo *algo = peali_algo_find(table[i].kind, table[i].name);
            peal_problem p = {.kind = table[i].kind, .nranks = sizes[k], .nnodes = 1};
            assert_non_null(algo);
            expect(algo, &p, &table[i].at[k]);
        }
}

/* Nodes by their sizes, 0 after the last, and what hierarchies cost there: allreduces over a ring and over trees, and halves. */
typedef struct site {
    int ranks[MOST_NODES];
    cost ring, tree, scatter, gather, leaders; /* leaders: of an allgather; none where nodes differ */
} site;

static const site sites[] = {
    {{4, 4, 3}, {12, 6, 26, 4}, {8, 4, 16, 3}, {11, 2, 10, 12}, {11, 2, 12, 0}, {0, 0, 0, 0}},
    {{1, 7}, {14, 4, 26, 7}, {14, 4, 26, 7}, {8, 2, 7, 13}, {8, 2, 13, 0}, {0, 0, 0, 0}},
    {{3, 1, 2}, {9, 6, 17, 6}, {6, 4, 11, 6}, {6, 2, 5, 8}, {6, 2, 8, 0}, {0, 0, 0, 0}},
    {{2, 2}, {4, 4, 6, 1}, {4, 4, 6, 1}, {4, 2, 3, 3}, {4, 2, 3, 0}, {4, 3, 5, 0}},
    {{4, 4, 4, 4}, {16, 8, 30, 3}, {8, 6, 16, 3}, {16, 2, 15, 15}, {16, 2, 15, 0}, {16, 4, 51, 0}},
    {{1, 1, 1, 1}, {4, 6, 6, 2}, {2, 4, 4, 2}, {4, 1, 3, 3}, {4, 1, 3, 0}, {4, 2, 3, 0}},
    {{5}, {5, 2, 8, 4}, {10, 2, 16, 4}, {5, 1, 4, 4}, {5, 1, 4, 0}, {5, 1, 4, 0}},
    {{1, 3, 1}, {9, 5, 16, 6}, {6, 4, 11, 6}, {5, 2, 4, 8}, {5, 2, 8, 0}, {0, 0, 0, 0}},
    {{2, 1, 1, 1, 2}, {10, 9, 18, 4}, {4, 6, 8, 4}, {7, 2, 6, 9}, {7, 2, 9, 0}, {0, 0, 0, 0}},
    {{8, 8, 8, 8}, {32, 8, 62, 7}, {16, 6, 32, 7}, {32, 2, 31, 31}, {32, 2, 31, 0}, {32, 4, 199, 0}},
    {{2, 3, 1, 4, 2, 2, 1}, {28, 14, 66, 8}, {8, 6, 20, 8}, {15, 2, 14, 27}, {15, 2, 27, 0}, {0, 0, 0, 0}},
};

static int map[MOST];

static peal_problem problem_at(const int *ranks)
{
    peal_problem p = {.kind = PEAL_ALLREDUCE, .node = map};
    for (; ranks[p.nnodes] > 0; p.nnodes++)
        for (int i = 0; i < ranks[p.nnodes]; i++)
            map[p.nranks++] = p.nnodes;
    return p;
}

static void test_nodes(void **state)
{
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        peal_problem p = problem_at(sites[i].ranks);
        expect(peali_algo_find(PEAL_ALLREDUCE, "hierarchical"), &p, &sites[i].ring);
        expect(peali_algo_find(PEAL_ALLREDUCE, "hierarchical_tree"), &p, &sites[i].tree);
        p.kind = PEAL_REDUCE_SCATTER;
        expect(peali_algo_find(p.kind, "hierarchical"), &p, &sites[i].scatter);
        p.kind = PEAL_ALLGATHER;
        expect(peali_algo_find(p.kind, "hierarchical"), &p, &sites[i].gather);
        const peal_algo *leaders = peali_algo_find(p.kind, "hierarchical_leaders");
        assert_int_equal(peali_algo_fits(leaders, &p), sites[i].leaders.blocks > 0);
        if (sites[i].leaders.blocks > 0)
            expect(leaders, &p, &sites[i].leaders);
    }
}

/* Levels of any algorithms: which, and the bill that is claimed. */
static peal_levels levels;
static peal_bill claimed;

static void build_levels(peal_sched *s, const peal_problem *p, int rank)
{
    peal_run_levels(s, p, rank, &levels);
}

static peal_bill bill_levels(const peal_problem *p)
{
    return claimed;
}

static const peal_algo mixed = {"mixed", PEAL_ALLREDUCE, 0, NULL, build_levels, bill_levels};

/* Only the bill is in doubt: it is the last proof, so what was counted at the first attempt is claimed at the second. */
static void prove_levels(const peal_problem *p)
{
    peali_check_report report;
    claimed = (peal_bill){0};
    assert_int_equal(peali_check(&mixed, p, &report), PEAL_ERR_INVALID);
    claimed = report.found;
    if (peali_check(&mixed, p, &report) != PEAL_OK)
        fail_msg("%s, %s, %s in rows of %d: %s", levels.scatter->name, levels.across->name, levels.gather->name, levels.row,
                 report.why);
}

static void prove_across(const peal_problem *p)
{
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (levels.row = 0; (*a)->kind == PEAL_ALLREDUCE && levels.row <= 3; levels.row++) {
            int row[MOST_NODES];
            peal_problem across = {.kind = PEAL_ALLREDUCE, .nranks = p->nnodes, .nnodes = 1};
            for (int i = 0; i < p->nnodes && levels.row > 0; i++)
                row[i] = i / levels.row;
            if (levels.row > 0) {
                across.node = row;
                across.nnodes = row[p->nnodes - 1] + 1;
            }
            levels.across = *a;
            if (peali_algo_fits(*a, &across))
                prove_levels(p);
        }
}

/* Every reduce-scatter and every allgather with every allreduce, those in levels too: then there are three. */
static void test_any_levels(void **state)
{
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        peal_problem p = problem_at(sites[i].ranks);
        for (const peal_algo *const *a = peali_algos; *a; a++)
            for (const peal_algo *const *b = peali_algos; *b; b++)
                if ((*a)->kind == PEAL_REDUCE_SCATTER && (*b)->kind == PEAL_ALLGATHER) {
                    levels.scatter = *a;
                    levels.gather = *b;
                    prove_across(&p);
                }
    }
}

/* A call on a part of the vector: the first third by one algorithm, the rest by another, on lanes and slots of their own. */
static void build_thirds(peal_sched *s, const peal_problem *p, int rank)
{
    peal_call call = {.algo = peali_algo_find(PEAL_ALLREDUCE, "ring"), .problem = p, .rank = rank, .parts = p->nranks};
    peal_blocks(s, 3 * p->nranks);
    peal_run(s, &call);
    call.algo = peali_algo_find(PEAL_ALLREDUCE, "double_binary_tree");
    call.part = p->nranks;
    call.parts = 2 * p->nranks;
    call.slot = 2;
    call.lane = 1;
    peal_run(s, &call);
}

static peal_bill bill_thirds(const peal_problem *p)
{
    int n = p->nranks, most = n < 4 ? n : 4, trees = 2 * peal_log2_floor(n), ring = 2 * (n - 1);
    return (peal_bill){.blocks = 3 * n, .rounds = ring > trees ? ring : trees, .sent = ring + n * most, .slots = 4};
}

static void test_parts(void **state)
{
    const peal_algo thirds = {"thirds", PEAL_ALLREDUCE, 0, NULL, build_thirds, bill_thirds};
    for (int n = 3; n <= 17; n++) {
        peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = n, .nnodes = 1};
        peali_check_report report;
        if (peali_check(&thirds, &p, &report) != PEAL_OK)
            fail_msg("%s", report.why);
    }
}

static const peal_call *bad_call;

static void build_bad(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 6);
    peal_run(s, bad_call);
}

static void test_bad_calls(void **state)
{
    const peal_algo bad = {"bad", PEAL_ALLREDUCE, 0, NULL, build_bad, NULL};
    const peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 4, .nnodes = 1};
    const peal_problem two = {.kind = PEAL_ALLREDUCE, .nranks = 2, .nnodes = 1};
    const peal_algo *ring = peali_algo_find(PEAL_ALLREDUCE, "ring");
    const peal_call calls[] = {
        {.algo = ring, .problem = &p, .part = 4, .parts = 3},
        {.algo = ring, .problem = &p, .parts = 6, .in = PEAL_BUF_TMP},
        {.algo = ring, .problem = &p, .parts = 6, .rank = 4},
        {.algo = ring, .problem = &two, .parts = 6}, /* which two? */
        {.algo = ring, .problem = &p, .parts = 6, .slot = -1},
        {.algo = ring, .problem = &p, .parts = 6, .slot = PEAL_SLOTS},
        {.algo = ring, .problem = &p, .parts = 6, .lane = PEAL_LANES},
        {.algo = ring, .problem = &p, .parts = 6, .grain = 4},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        peal_sched *s = NULL;
        bad_call = &calls[i];
        assert_int_equal(peali_sched_build(&bad, &p, 0, &s), PEAL_ERR_INVALID);
    }
}

/* Every tree spans all ranks, floor(log2 n) deep, and nobody has children in both. */
static void test_trees(void **state)
{
    for (int n = 1; n <= 200; n++)
        for (int r = 0; r < n; r++) {
            int inner = 0;
            for (int tree = 0; tree < 2; tree++) {
                peal_tree t = peal_tree_of(tree, n, r);
                int depth = 0;
                for (int c = 0; c < t.nchildren; c++)
                    assert_int_equal(peal_tree_of(tree, n, t.child[c]).parent, r);
                inner += t.nchildren > 0;
                for (int at = r; at != peal_tree_root(tree, n); at = peal_tree_of(tree, n, at).parent)
                    depth++;
                assert_in_range(depth, 0, peal_log2_floor(n));
            }
            assert_in_range(inner, 0, 1);
        }
}

static double best_ms(const peal_algo *algo, const peal_problem *p, int rank)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct timespec a, b;
        peal_sched *s;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        assert_int_equal(peali_sched_build(algo, p, rank, &s), PEAL_OK);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        peali_sched_free(&s);
        double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
        best = ms < best ? ms : best;
    }
    return best;
}

static double limit(double ms)
{
    const char *preload = getenv("LD_PRELOAD"); /* valgrind adds itself there */
    return SANITIZED || (preload && strstr(preload, "vgpreload")) ? 50 * ms : ms;
}

/* Those whose rounds grow with log n write as many operations: under 1 ms. Others, of two rounds or of n, write n: under 150 ms. */
static void test_times(void **state)
{
    int *node = malloc(MANY * sizeof *node), timed = 0;
    assert_non_null(node);
    for (int r = 0; r < MANY; r++)
        node[r] = r / 8;
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        peal_problem p = {.kind = (*a)->kind, .nranks = MANY, .nnodes = MANY / 8, .node = node};
        if (!peali_algo_fits(*a, &p))
            continue;
        int rounds = (*a)->bill(&p).rounds, logs = rounds > 2 && rounds <= 2 * peal_log2_ceil(MANY);
        double ms = best_ms(*a, &p, MANY / 3), most = limit(logs ? 1 : 150);
        print_message("%s %s: %.3f ms\n", peal_kind_name(p.kind), (*a)->name, ms);
        if (ms > most)
            fail_msg("%s %s: %.3f ms, at most %.0f", peal_kind_name(p.kind), (*a)->name, ms, most);
        timed += logs;
    }
    free(node);
    assert_in_range(timed, 10, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_costs), cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_any_levels), cmocka_unit_test(test_parts), cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_trees),      cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
