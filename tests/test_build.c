/*
 * What a newcomer may get wrong in the calls of algo.h. Each mistake is refused with its place, and any mixture of right and wrong
 * arguments gives schedules that are in bounds, or none; what reads those without a proof ends, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lower/lower.h"
#include "study/check.h"

enum { MOST_RANKS = 6, DEPTH = 3, SEEDS = 30000 };

static struct {
    unsigned seed;
    int wild, depth; /* one argument in WILD is any number */
    peal_problem inner[DEPTH + 1];
} all;

static int pick(int n)
{
    all.seed = all.seed * 1664525u + 1013904223u;
    return (int)((all.seed >> 9) % (unsigned)n);
}

/* One of 0 to N-1, as a rule. */
static int any(int n)
{
    static const int edges[] = {-1, -2, INT_MIN, INT_MIN + 1, INT_MAX, INT_MAX - 1, PEAL_SLOTS, PEAL_SLOTS - 1, PEAL_LANES, 255,
                                256, 32767, 65536, 1 << 30};
    if (pick(all.wild) > 0)
        return pick(n);
    int k = pick(2 + (int)(sizeof edges / sizeof *edges));
    return k < 2 ? n + k : edges[k - 2];
}

static peal_range some(int parts)
{
    int part = any(parts), n = pick(3) ? 1 : any(parts + 1);
    switch (pick(4)) {
    case 0: return peal_in(part, n);
    case 1: return peal_out(part, n);
    case 2: return peal_tmp(any(4), part);
    default: return peal_tmps(any(4), part, n);
    }
}

/* In another buffer, as a rule of the same parts. */
static peal_range other(peal_range r)
{
    peal_range o = pick(2) ? peal_out(r.part, r.parts) : peal_tmps(any(4), r.part, r.parts);
    o.part = pick(20) ? o.part : any(4);
    return o;
}

static void build(peal_sched *s, const peal_problem *p, int rank);
static peal_bill bill(const peal_problem *p);
static const peal_algo wild_algo = {"wild", PEAL_ALLREDUCE, 0, NULL, build, bill};

static void run(peal_sched *s, const peal_problem *p, int parts)
{
    int ranks[MOST_RANKS];
    peal_problem *inner = &all.inner[all.depth];
    *inner = (peal_problem){.kind = PEAL_ALLREDUCE, .nranks = 1 + pick(p->nranks), .nnodes = 1};
    for (int r = 0; r < MOST_RANKS; r++)
        ranks[r] = any(p->nranks);
    peal_call call = {.algo = &wild_algo, .problem = inner, .ranks = pick(3) ? ranks : NULL, .rank = any(inner->nranks)};
    call.part = any(parts);
    call.parts = any(parts + 1);
    call.in = any(2);
    call.slot = any(3);
    call.lane = any(3);
    call.grain = pick(2) ? 0 : any(4);
    peal_run(s, &call);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    if (all.depth == DEPTH)
        return;
    all.depth++;
    int parts = 1 + pick(5), given = any(8) ? parts : any(parts + 1);
    peal_blocks(s, given);
    for (int k = pick(12); k > 0; k--) {
        peal_range r = some(parts);
        switch (pick(8)) {
        case 0: peal_lane(s, any(4)); break;
        case 1: peal_copy(s, other(r), r); break;
        case 2: peal_reduce_into(s, other(r), r); break;
        case 3: case 4: peal_send(s, any(p->nranks), r); break;
        case 5: case 6: peal_recv(s, any(p->nranks), other(r)); break;
        default: run(s, p, parts); break;
        }
    }
    all.depth--;
}

static peal_bill bill(const peal_problem *p)
{
    return (peal_bill){.blocks = 1};
}

/* The same on each call for a rank. */
static void build_rank(peal_sched *s, const peal_problem *p, int rank)
{
    unsigned seed = all.seed;
    all.seed = seed * 31 + (unsigned)rank * 7919;
    all.depth = 0;
    build(s, p, rank);
    all.seed = seed;
}

static const peal_algo whole = {"whole", PEAL_ALLREDUCE, 0, NULL, build_rank, bill};

static bool in_bounds(const peal_sched *s)
{
    bool good = s->nblocks > 0 && s->nbufs <= INT16_MAX + 1 && s->nlanes <= PEAL_LANES;
    for (int32_t i = 0; i < s->nops; i++) {
        const peali_op *op = &s->ops[i];
        bool message = op->verb == PEALI_SEND || op->verb == PEALI_RECV;
        good &= op->first >= 0 && op->first < op->end && op->end <= s->nblocks && op->lane < s->nlanes;
        good &= op->dst != PEAL_BUF_IN && op->dst < s->nbufs && op->src < s->nbufs && (op->dst >= 0 || op->src >= 0);
        good &= !message || (op->peer >= 0 && op->peer < s->nranks && op->peer != s->rank);
    }
    return good;
}

static void lower(const peal_problem *p, int modes)
{
    int32_t ranks[MOST_RANKS] = {0, 1, 2, 3, 4, 5};
    peali_program *programs[MOST_RANKS] = {NULL};
    peali_reach reach = {1 + pick(p->nranks), ranks, (peali_mode)pick(modes)};
    peal_status status = peali_lower_all(&whole, p, &reach, programs);
    assert_true(status == PEAL_OK || status == PEAL_ERR_INVALID);
    for (int r = 0; r < reach.nranks && status == PEAL_OK; r++)
        peali_program_free(&programs[r]);
}

/* True where all ranks have a schedule. */
static bool play(unsigned seed, int wild)
{
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 1 + (int)(seed % MOST_RANKS), .nnodes = 1};
    peali_check_report report;
    bool built = true;
    all.seed = seed * 2654435761u + 17;
    all.wild = wild;
    for (int r = 0; r < p.nranks; r++) {
        peal_sched *s = NULL;
        peal_status status = peali_sched_build(&whole, &p, r, &s);
        assert_true(status == PEAL_ERR_INVALID || (status == PEAL_OK && in_bounds(s)));
        built &= status == PEAL_OK;
        peali_sched_free(&s);
    }
    peal_status status = peali_check(&whole, &p, &report);
    assert_true(status == PEAL_ERR_INVALID || (built && status == PEAL_OK));
    assert_true((status == PEAL_OK) == (report.why[0] == '\0'));
    lower(&p, PEALI_MODES);
    return built;
}

static void test_any_arguments(void **state)
{
    int built = 0;
    for (unsigned seed = 0; seed < SEEDS; seed++)
        built += play(seed, seed % 2 ? 100000 : 12);
    printf("%d of %d were built\n", built, SEEDS);
    assert_true(built > SEEDS / 50);
}

/* One mistake each, and which. */
static int mistake;
enum { MISTAKES = 13 };

static const peal_algo mistaken;

static void build_mistake(peal_sched *s, const peal_problem *p, int rank)
{
    static const int strangers[] = {0, 3}, elsewhere[] = {1, 0}, twins[] = {0, 0};
    const peal_problem pair = {.kind = PEAL_ALLREDUCE, .nranks = 2, .nnodes = 1};
    const peal_problem crowd = {.kind = PEAL_ALLREDUCE, .nranks = 4, .nnodes = 1};
    peal_call call = {.algo = &whole, .problem = &pair, .ranks = elsewhere, .rank = 1 - rank, .parts = 1};
    peal_blocks(s, 1);
    switch (mistake) {
    case 0: peal_copy(s, peal_out(0, 1), peal_tmp(-1, 0)); return;
    case 1: peal_copy(s, peal_out(0, 1), peal_tmps(-2, 0, 1)); return;
    case 2: peal_copy(s, peal_tmp(INT_MAX, 0), peal_in(0, 1)); return;
    case 3: peal_copy(s, peal_out(0, INT_MAX), peal_in(0, INT_MAX)); return;
    case 4: call.ranks = strangers; break;
    case 5: call.rank = rank; break;
    case 6: call.ranks = twins; break;
    case 7: call.problem = &crowd; break;
    case 8: call.part = call.parts = INT_MAX; break;
    case 9: call.algo = NULL; break;
    case 10: call.problem = NULL; break;
    case 11: call.algo = &mistaken; break; /* for ever */
    default: call.slot = PEAL_SLOTS + 1; break;
    }
    peal_run(s, &call);
}

static const peal_algo mistaken = {"mistaken", PEAL_ALLREDUCE, 0, NULL, build_mistake, bill};

static void test_mistakes(void **state)
{
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 2, .nnodes = 1};
    peal_sched *s = NULL;
    for (mistake = 0; mistake < MISTAKES; mistake++)
        if (peali_sched_build(&mistaken, &p, 0, &s) != PEAL_ERR_INVALID)
            fail_msg("mistake %d was not found", mistake);
}

/* Schedules that do not fit each other. */
static void build_odd(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, mistake == 0 ? 2 - rank : 1);
    peal_copy(s, peal_out(0, mistake == 0 ? 2 - rank : 1), peal_in(0, mistake == 0 ? 2 - rank : 1));
    if (rank == 0 && mistake == 1)
        peal_recv(s, 1, peal_out(0, 1));
    if (rank == 1 && mistake == 2)
        peal_send(s, 0, peal_out(0, 1));
}

static const peal_algo odd = {"odd", PEAL_ALLREDUCE, 0, NULL, build_odd, bill};

static void test_schedules_fit_each_other(void **state)
{
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 2, .nnodes = 1};
    int32_t ranks[] = {0, 1};
    for (mistake = 0; mistake < 3; mistake++)
        for (int mode = 0; mode < PEALI_MODES; mode++) {
            peali_program *programs[2];
            peali_reach reach = {2, ranks, (peali_mode)mode};
            assert_int_equal(peali_lower_all(&odd, &p, &reach, programs), PEAL_ERR_INVALID);
        }
}

int main(void)
{
    setenv("PEAL_LOG_FILE", "/dev/null", 0); /* a line for each mistake */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_schedules_fit_each_other),
        cmocka_unit_test(test_any_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
