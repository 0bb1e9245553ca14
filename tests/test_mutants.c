/*
 * check is itself tested by mutants: schedules with one edit each. A runner of its own (mutant_runner.h) judges which edits do
 * harm; check must refute every one of those. Edits that check accepts are listed. Without an argument a fixed sample of edits
 * is tried, with "all" every one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mutant_runner.h"

enum { EDITS_PER_PROBLEM = 200, MAX_RANKS = RUNNER_RANKS };

/* The edits. Each changes one rank; VARIANT chooses where there are several ways. */
typedef enum edit_kind { DROP, DUPLICATE, SWAP, PEER, BLOCK, LANE, SLOT, REVERSE, VERB, EDGE, EDIT_KINDS } edit_kind;
static const char *const edit_names[] = {"drop", "duplicate", "swap", "peer", "block", "lane", "slot", "reverse", "verb", "edge"};
static const int variants[] = {1, 1, 2, 2, 3, 1, 4, 1, 1, 3};

typedef struct edit {
    edit_kind kind;
    int variant, rank, op;
} edit;

static bool is_message(const peali_op *op)
{
    return op->verb == PEALI_SEND || op->verb == PEALI_RECV;
}

static bool edit_swap(peal_sched *s, int i, int variant)
{
    int k = variant == 0 ? i + 1 : i + 2 + (int)(runner_mix((uint64_t)i * 31 + (uint64_t)s->rank) % 5);
    if (k >= s->nops)
        return false;
    peali_op keep = s->ops[i];
    s->ops[i] = s->ops[k];
    s->ops[k] = keep;
    return true;
}

static bool edit_peer(peal_sched *s, peali_op *op, int variant)
{
    int was = op->peer;
    if (!is_message(op) || s->nranks < 3)
        return false;
    do
        op->peer = (op->peer + (variant == 0 ? 1 : s->nranks - 1)) % s->nranks;
    while (op->peer == s->rank);
    return op->peer != was;
}

static bool edit_block(peal_sched *s, peali_op *op, int variant)
{
    peali_op was = *op;
    if (variant == 0 && op->end < s->nblocks)
        op->first++, op->end++;
    else if (variant == 0 && op->first > 0)
        op->first--, op->end--;
    else if (variant == 1 && op->end < s->nblocks)
        op->end++;
    else if (variant == 2 && op->end - op->first > 1)
        op->first++;
    return was.first != op->first || was.end != op->end;
}

/* Variants: the target or the source becomes the next buffer, or another kind of buffer. */
static bool edit_slot(peal_sched *s, peali_op *op, int variant)
{
    int16_t *buf = variant % 2 ? &op->src : &op->dst;
    if (*buf < 0)
        return false;
    if (variant < 2)
        *buf = (int16_t)(*buf + 1);
    else
        *buf = *buf >= PEAL_BUF_TMP ? PEAL_BUF_OUT : *buf == PEAL_BUF_OUT ? PEAL_BUF_IN : PEAL_BUF_TMP;
    if (*buf >= s->nbufs)
        s->nbufs = *buf + 1;
    return true;
}

static bool edit_op(peal_sched *s, const edit *e)
{
    peali_op *op = &s->ops[e->op];
    int16_t src = op->src;
    switch (e->kind) {
    case PEER:
        return edit_peer(s, op, e->variant);
    case BLOCK:
        return edit_block(s, op, e->variant);
    case LANE:
        op->lane = op->lane ? 0 : 1;
        s->nlanes = 2;
        return is_message(op);
    case SLOT:
        return edit_slot(s, op, e->variant);
    case REVERSE:
        op->src = op->dst;
        op->dst = src;
        return !is_message(op);
    default:
        if (!is_message(op))
            op->verb = op->verb == PEALI_COPY ? PEALI_REDUCE : PEALI_COPY;
        return !is_message(op);
    }
}

/* A copy of FROM with one edit; NULL where the edit cannot be made there. */
static peal_sched *edited(const peal_sched *from, const edit *e)
{
    peal_sched *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = *from;
    s->cap = s->nops + 1;
    s->ops = malloc((size_t)s->cap * sizeof *s->ops);
    assert_non_null(s->ops);
    memcpy(s->ops, from->ops, (size_t)s->nops * sizeof *s->ops);
    bool made = true;
    if (e->kind == DROP || e->kind == DUPLICATE) {
        int shift = e->kind == DROP ? -1 : 1;
        memmove(&s->ops[e->op + 1 + shift], &s->ops[e->op + 1], (size_t)(s->nops - e->op - 1) * sizeof *s->ops);
        s->nops += shift;
        if (e->kind == DUPLICATE)
            s->ops[e->op + 1] = s->ops[e->op];
    } else if (e->kind == SWAP) {
        made = edit_swap(s, e->op, e->variant);
    } else if (e->kind != EDGE) {
        made = edit_op(s, e);
    }
    if (!made)
        free(s->ops), free(s);
    return made ? s : NULL;
}

/* Takes the VARIANT-th wait of the operation out of ORDER. False: there are not so many. */
static bool cut_edge(peali_order *order, const edit *e)
{
    int at = order->start[e->op] + e->variant;
    if (at >= order->start[e->op + 1])
        return false;
    memmove(&order->from[at], &order->from[at + 1], (size_t)(order->start[order->nops] - at - 1) * sizeof *order->from);
    for (int i = e->op + 1; i <= order->nops; i++)
        order->start[i]--;
    return true;
}

/* One problem, its right schedules, and the tally of the edits tried on it. */
typedef struct subject {
    const peal_algo *algo;
    peal_problem problem;
    peal_sched *sched[MAX_RANKS];
    peali_order order[MAX_RANKS];
    runner_needs need[MAX_RANKS];
} subject;

typedef struct tally {
    long tried, harmful, refuted, strict, accepted, missed; /* strict: refuted though no interleaving showed harm */
} tally;

static bool try_all;
static tally totals[EDIT_KINDS];

static void say(const char *what, const subject *u, const edit *e)
{
    const peal_problem *p = &u->problem;
    print_message("%s: %s %s n %d root %d nodes %d rank %d operation %d: %s %d\n", what, peal_kind_name(p->kind), u->algo->name,
                  p->nranks, p->root, p->nnodes, e->rank, e->op, edit_names[e->kind], e->variant);
}

static void judge(const subject *u, const edit *e, const peali_check_case *what, const runner_needs *need)
{
    peali_check_report report;
    tally *t = &totals[e->kind];
    bool accepted = peali_check_built(what, &report) == PEAL_OK, harm = !runner_harmless(what, need);
    t->tried++;
    t->harmful += harm;
    t->refuted += !accepted;
    t->strict += !accepted && !harm;
    t->accepted += accepted;
    t->missed += accepted && harm;
    if (accepted)
        say(harm ? "MISSED" : "accepted", u, e);
}

static void try_edit(const subject *u, const edit *e)
{
    peal_sched *sched[MAX_RANKS], *changed = edited(u->sched[e->rank], e);
    peali_order order[MAX_RANKS], changed_order;
    runner_needs need[MAX_RANKS];
    if (!changed)
        return;
    memcpy(sched, u->sched, sizeof sched);
    memcpy(order, u->order, sizeof order);
    memcpy(need, u->need, sizeof need);
    sched[e->rank] = changed;
    assert_int_equal(peali_order_infer(changed, &changed_order), PEAL_OK);
    if (e->kind != EDGE || cut_edge(&changed_order, e)) {
        order[e->rank] = changed_order;
        need[e->rank] = runner_infer(changed, e->kind == EDGE ? &changed_order : NULL);
        peali_check_case what = {u->algo, &u->problem, (const peal_sched *const *)sched, order};
        judge(u, e, &what, need);
        runner_free(&need[e->rank]);
    }
    peali_order_free(&changed_order);
    free(changed->ops);
    free(changed);
}

static bool sampled(const subject *u, const edit *e, uint64_t share)
{
    uint64_t key = (uint64_t)u->problem.nranks << 32 | (uint64_t)u->problem.root << 24 | (uint64_t)u->problem.nnodes << 16;
    uint64_t place = (uint64_t)e->kind << 24 | (uint64_t)e->variant << 20 | (uint64_t)e->rank << 14 | (uint64_t)e->op;
    return try_all || runner_mix(key ^ runner_mix(place)) % share == 0;
}

static void try_subject(const subject *u)
{
    uint64_t share = 0;
    for (int r = 0; r < u->problem.nranks; r++)
        for (int kind = 0; kind < EDIT_KINDS; kind++)
            share += (uint64_t)u->sched[r]->nops * (uint64_t)variants[kind];
    share = share / EDITS_PER_PROBLEM + 1;
    edit e;
    for (e.rank = 0; e.rank < u->problem.nranks; e.rank++)
        for (e.op = 0; e.op < u->sched[e.rank]->nops; e.op++)
            for (int kind = 0; kind < EDIT_KINDS; kind++)
                for (e.kind = (edit_kind)kind, e.variant = 0; e.variant < variants[kind]; e.variant++)
                    if (sampled(u, &e, share))
                        try_edit(u, &e);
}

/* Right schedules must pass both judges, or neither says anything about wrong ones. */
static void try_problem(const peal_algo *algo, const peal_problem *p)
{
    subject u = {.algo = algo, .problem = *p};
    peali_check_case what = {algo, &u.problem, (const peal_sched *const *)u.sched, u.order};
    peali_check_report report;
    for (int r = 0; r < p->nranks; r++) {
        assert_int_equal(peali_sched_build(algo, p, r, &u.sched[r]), PEAL_OK);
        assert_int_equal(peali_order_infer(u.sched[r], &u.order[r]), PEAL_OK);
        u.need[r] = runner_infer(u.sched[r], NULL);
    }
    if (peali_check_built(&what, &report) != PEAL_OK)
        fail_msg("%s", report.why);
    if (!runner_harmless(&what, u.need))
        fail_msg("%s %s, n %d: the runner finds the right schedule wrong", peal_kind_name(p->kind), algo->name, p->nranks);
    try_subject(&u);
    for (int r = 0; r < p->nranks; r++) {
        runner_free(&u.need[r]);
        peali_order_free(&u.order[r]);
        peali_sched_free(&u.sched[r]);
    }
}

static bool same_op(const peali_op *a, const peali_op *b)
{
    return a->verb == b->verb && a->lane == b->lane && a->dst == b->dst && a->src == b->src && a->peer == b->peer &&
           a->first == b->first && a->end == b->end;
}

/* True where rank RANK does the same in both problems. */
static bool same_work(const peal_algo *algo, const peal_problem *p, const peal_problem *q, int rank)
{
    peal_sched *a, *b;
    assert_int_equal(peali_sched_build(algo, p, rank, &a), PEAL_OK);
    assert_int_equal(peali_sched_build(algo, q, rank, &b), PEAL_OK);
    bool same = a->nops == b->nops;
    for (int i = 0; same && i < a->nops; i++)
        same = same_op(&a->ops[i], &b->ops[i]);
    peali_sched_free(&a);
    peali_sched_free(&b);
    return same;
}

/* On one node, and on nodes of 1, 2, 3, ... ranks if that makes a difference. */
static void try_maps(const peal_algo *algo, const peal_problem *flat)
{
    static const int uneven[MAX_RANKS] = {0, 1, 1, 2, 2, 2, 3, 3, 3};
    peal_problem mapped = *flat;
    mapped.node = uneven;
    mapped.nnodes = uneven[flat->nranks - 1] + 1;
    bool fits = peali_algo_fits(algo, flat), differs = !fits;
    if (fits)
        try_problem(algo, flat);
    if (!peali_algo_fits(algo, &mapped))
        return;
    for (int r = 0; fits && r < flat->nranks && !differs; r++)
        differs = !same_work(algo, flat, &mapped, r);
    if (differs)
        try_problem(algo, &mapped);
}

/* Every algorithm for n = 2 to 9, with the first and the last root. */
static void try_algorithm(const peal_algo *algo)
{
    peal_problem p = {.kind = algo->kind, .op = PEAL_SUM, .nnodes = 1};
    bool rooted = p.kind == PEAL_BROADCAST || p.kind == PEAL_REDUCE;
    for (p.nranks = 2; p.nranks <= MAX_RANKS; p.nranks++)
        for (p.root = 0; p.root < p.nranks; p.root += rooted ? p.nranks - 1 : p.nranks)
            try_maps(algo, &p);
}

static void test_mutants(void **state)
{
    long missed = 0, harmful = 0;
    for (const peal_algo *const *a = peali_algos; *a; a++)
        try_algorithm(*a);
    for (int k = 0; k < EDIT_KINDS; k++) {
        const tally *t = &totals[k];
        print_message("%-10s tried %7ld  harmful %7ld  refuted %7ld (without harm seen %5ld)  accepted %6ld  missed %ld\n",
                      edit_names[k], t->tried, t->harmful, t->refuted, t->strict, t->accepted, t->missed);
        missed += t->missed;
        harmful += t->harmful;
        assert_true(t->tried > 0);
    }
    assert_true(harmful > 0);
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv)
{
    try_all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
