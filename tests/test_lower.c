/* What lowering makes of the algorithms: the shapes that fusing must find, and those that it must keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/clock.h"
#include "lower/lower.h"

enum { MOST_RANKS = 64 };

typedef struct shape {
    int sends, recvs, copies, reduces, reread, most_src, most_dst, instrs;
    bool copies_first; /* no copy comes after a sum */
} shape;

static shape shape_in(const peal_problem *problem, const char *name, int nreach, peali_mode mode, int rank)
{
    int32_t ranks[MOST_RANKS];
    peali_program *p;
    shape s = {0};
    for (int i = 0; i < nreach; i++)
        ranks[i] = nreach == 1 ? rank : i;
    peali_reach reach = {nreach, ranks, mode};
    assert_int_equal(peali_lower(peali_algo_find(problem->kind, name), problem, &reach, rank, &p), PEAL_OK);
    s.instrs = p->ninstrs;
    s.copies_first = true;
    for (int32_t i = 0; i < p->ninstrs; i++) {
        const peali_instr *in = &p->instrs[i];
        s.sends += in->kind == PEALI_I_SEND;
        s.recvs += in->kind == PEALI_I_RECV;
        s.copies += in->kind == PEALI_I_REDUCE && in->nsrc == 1;
        s.copies_first &= in->kind != PEALI_I_REDUCE || in->nsrc > 1 || s.reduces == 0;
        s.reduces += in->kind == PEALI_I_REDUCE && in->nsrc > 1;
        s.reread += in->kind == PEALI_I_REDUCE && in->reread;
        if (in->kind == PEALI_I_REDUCE) {
            s.most_src = in->nsrc > s.most_src ? in->nsrc : s.most_src;
            s.most_dst = in->ndst > s.most_dst ? in->ndst : s.most_dst;
        }
    }
    peali_program_free(&p);
    return s;
}

static shape shape_of(const char *name, int n, int nreach, peali_mode mode, int rank)
{
    return shape_in(&(peal_problem){.kind = PEAL_ALLREDUCE, .nranks = n, .nnodes = 1}, name, nreach, mode, rank);
}

static void test_two_shot_within_reach(void **state)
{
    for (int n = 2; n <= MOST_RANKS; n *= 2)
        for (int r = 0; r < n; r += n / 2) {
            shape s = shape_of("two_shot", n, n, PEALI_PULL, r);
            assert_int_equal(s.instrs, 3);
            assert_int_equal(s.reduces, 1);
            assert_int_equal(s.most_src, n);
            assert_int_equal(s.most_dst, n);
            assert_int_equal(s.reread, 0);
        }
}

/* One instruction of SRC sources and DST destinations, and nothing else. */
static void one_step(const peal_problem *p, const char *name, int rank, int src, int dst)
{
    shape s = shape_in(p, name, p->nranks, PEALI_PLACE, rank);
    assert_int_equal(s.instrs, 3);
    assert_int_equal(s.copies, src == 1);
    assert_int_equal(s.reduces, src > 1);
    assert_int_equal(s.most_src, src);
    assert_int_equal(s.most_dst, dst);
}

/* COPIES at home: the others do the rest. */
static void no_step(const peal_problem *p, int copies)
{
    shape s = shape_in(p, "two_shot", p->nranks, PEALI_PLACE, p->root);
    assert_int_equal(s.instrs, 2 + copies);
    assert_int_equal(s.copies, copies);
}

/* What a rank has in hand it stores for all: two rounds become one instruction a rank, and the root's copy into its own OUT. */
static void test_place(void **state)
{
    for (int n = 3; n <= 16; n++)
        for (int rank = 0; rank < n; rank++) {
            peal_problem p = {.nranks = n, .nnodes = 1};
            p.kind = PEAL_ALLREDUCE;
            one_step(&p, "two_shot", rank, n, n);
            p.kind = PEAL_REDUCE_SCATTER;
            one_step(&p, "direct", rank, n, 1);
            p.kind = PEAL_ALLGATHER;
            one_step(&p, "direct", rank, 1, n);
            for (p.root = 0; p.root < n; p.root++) {
                p.kind = PEAL_BROADCAST;
                if (rank == p.root)
                    no_step(&p, 1);
                else
                    one_step(&p, "two_shot", rank, 1, n - 1);
                p.kind = PEAL_REDUCE;
                if (rank == p.root)
                    no_step(&p, 0);
                else
                    one_step(&p, "two_shot", rank, n, 1);
            }
        }
}

/* In blocks, what ranks within reach touch of a rank's IN and OUT: of IN what is not its share, of OUT its share at most. */
static void show(peal_kind kind, const char *name, int nnodes, int reach_ranks, int rank)
{
    int32_t ranks[MOST_RANKS], in = 0, out = 0;
    int n = nnodes * reach_ranks, node[MOST_RANKS];
    peali_program *p;
    for (int i = 0; i < n; i++) {
        ranks[i] = i;
        node[i] = i / reach_ranks;
    }
    peali_reach reach = {reach_ranks, ranks, PEALI_PULL};
    peal_problem problem = {.kind = kind, .nranks = n, .nnodes = nnodes, .node = node};
    assert_int_equal(peali_lower(peali_algo_find(kind, name), &problem, &reach, rank, &p), PEAL_OK);
    for (int32_t k = 0; k + 1 < p->ncuts; k++) {
        bool mine = p->cuts[k] / (p->nblocks / reach_ranks) == rank;
        assert_true(p->shown[k] & 1 ? !mine : mine);
        assert_true(!(p->shown[k] & 2) || mine);
        in += p->shown[k] & 1 ? p->cuts[k + 1] - p->cuts[k] : 0;
        out += p->shown[k] & 2 ? p->cuts[k + 1] - p->cuts[k] : 0;
    }
    assert_int_equal(in * reach_ranks, p->nblocks * (reach_ranks - 1));
    assert_int_equal(out * reach_ranks, kind == PEAL_ALLREDUCE ? p->nblocks : 0);
    peali_program_free(&p);
}

static void test_shown(void **state)
{
    for (int n = 2; n <= 8; n++)
        for (int rank = 0; rank < n; rank++) {
            show(PEAL_ALLREDUCE, "hierarchical", 3, n, rank);
            show(PEAL_REDUCE_SCATTER, "direct", 1, n, rank);
        }
}

/* Fused over messages, a ring copies nothing: what it sends first lies in IN, and each sum goes straight to OUT. */
static void test_ring_over_messages(void **state)
{
    for (int n = 2; n <= 16; n++) {
        shape s = shape_of("ring", n, 1, PEALI_PULL, n / 2);
        assert_int_equal(s.sends, 2 * (n - 1));
        assert_int_equal(s.recvs, 2 * (n - 1));
        assert_int_equal(s.reduces, n - 1);
        assert_int_equal(s.copies, 0);
    }
}

/* A forward by another rank stays that rank's: a ring within reach must not become an all-to-all. */
static void test_ring_keeps_its_shape(void **state)
{
    for (int n = 3; n <= 16; n++)
        for (int r = 0; r < n; r++) {
            shape pull = shape_of("ring", n, n, PEALI_PULL, r), push = shape_of("ring", n, n, PEALI_PUSH, r);
            shape place = shape_of("ring", n, n, PEALI_PLACE, r);
            assert_int_equal(pull.reduces, n - 1);
            assert_int_equal(pull.copies, n - 2);
            assert_int_equal(pull.reread, 2 * n - 4); /* all but the last copy, which nobody passes on */
            assert_int_equal(pull.most_src, 2);
            assert_in_range(pull.most_dst, 1, 2);
            assert_int_equal(push.reduces, n - 1);
            assert_int_equal(push.copies, n);
            assert_in_range(push.most_dst, 1, 2);
            assert_int_equal(place.reduces, n - 1);
            assert_in_range(place.copies, (n - 2) / 2, (n - 1) / 2); /* every other rank stores for the next one, too */
            assert_in_range(place.most_dst, 1, 2);
        }
}

/* LOWERING, "Push": copy IN to all, then one sum in rank order. */
static void test_one_shot_push(void **state)
{
    shape s = shape_of("one_shot", 4, 4, PEALI_PUSH, 1);
    assert_int_equal(s.copies, 1);
    assert_int_equal(s.reduces, 1);
    assert_int_equal(s.most_src, 4);
    assert_int_equal(s.most_dst, 3);
    assert_int_equal(s.instrs, 4);
}

/*
 * At most one instruction for each round, and one to begin: what a rank gives away goes out before a sum that waits for others,
 * also where another rank asks for that sum first.
 */
static void test_recursive_multiplying(void **state)
{
    for (int n = 2; n <= MOST_RANKS; n++)
        for (int r = 0; r < n; r++) {
            shape push = shape_of("recursive_multiplying", n, n, PEALI_PUSH, r);
            shape pull = shape_of("recursive_multiplying", n, n, PEALI_PULL, r);
            int rounds = n <= 8 ? 1 : 2;
            assert_int_equal(push.copies, 1);
            assert_in_range(push.reduces, 1, rounds);
            assert_true(push.copies_first && push.instrs == push.reduces + 3);
            assert_true(pull.copies_first && pull.instrs <= rounds + 3);
        }
    shape s = shape_of("recursive_multiplying", 64, 64, PEALI_PUSH, 37);
    assert_int_equal(s.reduces, 2);
    assert_int_equal(s.most_src, 8);
    assert_int_equal(s.most_dst, 8); /* seven slots, and its own sum */
}

/*
 * Pull: one sum in each round, whose parts others read in the next, and not more copies than messages. Push: of IN a copy for each
 * of its team, and of what comes back one for each that comes, and one, not one for each that it goes to, to pass on what it has
 * of a round.
 */
static void test_sra_knomial(void **state)
{
    static const struct {
        int n, rounds, most, messages, copies;
    } teams[] = {{16, 2, 4, 6, 10}, {32, 3, 4, 7, 12}, {48, 3, 4, 8, 13}, {64, 3, 4, 9, 14}};
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < teams[i].n; r++) {
            shape pull = shape_of("sra_knomial", teams[i].n, teams[i].n, PEALI_PULL, r);
            assert_int_equal(pull.reduces, teams[i].rounds);
            assert_int_equal(pull.most_src, teams[i].most);
            assert_in_range(pull.copies, 0, teams[i].messages);
            assert_int_equal(shape_of("sra_knomial", teams[i].n, teams[i].n, PEALI_PUSH, r).copies, teams[i].copies);
        }
}

/* One instruction to each sum and to each message that comes back, and one to pass on what a rank has, whoever gets it. */
static void test_grid(void **state)
{
    for (int n = 8; n <= MOST_RANKS; n *= 2)
        for (int r = 0; r < n; r++) {
            shape push = shape_of("grid", n, n, PEALI_PUSH, r);
            assert_int_equal(push.reduces, 2 + (n > 32));
            assert_int_equal(push.copies, 6);
        }
}

static void test_tree_keeps_its_shape(void **state)
{
    for (int r = 0; r < 16; r++) {
        shape s = shape_of("double_binary_tree", 16, 16, PEALI_PULL, r);
        assert_in_range(s.most_src, 1, 3); /* own and two children */
        assert_in_range(s.reduces, 0, 2);  /* inner in one tree or, for the last, none */
    }
}

/* A rank's first call takes as long: among many ranks of many nodes, by so many messages within a node, it once took 41 s. */
static void test_many_ranks_of_many_nodes(void **state)
{
    enum { NODES = 16, PER_NODE = 64, N = NODES * PER_NODE, MOST_S = 10 };
    static int node[N];
    static int32_t ranks[PER_NODE];
    const peal_problem problem = {.kind = PEAL_ALLGATHER, .op = PEAL_SUM, .nranks = N, .nnodes = NODES, .node = node};
    peali_program *program;
    for (int r = 0; r < N; r++)
        node[r] = r / PER_NODE;
    for (int r = 0; r < PER_NODE; r++)
        ranks[r] = r;
    int64_t before = peali_clock_ns();
    assert_int_equal(peali_lower(peali_algo_find(PEAL_ALLGATHER, "hierarchical"), &problem,
                                 &(peali_reach){PER_NODE, ranks, PEALI_PULL}, 0, &program), PEAL_OK);
    assert_in_range((peali_clock_ns() - before) / 1000000, 0, MOST_S * 1000);
    peali_program_free(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_shot_within_reach), cmocka_unit_test(test_ring_over_messages),
        cmocka_unit_test(test_ring_keeps_its_shape),  cmocka_unit_test(test_one_shot_push),
        cmocka_unit_test(test_recursive_multiplying), cmocka_unit_test(test_sra_knomial),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_tree_keeps_its_shape),  cmocka_unit_test(test_place),
        cmocka_unit_test(test_shown),                 cmocka_unit_test(test_many_ranks_of_many_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
