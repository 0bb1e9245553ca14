/*
 * check is itself tested by mutants: schedules with one edit each. A runner of its own judges which edits do harm; check must
 * refute every one of those. Edits that check accepts are listed. Without an argument a fixed sample of edits is tried, with
 * "all" every one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "study/check.h"

/*
 * The runner: ranks whose memory is poisoned, in a random interleaving. It shares no code with check, and infers order by
 * comparing all pairs of operations.
 */
enum { MAX_RANKS = 9, MAX_BLOCKS = 256, INTERLEAVINGS = 200 };

typedef struct value {
    uint64_t sum;  /* of what was added, modulo 2^64: tells which shares are in it, how often, and of which block */
    uint64_t bits; /* changes with the order of the additions */
} value;

/* Operation i of a rank waits for count[i] others; next[start[i]] .. next[start[i + 1] - 1] wait for it. */
typedef struct needs {
    int *count, *start, *next;
} needs;

typedef struct world {
    const peali_check_case *what;
    const needs *needs; /* of each rank */
    int n, nblocks, nops[MAX_RANKS], nbufs[MAX_RANKS];
    bool aliased[MAX_RANKS], early; /* early: a send's data is read when it starts, else when it ends */
    value *mem[MAX_RANKS];          /* nbufs * nblocks */
    value *mail[MAX_RANKS];         /* nops * nblocks: what early sends have read */
    int *partner[MAX_RANKS];        /* of each send and receive: the index of the other; -1: none */
    int *left[MAX_RANKS];           /* of each operation: how many others it still waits for */
    char *state[MAX_RANKS];         /* of each operation */
    int cursor[MAX_RANKS], open;    /* operations begun, in list order; operations not done, of all ranks */
    value result[MAX_BLOCKS];       /* of the first interleaving and rank */
    bool known[MAX_BLOCKS];
    uint64_t seed;
} world;

enum { IDLE, STARTED, DONE };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 29;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 32;
}

static uint64_t pick(world *w, uint64_t n)
{
    return mix(w->seed += 0x9e3779b97f4a7c15u) % n;
}

static value share(int rank, int block)
{
    uint64_t x = mix((uint64_t)rank * 1000 + (uint64_t)block + 17);
    return (value){x, mix(x)};
}

static value add(value a, value b)
{
    return (value){a.sum + b.sum, mix(a.bits * b.bits + a.bits + b.bits)};
}

static const peali_op *op_of(const world *w, int rank, int i)
{
    return &w->what->sched[rank]->ops[i];
}

static value *cell(world *w, int rank, int buf, int block)
{
    if (buf == PEAL_BUF_IN && w->aliased[rank])
        buf = PEAL_BUF_OUT;
    return &w->mem[rank][buf * w->nblocks + block];
}

/* Element I of an operation's range: scratch is filled from its start, whatever blocks it holds. */
static value *element(world *w, int rank, int buf, const peali_op *op, int i)
{
    return cell(w, rank, buf, buf >= PEAL_BUF_TMP ? i : op->first + i);
}

static bool given(const world *w, int rank, int buf, int block)
{
    const peal_problem *p = w->what->problem;
    switch (p->kind) {
    case PEAL_ALLGATHER:
        return buf == PEAL_BUF_OUT || block * w->n / w->nblocks == rank;
    case PEAL_REDUCE_SCATTER:
        return buf == PEAL_BUF_IN || block * w->n / w->nblocks == rank;
    case PEAL_BROADCAST:
        return buf == PEAL_BUF_OUT || rank == p->root;
    case PEAL_REDUCE:
        return buf == PEAL_BUF_IN || rank == p->root;
    default:
        return true;
    }
}

static value poison(int rank, int at)
{
    return (value){mix((uint64_t)rank * 77777 + (uint64_t)at + 1) | 1, mix((uint64_t)at)};
}

/* What IN or OUT holds at the start. */
static value initial(const world *w, int rank, int buf, int block)
{
    bool in = buf == PEAL_BUF_IN || (buf == PEAL_BUF_OUT && w->aliased[rank]);
    return in && given(w, rank, PEAL_BUF_IN, block) ? share(rank, block) : poison(rank, buf * w->nblocks + block);
}

static void reset(world *w)
{
    w->open = 0;
    w->early = pick(w, 2);
    for (int r = 0; r < w->n; r++) {
        w->aliased[r] = pick(w, 2);
        w->cursor[r] = 0;
        w->open += w->nops[r];
        memset(w->state[r], IDLE, (size_t)w->nops[r]);
        memcpy(w->left[r], w->needs[r].count, (size_t)w->nops[r] * sizeof(int));
        for (int at = 0; at < w->nbufs[r] * w->nblocks; at++)
            w->mem[r][at] = poison(r, at);
        for (int b = 0; b < w->nblocks; b++) {
            *cell(w, r, PEAL_BUF_OUT, b) = initial(w, r, PEAL_BUF_OUT, b);
            *cell(w, r, PEAL_BUF_IN, b) = initial(w, r, PEAL_BUF_IN, b);
        }
    }
}

static void finish(world *w, int rank, int i)
{
    const needs *need = &w->needs[rank];
    w->state[rank][i] = DONE;
    w->open--;
    for (int k = need->start[i]; k < need->start[i + 1]; k++)
        w->left[rank][need->next[k]]--;
}

/* Ends a message. False: its two ends have different lengths. */
static bool deliver(world *w, int rank, int i)
{
    const peali_op *recv = op_of(w, rank, i);
    int from = recv->peer, k = w->partner[rank][i];
    const peali_op *send = op_of(w, from, k);
    if (send->end - send->first != recv->end - recv->first)
        return false;
    for (int e = 0; e < recv->end - recv->first; e++)
        *element(w, rank, recv->dst, recv, e) = w->early ? w->mail[from][k * w->nblocks + e] : *element(w, from, send->src, send, e);
    finish(w, rank, i);
    finish(w, from, k);
    return true;
}

static void start_send(world *w, int rank, int i)
{
    const peali_op *op = op_of(w, rank, i);
    for (int e = 0; w->early && e < op->end - op->first; e++)
        w->mail[rank][i * w->nblocks + e] = *element(w, rank, op->src, op, e);
    w->state[rank][i] = STARTED;
}

static void run_local(world *w, int rank, int i)
{
    const peali_op *op = op_of(w, rank, i);
    for (int e = 0; e < op->end - op->first; e++) {
        value *d = element(w, rank, op->dst, op, e), s = *element(w, rank, op->src, op, e);
        *d = op->verb == PEALI_REDUCE ? add(*d, s) : s;
    }
    finish(w, rank, i);
}

/* Any operation whose needs are done may run; sends block, until their receive has started too. */
static bool step_free(world *w, int rank, int i, bool *ok)
{
    const peali_op *op = op_of(w, rank, i);
    if (w->state[rank][i] != IDLE || w->left[rank][i] > 0)
        return false;
    if (op->verb == PEALI_COPY || op->verb == PEALI_REDUCE) {
        run_local(w, rank, i);
        return true;
    }
    if (op->verb == PEALI_SEND)
        start_send(w, rank, i);
    w->state[rank][i] = STARTED;
    int k = w->partner[rank][i];
    if (k >= 0 && w->state[op->peer][k] == STARTED)
        *ok = op->verb == PEALI_RECV ? deliver(w, rank, i) : deliver(w, op->peer, k);
    return true;
}

/* Each list runs in its order; a send goes on at once, and what overwrites its data waits for its receive. */
static bool step_list(world *w, int rank, bool *ok)
{
    int i = w->cursor[rank];
    if (i == w->nops[rank] || w->left[rank][i] > 0)
        return false;
    const peali_op *op = op_of(w, rank, i);
    int k = w->partner[rank][i];
    if (op->verb == PEALI_RECV && (k < 0 || w->state[op->peer][k] != STARTED))
        return false;
    w->cursor[rank]++;
    if (op->verb == PEALI_RECV)
        *ok = deliver(w, rank, i);
    else if (op->verb == PEALI_SEND)
        start_send(w, rank, i);
    else
        run_local(w, rank, i);
    return true;
}

/* One sweep over all ranks (and, run freely, over their operations) from a random place on. True where anything ran. */
static bool sweep(world *w, bool freely, bool *ok)
{
    bool moved = false;
    for (int r0 = (int)pick(w, (uint64_t)w->n), j = 0; j < w->n; j++) {
        int r = (r0 + j) % w->n, n = w->nops[r];
        int tries = freely ? n : 1 + (int)pick(w, 3), i0 = n ? (int)pick(w, (uint64_t)n) : 0;
        for (int i = 0; i < tries && *ok; i++)
            if (freely ? step_free(w, r, (i0 + i) % n, ok) : step_list(w, r, ok))
                moved = true;
    }
    return moved;
}

static value expected(const world *w, int block)
{
    const peal_problem *p = w->what->problem;
    if (p->kind == PEAL_BROADCAST)
        return share(p->root, block);
    if (p->kind == PEAL_ALLGATHER)
        return share(block * w->n / w->nblocks, block);
    value v = share(0, block);
    for (int r = 1; r < w->n; r++)
        v = add(v, share(r, block));
    return v;
}

static bool same(value a, value b)
{
    return a.sum == b.sum && a.bits == b.bits;
}

static bool right_block(world *w, int r, int b)
{
    const peal_problem *p = w->what->problem;
    bool exact = p->kind == PEAL_BROADCAST || p->kind == PEAL_ALLGATHER || w->what->algo->in_rank_order;
    value out = *cell(w, r, PEAL_BUF_OUT, b), want = expected(w, b);
    if (!w->aliased[r] && !same(*cell(w, r, PEAL_BUF_IN, b), initial(w, r, PEAL_BUF_IN, b)))
        return false;
    if (!given(w, r, PEAL_BUF_OUT, b))
        return same(out, initial(w, r, PEAL_BUF_OUT, b));
    if (out.sum != want.sum || (exact && out.bits != want.bits))
        return false;
    if (!w->known[b])
        w->result[b] = out;
    w->known[b] = true;
    return same(w->result[b], out);
}

/* Results are right and equal in all interleavings, and memory that is not the algorithm's to write is as it was. */
static bool right(world *w)
{
    for (int b = 0; b < w->nblocks; b++)
        for (int r = 0; r < w->n; r++)
            if (!right_block(w, r, b))
                return false;
    return true;
}

static bool run_once(world *w, bool freely)
{
    bool ok = true;
    reset(w);
    while (ok && w->open > 0 && sweep(w, freely, &ok))
        continue;
    return ok && w->open == 0 && right(w);
}

/* The index of the K-th send from rank FROM to rank TO on LANE, or -1. */
static int send_number(const world *w, int from, int to, int lane, int k)
{
    for (int i = 0; i < w->nops[from]; i++) {
        const peali_op *op = op_of(w, from, i);
        if (op->verb == PEALI_SEND && op->peer == to && op->lane == lane && k-- == 0)
            return i;
    }
    return -1;
}

static void set_partners(world *w)
{
    for (int r = 0; r < w->n; r++)
        memset(w->partner[r], -1, (size_t)w->nops[r] * sizeof(int));
    for (int r = 0; r < w->n; r++) {
        int seen[MAX_RANKS][PEAL_LANES] = {{0}};
        for (int i = 0; i < w->nops[r]; i++) {
            const peali_op *op = op_of(w, r, i);
            if (op->verb != PEALI_RECV)
                continue;
            int k = send_number(w, op->peer, r, op->lane, seen[op->peer][op->lane]++);
            w->partner[r][i] = k;
            if (k >= 0)
                w->partner[op->peer][k] = i;
        }
    }
}

static void *get(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    assert_non_null(p);
    return p;
}

static void open_world(world *w, const peali_check_case *what, const needs *need)
{
    memset(w, 0, sizeof *w);
    w->what = what;
    w->needs = need;
    w->n = what->problem->nranks;
    w->nblocks = what->sched[0]->nblocks;
    assert_true(w->nblocks <= MAX_BLOCKS);
    for (int r = 0; r < w->n; r++) {
        size_t nops = (size_t)(w->nops[r] = what->sched[r]->nops), nblocks = (size_t)w->nblocks;
        w->nbufs[r] = what->sched[r]->nbufs;
        w->mem[r] = get((size_t)w->nbufs[r] * nblocks, sizeof(value));
        w->mail[r] = get(nops * nblocks, sizeof(value));
        w->partner[r] = get(nops, sizeof(int));
        w->left[r] = get(nops, sizeof(int));
        w->state[r] = get(nops, 1);
    }
    set_partners(w);
}

static void close_world(world *w)
{
    for (int r = 0; r < w->n; r++) {
        free(w->mem[r]);
        free(w->mail[r]);
        free(w->partner[r]);
        free(w->left[r]);
        free(w->state[r]);
    }
}

/* True where every one of 200 interleavings, half of them free and half in list order, gives the right result. */
static bool harmless(const peali_check_case *what, const needs *need)
{
    world w;
    open_world(&w, what, need);
    bool good = true;
    for (int k = 0; k < INTERLEAVINGS && good; k++)
        good = run_once(&w, k % 2 == 0);
    close_world(&w);
    return good;
}

static bool touch(int buf, const peali_op *x, int other, const peali_op *y)
{
    if (buf < 0 || other < 0)
        return false;
    if (buf >= PEAL_BUF_TMP || other >= PEAL_BUF_TMP)
        return buf == other;
    return x->first < y->end && y->first < x->end;
}

static bool conflict(const peali_op *x, const peali_op *y)
{
    return touch(x->dst, x, y->dst, y) || touch(x->dst, x, y->src, y) || touch(x->src, x, y->dst, y);
}

/* The order of a rank's operations: as given, or (NULL) every conflicting pair. */
static needs needs_of(const peal_sched *s, const peali_order *given_order)
{
    needs need = {get((size_t)s->nops, sizeof(int)), get((size_t)s->nops + 1, sizeof(int)), NULL};
    bool *waits = get((size_t)s->nops * (size_t)s->nops, 1); /* [k * nops + i]: i waits for k */
    int nedges = 0;
    for (int i = 0; i < s->nops; i++) {
        for (int k = 0; !given_order && k < i; k++)
            waits[k * s->nops + i] = conflict(&s->ops[k], &s->ops[i]);
        for (int e = given_order ? given_order->start[i] : 0; given_order && e < given_order->start[i + 1]; e++)
            waits[given_order->from[e] * s->nops + i] = true;
    }
    for (int at = 0; at < s->nops * s->nops; at++)
        nedges += waits[at];
    need.next = get((size_t)nedges, sizeof(int));
    for (int k = 0, at = 0; k < s->nops; k++) {
        for (int i = 0; i < s->nops; i++)
            if (waits[k * s->nops + i]) {
                need.next[at++] = i;
                need.count[i]++;
            }
        need.start[k + 1] = at;
    }
    free(waits);
    return need;
}

static void free_needs(needs *need)
{
    free(need->count);
    free(need->start);
    free(need->next);
}

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
    int k = variant == 0 ? i + 1 : i + 2 + (int)(mix((uint64_t)i * 31 + (uint64_t)s->rank) % 5);
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
    peal_sched *s = get(1, sizeof *s);
    *s = *from;
    s->cap = s->nops + 1;
    s->ops = get((size_t)s->cap, sizeof *s->ops);
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
    needs need[MAX_RANKS];
} subject;

typedef struct tally {
    long tried, harmful, refuted, strict, accepted, missed; /* strict: refuted though no interleaving showed harm */
} tally;

static long sample_of; /* of so many edits one is tried */
static tally totals[EDIT_KINDS];

static void say(const char *what, const subject *u, const edit *e, const char *why)
{
    print_message("%s: %s %s n %d root %d nodes %d rank %d operation %d: %s %d%s%s\n", what, peal_kind_name(u->algo->kind), u->algo->name,
                  u->problem.nranks, u->problem.root, u->problem.nnodes, e->rank, e->op, edit_names[e->kind], e->variant,
                  *why ? "; " : "", why);
}

static void judge(const subject *u, const edit *e, const peali_check_case *what, const needs *need)
{
    peali_check_report report;
    tally *t = &totals[e->kind];
    bool accepted = peali_check_built(what, &report) == PEAL_OK, harm = !harmless(what, need);
    t->tried++;
    t->harmful += harm;
    t->refuted += !accepted;
    t->strict += !accepted && !harm;
    t->accepted += accepted;
    t->missed += accepted && harm;
    if (accepted)
        say(harm ? "MISSED" : "accepted", u, e, "");
}

static void try_edit(const subject *u, const edit *e)
{
    peal_sched *sched[MAX_RANKS], *changed = edited(u->sched[e->rank], e);
    peali_order order[MAX_RANKS], changed_order;
    needs need[MAX_RANKS];
    if (!changed)
        return;
    memcpy(sched, u->sched, sizeof sched);
    memcpy(order, u->order, sizeof order);
    memcpy(need, u->need, sizeof need);
    sched[e->rank] = changed;
    assert_int_equal(peali_order_infer(changed, &changed_order), PEAL_OK);
    if (e->kind != EDGE || cut_edge(&changed_order, e)) {
        order[e->rank] = changed_order;
        need[e->rank] = needs_of(changed, e->kind == EDGE ? &changed_order : NULL);
        peali_check_case what = {u->algo, &u->problem, (const peal_sched *const *)sched, order};
        judge(u, e, &what, need);
        free_needs(&need[e->rank]);
    }
    peali_order_free(&changed_order);
    free(changed->ops);
    free(changed);
}

static bool sampled(const subject *u, const edit *e)
{
    uint64_t key = (uint64_t)u->problem.nranks << 32 | (uint64_t)u->problem.root << 24 | (uint64_t)u->problem.nnodes << 16;
    return mix(key ^ mix((uint64_t)e->kind << 24 | (uint64_t)e->variant << 20 | (uint64_t)e->rank << 14 | (uint64_t)e->op)) %
               (uint64_t)sample_of == 0;
}

static void try_subject(const subject *u)
{
    edit e;
    for (e.rank = 0; e.rank < u->problem.nranks; e.rank++)
        for (e.op = 0; e.op < u->sched[e.rank]->nops; e.op++)
            for (int kind = 0; kind < EDIT_KINDS; kind++)
                for (e.kind = (edit_kind)kind, e.variant = 0; e.variant < variants[kind]; e.variant++)
                    if (sampled(u, &e))
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
        u.need[r] = needs_of(u.sched[r], NULL);
    }
    if (peali_check_built(&what, &report) != PEAL_OK)
        fail_msg("%s", report.why);
    if (!harmless(&what, u.need))
        fail_msg("%s %s, n %d: the runner finds the right schedule wrong", peal_kind_name(p->kind), algo->name, p->nranks);
    try_subject(&u);
    for (int r = 0; r < p->nranks; r++) {
        free_needs(&u.need[r]);
        peali_order_free(&u.order[r]);
        peali_sched_free(&u.sched[r]);
    }
}

static bool rooted(peal_kind kind)
{
    return kind == PEAL_BROADCAST || kind == PEAL_REDUCE;
}

/* Every algorithm for n = 2 to 9, the first and the last root, on one node and on nodes of 1, 2, 3, ... ranks. */
static void try_algorithm(const peal_algo *algo)
{
    static const int uneven[MAX_RANKS] = {0, 1, 1, 2, 2, 2, 3, 3, 3};
    peal_problem p = {.kind = algo->kind, .op = PEAL_SUM};
    for (p.nranks = 2; p.nranks <= MAX_RANKS; p.nranks++)
        for (int mapped = 0; mapped < 2; mapped++)
            for (p.root = 0; p.root < p.nranks; p.root += rooted(p.kind) ? p.nranks - 1 : p.nranks) {
                p.node = mapped ? uneven : NULL;
                p.nnodes = mapped ? uneven[p.nranks - 1] + 1 : 1;
                if (peali_algo_fits(algo, &p))
                    try_problem(algo, &p);
            }
}

static void test_mutants(void **state)
{
    long missed = 0, harmful = 0;
    for (const peal_algo *const *a = peali_algos; *a; a++)
        try_algorithm(*a);
    for (int k = 0; k < EDIT_KINDS; k++) {
        const tally *t = &totals[k];
        print_message("%-10s tried %7ld  harmful %7ld  refuted %7ld (without harm seen %5ld)  accepted %6ld  missed %ld\n", edit_names[k],
                      t->tried, t->harmful, t->refuted, t->strict, t->accepted, t->missed);
        missed += t->missed;
        harmful += t->harmful;
        assert_true(t->tried > 0);
    }
    assert_true(harmful > 0);
    assert_int_equal(missed, 0);
}

int main(int argc, char **argv)
{
    sample_of = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 16;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
