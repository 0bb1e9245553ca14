/*
 * The run: progress, values and the order of sums, by running all ranks' lists.
 *
 * Each rank runs its list in list order. A send is buffered, a receive blocks until its send was reached, and an operation that
 * waits for a send (it overwrites what is sent) blocks until that send's receive was run. If this comes to an end then so does
 * every freer run: the lists give a numbering of operations in which every inferred edge and every rendezvous points forward, so
 * their graph has no cycle. Schedules are deterministic networks and races are excluded by now, so one run gives the values of all.
 * A receive takes its data out of the sender's memory, which by then still holds it, because overwrites wait.
 *
 * Every value is kept twice, for IN apart from OUT and for IN aliased with OUT; as both must agree in every message, ranks may
 * differ in that. Values of one window of pieces are kept at a time, which bounds memory.
 */
#include "study/check_parts.h"

#include <string.h>

#include "study/check_values.h"

enum { WINDOW_PLACES = 1 << 21 };

typedef peali_value value;

typedef struct place {
    value apart, aliased;
} place;

typedef struct buffer {
    place *at;
    int32_t first, end; /* of a scratch buffer: the blocks it holds, none at first */
} buffer;

typedef struct run {
    peali_checking *c;
    int32_t lo, hi;    /* the window of pieces */
    int32_t *bufs;     /* of each rank: its first buffer below; OUT comes first, then scratch */
    buffer *buf;
    int32_t *cursor;   /* of each rank: the next operation of its list */
    int32_t *wait;     /* of each rank: the number of the operation it is blocked on, or -1 */
    int32_t *ready, nready;
    int32_t *level;    /* of each operation: messages in the longest chain that ends in it */
    value *leaf;       /* what each rank contributes */
    value all;         /* of all ranks, in rank order */
    value *agreed;     /* of each piece of the window: the result on the ranks before */
} run;

static bool exact(const run *w)
{
    return w->c->n <= PEALI_CHECK_EXACT;
}

/* An expression that is handed on keeps the order of its operands. */
static value sum_of(const run *w, value a, value b)
{
    return w->c->final ? peali_value_fold(w->c->n, a, b) : peali_value_sum(w->c->n, a, b);
}

/* Where RANK keeps piece P of BUF, OUT or scratch. */
static place *place_of(const run *w, int rank, int buf, int32_t p)
{
    const buffer *b = &w->buf[w->bufs[rank] + buf - PEAL_BUF_OUT];
    int32_t first = buf == PEAL_BUF_OUT ? 0 : w->c->piece[b->first];
    return &b->at[p - (first > w->lo ? first : w->lo)];
}

static value in_apart(const run *w, int rank, int32_t p)
{
    peali_span own = peali_check_holds(w->c, rank, PEAL_BUF_IN);
    int32_t block = w->c->cut[p];
    return block >= own.first && block < own.end ? w->leaf[rank] : (value){0, 0};
}

static place load(const run *w, int rank, int buf, int32_t p)
{
    if (buf == PEAL_BUF_IN)
        return (place){in_apart(w, rank, p), place_of(w, rank, PEAL_BUF_OUT, p)->aliased};
    return *place_of(w, rank, buf, p);
}

static peali_span window_of(const run *w, const peali_op *op)
{
    peali_span s = {w->c->piece[op->first], w->c->piece[op->end]};
    return (peali_span){s.first > w->lo ? s.first : w->lo, s.end < w->hi ? s.end : w->hi};
}

/* "the shares of ranks 1 4", of exact sets; else "other shares". */
static const char *shares(const run *w, char *text, size_t size, uint64_t set)
{
    if (!exact(w))
        return "other shares";
    int at = snprintf(text, size, "the share%s of rank%s", set & (set - 1) ? "s" : "", set & (set - 1) ? "s" : "");
    for (int r = 0; r < w->c->n && at < (int)size; r++)
        if (set >> r & 1)
            at += snprintf(text + at, size - (size_t)at, " %d", r);
    return text;
}

/* Of a scratch buffer are read blocks that were written there; added to are all of them. */
static peal_status range_read(const run *w, int rank, int i, int buf)
{
    const peali_op *op = peali_check_op(w->c, rank, i);
    if (buf < PEAL_BUF_TMP)
        return PEAL_OK;
    const buffer *b = &w->buf[w->bufs[rank] + buf - PEAL_BUF_OUT];
    char name[24], blocks[48];
    peali_check_buffer(name, buf);
    if (b->first == b->end)
        return peali_check_refute(w->c, rank, i, "reads %s, which nothing wrote", name);
    const bool all = b->first == op->first && b->end == op->end, some = b->first <= op->first && op->end <= b->end;
    if (!all && (!some || buf == op->dst))
        return peali_check_refute(w->c, rank, i, "reads %s, which holds %s", name, peali_check_blocks(blocks, b->first, b->end));
    return PEAL_OK;
}

static peal_status values_read(const run *w, int rank, int i, int buf)
{
    const peali_op *op = peali_check_op(w->c, rank, i);
    peali_span at = window_of(w, op);
    char name[24];
    for (int32_t p = at.first; p < at.end; p++) {
        place v = load(w, rank, buf, p);
        if (v.apart.set && v.aliased.set)
            continue;
        return peali_check_refute(w->c, rank, i, "reads block %d of %s, which %s%s", (int)w->c->cut[p],
                                  peali_check_buffer(name, buf), buf == PEAL_BUF_IN ? "this rank is not given" : "nothing wrote",
                                  v.apart.set ? " if IN is OUT" : "");
    }
    return PEAL_OK;
}

static peal_status check_read(const run *w, int rank, int i, int buf)
{
    peal_status status = range_read(w, rank, i, buf);
    return status == PEAL_OK ? values_read(w, rank, i, buf) : status;
}

static void write_range(run *w, int rank, const peali_op *op)
{
    buffer *b = &w->buf[w->bufs[rank] + op->dst - PEAL_BUF_OUT];
    b->first = op->first;
    b->end = op->end;
}

/* Copies SRC of rank FROM to the target of OP. */
static void take(run *w, int rank, const peali_op *op, int from, int src)
{
    peali_span at = window_of(w, op);
    write_range(w, rank, op);
    for (int32_t p = at.first; p < at.end; p++)
        *place_of(w, rank, op->dst, p) = load(w, from, src, p);
}

static peal_status run_send(const run *w, int rank, int i)
{
    const peali_op *op = peali_check_op(w->c, rank, i);
    peali_span at = window_of(w, op);
    for (int32_t p = at.first; p < at.end; p++) {
        place v = load(w, rank, op->src, p);
        if (v.apart.set != v.aliased.set || v.apart.bits != v.aliased.bits)
            return peali_check_refute(w->c, rank, i, "sends another block %d if IN is OUT", (int)w->c->cut[p]);
    }
    return PEAL_OK;
}

static peal_status run_reduce(run *w, int rank, int i)
{
    const peali_op *op = peali_check_op(w->c, rank, i);
    peal_status status = check_read(w, rank, i, op->dst);
    if (status != PEAL_OK)
        return status;
    peali_span at = window_of(w, op);
    for (int32_t p = at.first; p < at.end; p++) {
        place *d = place_of(w, rank, op->dst, p), s = load(w, rank, op->src, p);
        uint64_t both = exact(w) && !w->c->final ? (d->apart.set & s.apart.set) | (d->aliased.set & s.aliased.set) : 0;
        if (both) {
            char text[300];
            return peali_check_refute(w->c, rank, i, "sums block %d with %s on both sides%s", (int)w->c->cut[p],
                                      shares(w, text, sizeof text, both), d->apart.set & s.apart.set ? "" : " if IN is OUT");
        }
        d->apart = sum_of(w, d->apart, s.apart);
        d->aliased = sum_of(w, d->aliased, s.aliased);
    }
    return PEAL_OK;
}

static peal_status run_op(run *w, int rank, int i)
{
    const peali_checking *c = w->c;
    const peali_op *op = peali_check_op(c, rank, i);
    if (op->verb == PEALI_RECV) {
        take(w, rank, op, op->peer, peali_check_op(c, op->peer, c->match[c->base[rank] + i] - c->base[op->peer])->src);
        return PEAL_OK;
    }
    peal_status status = check_read(w, rank, i, op->src);
    if (status != PEAL_OK)
        return status;
    if (op->verb == PEALI_SEND)
        return run_send(w, rank, i);
    if (op->verb == PEALI_REDUCE)
        return run_reduce(w, rank, i);
    take(w, rank, op, rank, op->src);
    return PEAL_OK;
}

static bool was_run(const run *w, int rank, int32_t number)
{
    return number - w->c->base[rank] < w->cursor[rank];
}

/* The number of the operation of another rank that operation I of RANK must wait for, or -1. */
static int32_t blocked_on(const run *w, int rank, int i)
{
    const peali_checking *c = w->c;
    const peali_order *o = &c->what->order[rank];
    const peali_op *op = peali_check_op(c, rank, i);
    if (op->verb == PEALI_RECV && !was_run(w, op->peer, c->match[c->base[rank] + i]))
        return c->match[c->base[rank] + i];
    for (int32_t e = o->start[i]; e < o->start[i + 1]; e++) {
        const peali_op *before = peali_check_op(c, rank, o->from[e]);
        int32_t recv = c->match[c->base[rank] + o->from[e]];
        if (before->verb == PEALI_SEND && !was_run(w, before->peer, recv))
            return recv;
    }
    return -1;
}

/* A message adds 1 to the chain of what its sender needed; what its receiver waits for beside it does not lengthen it. */
static void set_level(run *w, int rank, int i)
{
    const peali_checking *c = w->c;
    const peali_order *o = &c->what->order[rank];
    int32_t number = c->base[rank] + i, level = 0;
    if (peali_check_op(c, rank, i)->verb == PEALI_RECV)
        level = w->level[c->match[number]] + 1;
    for (int32_t e = o->start[i]; e < o->start[i + 1]; e++)
        if (w->level[c->base[rank] + o->from[e]] > level)
            level = w->level[c->base[rank] + o->from[e]];
    w->level[number] = level;
    if (level > c->report->found.rounds)
        c->report->found.rounds = level;
}

/* Runs RANK until its list ends or it is blocked, and wakes the ranks that were blocked on what it ran. */
static peal_status advance(run *w, int rank)
{
    const peali_checking *c = w->c;
    for (int32_t *i = &w->cursor[rank]; *i < c->what->sched[rank]->nops;) {
        w->wait[rank] = blocked_on(w, rank, *i);
        if (w->wait[rank] >= 0)
            return PEAL_OK;
        peal_status status = run_op(w, rank, *i);
        if (status != PEAL_OK)
            return status;
        if (w->lo == 0)
            set_level(w, rank, *i);
        int32_t peer = peali_check_op(c, rank, *i)->peer;
        if (peer >= 0 && w->wait[peer] == c->base[rank] + *i) {
            w->wait[peer] = -1;
            w->ready[w->nready++] = peer;
        }
        (*i)++;
    }
    return PEAL_OK;
}

static int rank_of(const run *w, int32_t number)
{
    int rank = 0;
    while (w->c->base[rank + 1] <= number)
        rank++;
    return rank;
}

/* Every blocked rank is blocked on an operation of another blocked rank, so following them meets a cycle. */
static peal_status deadlock(const run *w)
{
    peali_checking *c = w->c;
    int rank = 0;
    while (w->wait[rank] < 0)
        rank++;
    for (int i = 0; i < c->n; i++)
        rank = rank_of(w, w->wait[rank]);
    char text[360], words[128];
    int at = 0, first = rank;
    for (rank = rank_of(w, w->wait[rank]); rank != first && at < (int)sizeof text; rank = rank_of(w, w->wait[rank])) {
        peali_check_words(words, sizeof words, peali_check_op(c, rank, w->cursor[rank]));
        at += snprintf(text + at, sizeof text - (size_t)at, "rank %d, which in operation %d (%s) waits for ", rank,
                       (int)w->cursor[rank], words);
    }
    text[at < (int)sizeof text ? at : (int)sizeof text - 1] = '\0';
    return peali_check_refute(c, first, w->cursor[first], "deadlock: waits for %s%s", text, rank == first ? "this rank" : "...");
}

static void start(run *w, int32_t lo, int32_t size)
{
    peali_checking *c = w->c;
    w->lo = lo;
    w->hi = lo + size < c->npieces ? lo + size : c->npieces;
    w->nready = 0;
    memset(w->cursor, 0, (size_t)c->n * sizeof *w->cursor);
    memset(w->wait, -1, (size_t)c->n * sizeof *w->wait);
    memset(w->agreed, 0, (size_t)size * sizeof *w->agreed);
    for (int32_t b = 0; b < w->bufs[c->n]; b++)
        w->buf[b].first = w->buf[b].end = 0;
    for (int r = c->n - 1; r >= 0; r--) {
        w->ready[w->nready++] = r;
        for (int32_t p = w->lo; p < w->hi; p++)
            *place_of(w, r, PEAL_BUF_OUT, p) = (place){{0, 0}, in_apart(w, r, p)};
    }
}

static value wanted(const run *w, int rank, int32_t p)
{
    const peali_checking *c = w->c;
    int32_t block = c->cut[p];
    peali_span out = peali_check_holds(c, rank, PEAL_BUF_OUT);
    if (block < out.first || block >= out.end)
        return (value){0, 0};
    if (c->what->problem->kind == PEAL_BROADCAST)
        return w->leaf[c->what->problem->root];
    if (c->what->problem->kind == PEAL_ALLGATHER)
        return w->leaf[block / (c->nblocks / c->n)];
    return w->all;
}

static peal_status wrong_share(const run *w, int rank, int32_t p, uint64_t set, uint64_t want, const char *when)
{
    char text[300];
    int block = w->c->cut[p];
    if (set == 0)
        return peali_check_refute(w->c, rank, -1, "ends with block %d of OUT not written%s", block, when);
    if (exact(w) && (want & ~set))
        return peali_check_refute(w->c, rank, -1, "ends with block %d of OUT lacking %s%s", block,
                                  shares(w, text, sizeof text, want & ~set), when);
    return peali_check_refute(w->c, rank, -1, "ends with %s in block %d of OUT, where they do not belong%s",
                              shares(w, text, sizeof text, set & ~want), block, when);
}

/* The sum itself is right by now; what is proved is that it is taken in one order. */
static peal_status check_order(run *w, int rank, int32_t p, const place *v)
{
    const peali_checking *c = w->c;
    value *agreed = &w->agreed[p - w->lo];
    int block = c->cut[p];
    bool sum = c->what->problem->kind != PEAL_BROADCAST && c->what->problem->kind != PEAL_ALLGATHER;
    if (v->apart.bits != v->aliased.bits)
        return peali_check_refute(w->c, rank, -1, "sums block %d of OUT in another order if IN is OUT", block);
    if (sum && c->what->algo->in_rank_order && v->apart.bits != w->all.bits)
        return peali_check_refute(w->c, rank, -1, "block %d of OUT is not summed in rank order", block);
    if (agreed->set && agreed->bits != v->apart.bits)
        return peali_check_refute(w->c, rank, -1, "sums block %d of OUT in another order than a rank before it", block);
    *agreed = v->apart;
    return PEAL_OK;
}

/* What the values are is then not judged, but that they are the same if IN is OUT. */
static peal_status hand_on(run *w, int rank, int32_t p, const place *v)
{
    w->c->final[(int64_t)rank * w->c->npieces + p] = v->apart;
    if (v->apart.set != v->aliased.set || v->apart.bits != v->aliased.bits)
        return peali_check_refute(w->c, rank, -1, "ends with another value in block %d of OUT if IN is OUT", (int)w->c->cut[p]);
    return PEAL_OK;
}

static peal_status results(run *w)
{
    for (int r = 0; r < w->c->n; r++)
        for (int32_t p = w->lo; p < w->hi; p++) {
            value want = wanted(w, r, p);
            const place *v = place_of(w, r, PEAL_BUF_OUT, p);
            peal_status status = PEAL_OK;
            if (want.set == 0)
                continue;
            if (w->c->final)
                status = hand_on(w, r, p, v);
            else if (v->apart.set != want.set)
                status = wrong_share(w, r, p, v->apart.set, want.set, "");
            else if (v->aliased.set != want.set)
                status = wrong_share(w, r, p, v->aliased.set, want.set, " if IN is OUT");
            else
                status = check_order(w, r, p, v);
            if (status != PEAL_OK)
                return status;
        }
    return PEAL_OK;
}

static peal_status run_window(run *w, int32_t lo, int32_t size)
{
    start(w, lo, size);
    while (w->nready > 0) {
        peal_status status = advance(w, w->ready[--w->nready]);
        if (status != PEAL_OK)
            return status;
    }
    for (int r = 0; r < w->c->n; r++)
        if (w->cursor[r] < w->c->what->sched[r]->nops)
            return deadlock(w);
    return results(w);
}

/* The most pieces that each buffer holds at once. */
static void widths(const run *w, int32_t *width)
{
    const peali_checking *c = w->c;
    for (int r = 0; r < c->n; r++) {
        int32_t *of = width + w->bufs[r];
        of[0] = c->npieces;
        for (int i = 0; i < c->what->sched[r]->nops; i++) {
            const peali_op *op = peali_check_op(c, r, i);
            int32_t n = c->piece[op->end] - c->piece[op->first];
            if (op->dst >= PEAL_BUF_TMP && n > of[op->dst - PEAL_BUF_OUT])
                of[op->dst - PEAL_BUF_OUT] = n;
        }
    }
}

/* Places for all buffers with windows of SIZE pieces. */
static size_t places_for(const run *w, const int32_t *width, int32_t size)
{
    size_t n = 0;
    for (int32_t b = 0; b < w->bufs[w->c->n]; b++)
        n += (size_t)(width[b] < size ? width[b] : size);
    return n;
}

/* Gives every buffer its places, with the largest window that fits; 0: no memory. */
static int32_t lay_out(run *w)
{
    peali_checking *c = w->c;
    int32_t nbufs = w->bufs[c->n], size = c->npieces;
    int32_t *width = peali_arena_get(&c->arena, (size_t)nbufs, sizeof *width);
    w->buf = peali_arena_get(&c->arena, (size_t)nbufs, sizeof *w->buf);
    if (!width || !w->buf)
        return 0;
    widths(w, width);
    while (size > 1 && places_for(w, width, size) > WINDOW_PLACES)
        size = (size + 1) / 2;
    place *at = peali_arena_get(&c->arena, places_for(w, width, size), sizeof *at);
    w->agreed = peali_arena_get(&c->arena, (size_t)size, sizeof *w->agreed);
    if (!at || !w->agreed)
        return 0;
    for (int32_t b = 0; b < nbufs; b++) {
        w->buf[b].at = at;
        at += width[b] < size ? width[b] : size;
    }
    return size;
}

static peal_status prepare(run *w)
{
    peali_checking *c = w->c;
    size_t n = (size_t)c->n;
    w->bufs = peali_arena_get(&c->arena, n + 1, sizeof *w->bufs);
    w->cursor = peali_arena_get(&c->arena, n, sizeof *w->cursor);
    w->wait = peali_arena_get(&c->arena, n, sizeof *w->wait);
    w->ready = peali_arena_get(&c->arena, n, sizeof *w->ready);
    w->leaf = peali_arena_get(&c->arena, n, sizeof *w->leaf);
    w->level = peali_arena_get(&c->arena, (size_t)c->base[n], sizeof *w->level);
    if (!w->bufs || !w->cursor || !w->wait || !w->ready || !w->leaf || !w->level)
        return PEAL_ERR_MEMORY;
    for (int r = 0; r < c->n; r++) {
        w->bufs[r + 1] = w->bufs[r] + c->what->sched[r]->nbufs - PEAL_BUF_OUT;
        w->leaf[r] = peali_value_leaf(w->c->n, r);
        w->all = r == 0 ? w->leaf[0] : sum_of(w, w->all, w->leaf[r]);
    }
    return PEAL_OK;
}

peal_status peali_check_run(peali_checking *c)
{
    run w = {.c = c};
    int32_t size = prepare(&w) == PEAL_OK ? lay_out(&w) : 0;
    if (size == 0)
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (int32_t lo = 0; lo < c->npieces && status == PEAL_OK; lo += size)
        status = run_window(&w, lo, size);
    return status;
}
