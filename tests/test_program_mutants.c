/*
 * check of programs is itself tested by mutants: lowered programs with one edit each. A runner of its own (program_runner.h)
 * judges which edits do harm; check must refute every one of those. Edits that check accepts are listed. Without an argument a
 * fixed sample of edits is tried, with "all" every one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "program_edit.h"
#include "program_runner.h"

enum { MAX_RANKS = 6, EDITS_PER_CASE = 12, INTERLEAVINGS = 120 };

typedef enum edit_kind {
    DROP, DUPLICATE, SWAP, MOVE, DROP_WAIT, OTHER_WAIT, DROP_AWAIT, OTHER_AWAIT, OTHER_RANK_AWAIT, DROP_FLAG, OTHER_FLAG,
    DROP_OPERAND, OPERAND_RANK, OPERAND_BUF, OPERAND_BASE, SWAP_OPERANDS, CUT, PEER, LANE, KIND, KNOWS, STORES_TO, EDIT_KINDS
} edit_kind;

static const char *const edit_names[] = {
    "drop", "duplicate", "swap", "move", "drop wait", "other wait", "drop await", "other await", "await of another", "drop flag",
    "other flag", "drop operand", "operand rank", "operand buffer", "operand base", "swap operands", "cut", "peer", "lane", "kind",
    "knows", "stores to"};
static const int variants[] = {1, 2, 1, 2, 3, 2, 4, 2, 1, 1, 2, 6, 6, 12, 4, 4, 4, 2, 1, 2, 6, 6};

typedef struct edit {
    edit_kind kind;
    int variant, rank, no;
} edit;

static bool is_message(const edit_instr *i)
{
    return i->i.kind == PEALI_I_SEND || i->i.kind == PEALI_I_RECV;
}

static bool edit_place(edit_program *e, int no, edit_kind kind, int variant)
{
    if (no == 0 || no == e->n - 1)
        return false;
    if (kind == DROP) {
        edit_drop(e, no);
    } else if (kind == DUPLICATE) {
        edit_insert(e, no + 1, &e->at[no]);
        if (variant == 0)
            e->at[no + 1].i.flag = -1;
    } else if (kind == SWAP) {
        if (no + 1 == e->n - 1)
            return false;
        edit_swap(e, no, no + 1);
    } else {
        int to = variant ? 1 : e->n - 2;
        if (to == no)
            return false;
        for (int at = no; at != to; at += to > at ? 1 : -1)
            edit_swap(e, at, at + (to > at ? 1 : -1));
    }
    return true;
}

static bool edit_wait(edit_program *e, int no, edit_kind kind, int variant)
{
    edit_instr *i = &e->at[no];
    if (kind == OTHER_WAIT) {
        for (int to = i->i.nwaits ? i->waits[0] : no; i->i.nwaits && to >= 0 && to < no;) {
            to += variant ? 1 : -1;
            if (to >= 0 && to < no && is_message(&e->at[to])) {
                i->waits[0] = to;
                return true;
            }
        }
        return false;
    }
    if (variant >= i->i.nwaits)
        return false;
    edit_drop_wait(i, variant);
    return true;
}

static bool edit_await(edit_program *e, int no, edit_kind kind, int variant)
{
    edit_instr *i = &e->at[no];
    if (i->i.nawaits == 0 || (kind == DROP_AWAIT && variant >= i->i.nawaits))
        return false;
    peali_await *a = &i->awaits[no % i->i.nawaits], was = *a;
    if (kind == DROP_AWAIT) {
        edit_drop_await(i, variant);
        return true;
    }
    if (kind == OTHER_AWAIT)
        a->flag += variant ? 1 : -1;
    else
        do
            a->rank = (a->rank + 1) % e->p.nreach;
        while (a->rank == e->p.me);
    return a->flag != was.flag || a->rank != was.rank;
}

static bool edit_flag(edit_program *e, int no, edit_kind kind, int variant)
{
    edit_instr *i = &e->at[no];
    if (i->i.flag < 0)
        return false;
    if (kind == DROP_FLAG) {
        i->i.flag = -1;
        return true;
    }
    for (int k = no + 1; k < e->n; k++)
        if ((variant == 0) == (e->at[k].i.flag >= 0)) { /* the flags of two change places; or another takes it */
            int32_t keep = i->i.flag;
            i->i.flag = e->at[k].i.flag;
            e->at[k].i.flag = keep;
            return true;
        }
    return false;
}

static bool edit_buffer(edit_program *e, peali_loc *loc, int variant)
{
    int16_t was = loc->buf;
    if (variant == 0)
        loc->buf++;
    else if (variant == 1)
        loc->buf--;
    else
        loc->buf = was == PEAL_BUF_IN ? PEAL_BUF_OUT : was == PEAL_BUF_OUT ? PEAL_BUF_IN : PEAL_BUF_OUT;
    if (loc->buf < PEAL_BUF_TMP && loc->buf >= 0)
        loc->base = 0;
    int32_t slot = loc->buf < 0 ? e->p.land_start[loc->rank] - 1 - loc->buf : 0;
    if (loc->buf < 0 && slot < e->p.land_start[loc->rank + 1])
        loc->base = e->p.land_first[slot];
    return loc->buf != was;
}

static bool edit_operand(edit_program *e, int no, edit_kind kind, int variant)
{
    edit_instr *i = &e->at[no];
    int n = i->i.nsrc + i->i.ndst, k = kind == OPERAND_BUF ? variant / 3 : variant;
    if (k >= n)
        return false;
    k = k % 2 ? n - 1 - k / 2 : k / 2; /* from both ends on */
    peali_loc *loc = &i->locs[k];
    if (kind == DROP_OPERAND) {
        edit_drop_operand(i, k);
    } else if (kind == OPERAND_RANK) {
        loc->rank = (int16_t)((loc->rank + 1) % e->p.nreach);
        return e->p.nreach > 1;
    } else if (kind == OPERAND_BUF) {
        return edit_buffer(e, loc, variant % 3);
    } else if (kind == OPERAND_BASE) {
        loc->base += loc->base > 0 ? -1 : 1;
        return loc->buf >= PEAL_BUF_TMP;
    } else {
        peali_loc keep = *loc;
        if (k + 1 >= n || memcmp(&keep, &i->locs[k + 1], sizeof keep) == 0)
            return false;
        *loc = i->locs[k + 1];
        i->locs[k + 1] = keep;
    }
    return true;
}

static bool edit_range(edit_program *e, int no, int variant)
{
    peali_instr *i = &e->at[no].i;
    peali_instr was = *i;
    if (variant == 0 && i->end + 1 < e->p.ncuts)
        i->end++;
    else if (variant == 1 && i->first > 0)
        i->first--;
    else if (variant == 2 && i->end - i->first > 1)
        i->end--;
    else if (variant == 3 && i->end - i->first > 1)
        i->first++;
    return i->nsrc + i->ndst > 0 && i->kind != PEALI_I_EXIT && (was.first != i->first || was.end != i->end);
}

static bool edit_message(edit_program *e, int no, edit_kind kind, int variant)
{
    peali_instr *i = &e->at[no].i;
    if (!is_message(&e->at[no]) || (kind == PEER && e->p.nranks < 3))
        return false;
    if (kind == LANE) {
        i->lane = i->lane ? 0 : 1;
        if (e->p.nlanes < 2)
            e->p.nlanes = 2;
        return true;
    }
    do
        i->peer = (i->peer + (variant ? e->p.nranks - 1 : 1)) % e->p.nranks;
    while (i->peer == e->p.rank);
    return true;
}

/* A message becomes one the other way, or a wait. */
static bool edit_kind_of(edit_program *e, int no, int variant)
{
    edit_instr *i = &e->at[no];
    if (!is_message(i))
        return false;
    if (variant == 0) {
        i->i.kind = i->i.kind == PEALI_I_SEND ? PEALI_I_RECV : PEALI_I_SEND;
        i->i.nsrc = i->i.kind == PEALI_I_SEND;
        i->i.ndst = i->i.kind == PEALI_I_RECV;
        return true;
    }
    i->i.kind = PEALI_I_REDUCE;
    i->i.nsrc = i->i.ndst = 0;
    return true;
}

/* The marks of one rank; they belong to the program, so they are edited with its first instruction. */
static bool edit_marks(edit_program *e, int no, edit_kind kind, int y)
{
    static uint8_t marks[2][64];
    if (no > 0 || y >= e->p.nreach || e->p.mode != PEALI_PUSH)
        return false;
    memcpy(marks[0], e->p.knows, (size_t)e->p.nreach);
    memcpy(marks[1], e->p.stores_to, (size_t)e->p.nreach);
    marks[kind == STORES_TO][y] ^= 1;
    e->p.knows = marks[0];
    e->p.stores_to = marks[1];
    return true;
}

static bool make_edit(edit_program *e, const edit *what)
{
    switch (what->kind) {
    case DROP:
    case DUPLICATE:
    case SWAP:
    case MOVE:
        return edit_place(e, what->no, what->kind, what->variant);
    case DROP_WAIT:
    case OTHER_WAIT:
        return edit_wait(e, what->no, what->kind, what->variant);
    case DROP_AWAIT:
    case OTHER_AWAIT:
    case OTHER_RANK_AWAIT:
        return edit_await(e, what->no, what->kind, what->variant);
    case DROP_FLAG:
    case OTHER_FLAG:
        return edit_flag(e, what->no, what->kind, what->variant);
    case CUT:
        return edit_range(e, what->no, what->variant);
    case PEER:
    case LANE:
        return edit_message(e, what->no, what->kind, what->variant);
    case KIND:
        return edit_kind_of(e, what->no, what->variant);
    case KNOWS:
    case STORES_TO:
        return edit_marks(e, what->no, what->kind, what->variant);
    default:
        return edit_operand(e, what->no, what->kind, what->variant);
    }
}

typedef struct tally {
    long tried, harmful, refuted, strict, accepted, missed; /* strict: refuted though no interleaving showed harm */
} tally;

static bool try_all;
static tally totals[EDIT_KINDS];

typedef struct subject {
    const peal_algo *algo;
    const peali_truth *truth;
    program_case what;
    peali_program *program[MAX_RANKS];
    peal_sched *sched[MAX_RANKS];
    uint64_t key;
} subject;

static void say(const char *verdict, const subject *s, const edit *e, const char *why)
{
    const peal_problem *p = s->what.problem;
    print_message("%s: %s %s n %d root %d nodes %d %s rank %d instruction %d: %s %d%s%s\n", verdict, peal_kind_name(p->kind),
                  s->algo->name, p->nranks, p->root, p->nnodes, peali_mode_name(s->what.mode), e->rank, e->no,
                  edit_names[e->kind], e->variant, *why ? ": " : "", why);
}

static void try_edit(subject *s, const edit *e)
{
    static edit_program loose;
    const peali_program *with[MAX_RANKS];
    peali_programs_report report;
    tally *t = &totals[e->kind];
    if (!edit_open(&loose, s->program[e->rank]) || !make_edit(&loose, e))
        return;
    peali_program *changed = edit_close(&loose);
    memcpy(with, s->program, sizeof with);
    with[e->rank] = changed;
    program_case what = {s->what.problem, NULL, s->what.mode, s->what.sched, with};
    bool accepted = peali_programs_check(s->truth, s->what.mode, with, &report) == PEAL_OK;
    bool harm = !program_harmless(&what, INTERLEAVINGS, s->key);
    t->tried++;
    t->harmful += harm;
    t->refuted += !accepted;
    t->strict += !accepted && !harm;
    t->accepted += accepted;
    t->missed += accepted && harm;
    if (accepted)
        say(harm ? "MISSED" : "accepted", s, e, "");
    edit_free(changed);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void try_edits(subject *s)
{
    uint64_t share = 0;
    edit e;
    for (int r = 0; r < s->what.problem->nranks; r++)
        share += (uint64_t)s->program[r]->ninstrs * 40;
    share = share / EDITS_PER_CASE + 1;
    for (e.rank = 0; e.rank < s->what.problem->nranks; e.rank++)
        for (e.no = 0; e.no < s->program[e.rank]->ninstrs; e.no++)
            for (int kind = 0; kind < EDIT_KINDS; kind++)
                for (e.kind = (edit_kind)kind, e.variant = 0; e.variant < variants[kind]; e.variant++) {
                    uint64_t place = (uint64_t)kind << 40 | (uint64_t)e.variant << 32 | (uint64_t)e.rank << 20 | (uint64_t)e.no;
                    if (try_all || mix(s->key ^ mix(place)) % share == 0)
                        try_edit(s, &e);
                }
}

static void try_mode(const peal_algo *algo, const peal_problem *p, const peali_truth *truth, peali_mode mode)
{
    subject s = {.algo = algo, .truth = truth};
    peali_programs_report report;
    s.what = (program_case){p, NULL, mode, (const peal_sched *const *)s.sched, (const peali_program *const *)s.program};
    s.key = mix((uint64_t)p->nranks << 24 | (uint64_t)p->root << 16 | (uint64_t)p->nnodes << 8 | (uint64_t)mode);
    for (const char *c = algo->name; *c; c++)
        s.key = mix(s.key + (uint64_t)*c + (uint64_t)p->kind);
    assert_int_equal(peali_programs_lower(truth, mode, s.program), PEAL_OK);
    for (int r = 0; r < p->nranks; r++)
        assert_int_equal(peali_sched_build(algo, p, r, &s.sched[r]), PEAL_OK);
    if (peali_programs_check(truth, mode, s.what.program, &report) != PEAL_OK)
        fail_msg("%s", report.why);
    if (!program_harmless(&s.what, INTERLEAVINGS, s.key))
        fail_msg("%s %s, n %d, nodes %d: the runner finds the right programs wrong", peal_kind_name(p->kind), algo->name, p->nranks,
                 p->nnodes);
    try_edits(&s);
    for (int r = 0; r < p->nranks; r++) {
        peali_program_free(&s.program[r]);
        peali_sched_free(&s.sched[r]);
    }
}

/* n = 2 to 6: on one node, in pairs, and 1 rank and the rest. */
static void try_problem(const peal_algo *algo, int n, int root)
{
    for (int map = 0; map < 3; map++) {
        int node[MAX_RANKS];
        for (int r = 0; r < n; r++)
            node[r] = map == 0 ? 0 : map == 1 ? r / 2 : r > 0;
        peal_problem p = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .root = root, .nnodes = node[n - 1] + 1, .node = node};
        peali_programs_report report;
        peali_truth *truth = NULL;
        if (!peali_algo_fits(algo, &p) || (map == 1 && n < 3))
            continue;
        if (peali_truth_make(algo, &p, NULL, &report, &truth) != PEAL_OK)
            fail_msg("%s", report.why);
        for (int mode = PEALI_PULL; mode < PEALI_MODES; mode++)
            try_mode(algo, &p, truth, (peali_mode)mode);
        peali_truth_free(&truth);
    }
}

static void test_mutants(void **state)
{
    long missed = 0, harmful = 0, tried = 0;
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int n = 2; n <= MAX_RANKS; n++) {
            bool rooted = (*a)->kind == PEAL_BROADCAST || (*a)->kind == PEAL_REDUCE;
            try_problem(*a, n, rooted ? n / 2 : 0);
        }
    for (int k = 0; k < EDIT_KINDS; k++) {
        const tally *t = &totals[k];
        print_message("%-16s tried %7ld  harmful %7ld  refuted %7ld (without harm seen %5ld)  accepted %6ld  missed %ld\n",
                      edit_names[k], t->tried, t->harmful, t->refuted, t->strict, t->accepted, t->missed);
        missed += t->missed;
        harmful += t->harmful;
        tried += t->tried;
        assert_true(t->tried > 0);
    }
    print_message("%ld edits, %ld harmful, %ld of these accepted\n", tried, harmful, missed);
    assert_true(harmful > 0);
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv)
{
    try_all = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
