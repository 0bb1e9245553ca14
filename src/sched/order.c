/*
 * The order of a rank's operations, inferred: last writer and readers since are kept for each piece. Pieces of IN and OUT (one
 * buffer here, because a call may be in place) lie between the cut points of the ranges that this rank uses, so a range of many
 * blocks costs what its cuts cost; a scratch buffer is one piece.
 */
#include "sched/cuts.h"

#include <string.h>

#include "base/arena.h"

typedef struct reader {
    int32_t op, next;
} reader;

typedef struct work {
    const peal_sched *s;
    peali_cuts cuts;
    int32_t *writer, *readers, *seen;
    reader *pool;
    int32_t npool, pool_cap;
    int32_t nedges, edge_cap;
    peali_order *order;
    bool full; /* memory ran out */
} work;

static void edge(work *w, int32_t from, int32_t to)
{
    if (from < 0 || from == to || w->seen[from] == to + 1)
        return;
    w->seen[from] = to + 1;
    if (w->nedges == w->edge_cap) {
        int32_t cap = w->edge_cap ? 2 * w->edge_cap : 256;
        int32_t *grown = peali_realloc(w->order->from, (size_t)cap, sizeof *grown);
        if (!grown) {
            w->full = true;
            return;
        }
        w->order->from = grown;
        w->edge_cap = cap;
    }
    w->order->from[w->nedges++] = from;
}

static void note_reader(work *w, int32_t piece, int32_t op)
{
    if (w->npool == w->pool_cap) {
        int32_t cap = w->pool_cap ? 2 * w->pool_cap : 256;
        reader *grown = peali_realloc(w->pool, (size_t)cap, sizeof *grown);
        if (!grown) {
            w->full = true;
            return;
        }
        w->pool = grown;
        w->pool_cap = cap;
    }
    w->pool[w->npool] = (reader){op, w->readers[piece]};
    w->readers[piece] = w->npool++;
}

static void touch(work *w, int32_t piece, int32_t op, bool writes)
{
    edge(w, w->writer[piece], op);
    if (!writes) {
        note_reader(w, piece, op);
        return;
    }
    for (int32_t r = w->readers[piece]; r >= 0; r = w->pool[r].next)
        edge(w, w->pool[r].op, op);
    w->readers[piece] = -1;
    w->writer[piece] = op;
}

static void visit(work *w, int32_t i, int buf, bool writes)
{
    const peali_op *op = &w->s->ops[i];
    if (buf >= PEAL_BUF_TMP) {
        touch(w, w->cuts.n + buf - PEAL_BUF_TMP, i, writes);
        return;
    }
    int32_t end = peali_cuts_find(&w->cuts, op->end);
    for (int32_t p = peali_cuts_find(&w->cuts, op->first); p < end; p++)
        touch(w, p, i, writes);
}

static bool prepare(work *w)
{
    const peal_sched *s = w->s;
    if (peali_cuts_make(&s, 1, &w->cuts) != PEAL_OK)
        return false;
    size_t pieces = (size_t)(w->cuts.n + s->nbufs);
    w->writer = peali_alloc(pieces, sizeof *w->writer);
    w->readers = peali_alloc(pieces, sizeof *w->readers);
    w->seen = peali_alloc((size_t)s->nops + 1, sizeof *w->seen);
    w->order->start = peali_alloc((size_t)s->nops + 1, sizeof *w->order->start);
    if (!w->writer || !w->readers || !w->seen || !w->order->start)
        return false;
    memset(w->writer, -1, pieces * sizeof *w->writer);
    memset(w->readers, -1, pieces * sizeof *w->readers);
    return true;
}

peal_status peali_order_infer(const peal_sched *sched, peali_order *order)
{
    *order = (peali_order){.nops = sched->nops};
    work w = {.s = sched, .order = order};
    bool ok = prepare(&w);
    for (int32_t i = 0; ok && i < sched->nops; i++) {
        const peali_op *op = &sched->ops[i];
        order->start[i] = w.nedges;
        if (op->src >= 0)
            visit(&w, i, op->src, false);
        if (op->dst >= 0)
            visit(&w, i, op->dst, true);
        ok = !w.full;
    }
    if (ok)
        order->start[sched->nops] = w.nedges;
    peali_cuts_free(&w.cuts);
    peali_free(w.writer);
    peali_free(w.readers);
    peali_free(w.seen);
    peali_free(w.pool);
    if (ok)
        return PEAL_OK;
    peali_order_free(order);
    return PEAL_ERR_MEMORY;
}

void peali_order_free(peali_order *order)
{
    peali_free(order->start);
    peali_free(order->from);
    *order = (peali_order){0};
}
