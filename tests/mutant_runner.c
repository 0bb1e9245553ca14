/*
 * The runner of mutants. Order is inferred by comparing all pairs of operations, messages are matched by counting through lists:
 * slow and plain, so that it is right for other reasons than check is.
 */
#include "mutant_runner.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = RUNNER_RANKS, MAX_BLOCKS = 256, INTERLEAVINGS = 200 };

typedef struct value {
    uint64_t sum;  /* of what was added, modulo 2^64: tells which shares are in it, how often, and of which block */
    uint64_t bits; /* changes with the order of the additions */
} value;

typedef struct world {
    const peali_check_case *what;
    const runner_needs *needs; /* of each rank */
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

uint64_t runner_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 29;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 32;
}

static uint64_t pick(world *w, uint64_t n)
{
    return runner_mix(w->seed += 0x9e3779b97f4a7c15u) % n;
}

static value share(int rank, int block)
{
    uint64_t x = runner_mix((uint64_t)rank * 1000 + (uint64_t)block + 17);
    return (value){x, runner_mix(x)};
}

static value add(value a, value b)
{
    return (value){a.sum + b.sum, runner_mix(a.bits * b.bits + a.bits + b.bits)};
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

static value *element(world *w, int rank, int buf, const peali_op *op, int i)
{
    return cell(w, rank, buf, op->first + i);
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
    return (value){runner_mix((uint64_t)rank * 77777 + (uint64_t)at + 1) | 1, runner_mix((uint64_t)at)};
}

/* Scratch that OP fills lies at its start, whatever blocks these are: it holds no others any more. */
static void fill(world *w, int rank, const peali_op *op)
{
    for (int b = 0; op->dst >= PEAL_BUF_TMP && b < w->nblocks; b++)
        if (b < op->first || b >= op->end)
            *cell(w, rank, op->dst, b) = poison(rank, op->dst * w->nblocks + b);
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
    const runner_needs *need = &w->needs[rank];
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
    fill(w, rank, recv);
    for (int e = 0; e < recv->end - recv->first; e++) {
        value *from_now = element(w, from, send->src, send, e), *from_then = &w->mail[from][k * w->nblocks + e];
        *element(w, rank, recv->dst, recv, e) = w->early ? *from_then : *from_now;
    }
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
    if (op->verb == PEALI_COPY)
        fill(w, rank, op);
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
    if (!p)
        abort();
    return p;
}

static void open_world(world *w, const peali_check_case *what, const runner_needs *need)
{
    memset(w, 0, sizeof *w);
    w->what = what;
    w->needs = need;
    w->n = what->problem->nranks;
    w->nblocks = what->sched[0]->nblocks;
    if (w->nblocks > MAX_BLOCKS)
        abort();
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

bool runner_harmless(const peali_check_case *what, const runner_needs *need)
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

runner_needs runner_infer(const peal_sched *s, const peali_order *order)
{
    runner_needs need = {get((size_t)s->nops, sizeof(int)), get((size_t)s->nops + 1, sizeof(int)), NULL};
    bool *waits = get((size_t)s->nops * (size_t)s->nops, 1); /* [k * nops + i]: i waits for k */
    int nedges = 0;
    for (int i = 0; i < s->nops; i++) {
        for (int k = 0; !order && k < i; k++)
            waits[k * s->nops + i] = conflict(&s->ops[k], &s->ops[i]);
        for (int e = order ? order->start[i] : 0; order && e < order->start[i + 1]; e++)
            waits[order->from[e] * s->nops + i] = true;
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

void runner_free(runner_needs *need)
{
    free(need->count);
    free(need->start);
    free(need->next);
}
