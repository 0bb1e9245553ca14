/*
 * Races: any two accesses of a rank to one piece, one of them a write, are ordered by the given edges, directly or through others.
 *
 * The list order says what each access must come after: the last write of the piece, and for a write also the reads since. As
 * those were proved ordered among themselves, that covers every earlier pair. IN and OUT count as one memory, a scratch buffer
 * as one piece. An edge between operations that share no piece is refuted too: it would make a rank wait for nothing.
 */
#include "study/check_parts.h"

#include <string.h>

typedef struct reading {
    int32_t op, next; /* next: in the pool, -1 at the end */
} reading;

typedef struct track {
    peali_checking *c;
    int rank;
    int32_t *writer, *readers; /* of each piece, then of each scratch buffer: the last write, and the reads since; or -1 */
    reading *pool;
    int32_t npool;
    int32_t *mark; /* of each operation: the last one whose direct waits it was found among, plus 1 */
    int32_t *seen; /* of each operation: the last search that met it */
    int32_t *stack;
    int32_t search;
} track;

typedef struct access {
    int16_t buf;
    bool write;
} access;

/* A reduce reads its target too, but its write there is ordered with all that a read is ordered with. */
static int accesses(const peali_op *op, access out[2])
{
    int n = 0;
    if (op->verb != PEALI_RECV)
        out[n++] = (access){op->src, false};
    if (op->verb != PEALI_SEND)
        out[n++] = (access){op->dst, true};
    return n;
}

/* Where the accesses of OP to BUF are tracked. */
static peali_span places(const peali_checking *c, const peali_op *op, int buf)
{
    if (buf < PEAL_BUF_TMP)
        return (peali_span){c->piece[op->first], c->piece[op->end]};
    int32_t at = c->npieces + buf - PEAL_BUF_TMP;
    return (peali_span){at, at + 1};
}

static bool conflict(const peali_checking *c, const peali_op *x, const peali_op *y)
{
    access a[2], b[2];
    int na = accesses(x, a), nb = accesses(y, b);
    for (int i = 0; i < na; i++)
        for (int j = 0; j < nb; j++) {
            peali_span p = places(c, x, a[i].buf), q = places(c, y, b[j].buf);
            if ((a[i].write || b[j].write) && p.first < q.end && q.first < p.end)
                return true;
        }
    return false;
}

/* A search from TO down through the edges; few are needed, as most orders are one edge. */
static bool reaches(track *t, int32_t to, int32_t from)
{
    const peali_order *o = &t->c->what->order[t->rank];
    int32_t depth = 0;
    t->search++;
    t->stack[depth++] = to;
    while (depth > 0) {
        int32_t at = t->stack[--depth];
        for (int32_t e = o->start[at]; e < o->start[at + 1]; e++) {
            int32_t next = o->from[e];
            if (next == from)
                return true;
            if (next < from || t->seen[next] == t->search)
                continue;
            t->seen[next] = t->search;
            t->stack[depth++] = next;
        }
    }
    return false;
}

static peal_status after(track *t, int32_t op, int32_t earlier, access a)
{
    if (earlier < 0 || earlier == op || t->mark[earlier] == op + 1 || reaches(t, op, earlier))
        return PEAL_OK;
    char words[128], name[24];
    peali_check_words(words, sizeof words, peali_check_op(t->c, t->rank, earlier));
    return peali_check_refute(t->c, t->rank, op, "races with operation %d (%s): %s %s and does not wait for it", (int)earlier,
                              words, a.write ? "writes" : "reads", peali_check_buffer(name, a.buf));
}

static peal_status visit(track *t, int32_t op, int32_t at, access a)
{
    peal_status status = after(t, op, t->writer[at], a);
    if (!a.write) {
        t->pool[t->npool] = (reading){op, t->readers[at]};
        t->readers[at] = t->npool++;
        return status;
    }
    for (int32_t r = t->readers[at]; r >= 0 && status == PEAL_OK; r = t->pool[r].next)
        status = after(t, op, t->pool[r].op, a);
    t->writer[at] = op;
    t->readers[at] = -1;
    return status;
}

static peal_status edges(track *t, int32_t op)
{
    peali_checking *c = t->c;
    const peali_order *o = &c->what->order[t->rank];
    for (int32_t e = o->start[op]; e < o->start[op + 1]; e++) {
        int32_t from = o->from[e];
        if (from < 0 || from >= op)
            return peali_check_refute(c, t->rank, op, "waits for operation %d, which does not come before it", (int)from);
        if (!conflict(c, peali_check_op(c, t->rank, op), peali_check_op(c, t->rank, from)))
            return peali_check_refute(c, t->rank, op, "waits for operation %d, with which it shares nothing", (int)from);
        t->mark[from] = op + 1;
    }
    return PEAL_OK;
}

static peal_status races_rank(track *t)
{
    const peal_sched *s = t->c->what->sched[t->rank];
    size_t nplaces = (size_t)(t->c->npieces + s->nbufs);
    memset(t->writer, -1, nplaces * sizeof *t->writer);
    memset(t->readers, -1, nplaces * sizeof *t->readers);
    memset(t->mark, 0, (size_t)s->nops * sizeof *t->mark);
    memset(t->seen, 0, (size_t)s->nops * sizeof *t->seen);
    t->npool = t->search = 0;
    for (int32_t i = 0; i < s->nops; i++) {
        peal_status status = edges(t, i);
        access a[2];
        int n = accesses(&s->ops[i], a);
        for (int k = 0; k < n; k++) {
            peali_span at = places(t->c, &s->ops[i], a[k].buf);
            for (int32_t p = at.first; p < at.end && status == PEAL_OK; p++)
                status = visit(t, i, p, a[k]);
        }
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

static size_t reads_of(const peali_checking *c, const peal_sched *s)
{
    size_t n = 0;
    for (int i = 0; i < s->nops; i++)
        if (s->ops[i].verb != PEALI_RECV) {
            peali_span at = places(c, &s->ops[i], s->ops[i].src);
            n += (size_t)(at.end - at.first);
        }
    return n;
}

peal_status peali_check_races(peali_checking *c)
{
    track t = {.c = c};
    size_t nops = 0, nreads = 0, nbufs = 0;
    for (int r = 0; r < c->n; r++) {
        const peal_sched *s = c->what->sched[r];
        size_t reads = reads_of(c, s);
        nops = (size_t)s->nops > nops ? (size_t)s->nops : nops;
        nreads = reads > nreads ? reads : nreads;
        nbufs = (size_t)s->nbufs > nbufs ? (size_t)s->nbufs : nbufs;
    }
    t.writer = peali_arena_get(&c->arena, (size_t)c->npieces + nbufs, sizeof *t.writer);
    t.readers = peali_arena_get(&c->arena, (size_t)c->npieces + nbufs, sizeof *t.readers);
    t.pool = peali_arena_get(&c->arena, nreads, sizeof *t.pool);
    t.mark = peali_arena_get(&c->arena, nops, sizeof *t.mark);
    t.seen = peali_arena_get(&c->arena, nops, sizeof *t.seen);
    t.stack = peali_arena_get(&c->arena, nops + 1, sizeof *t.stack);
    if (!t.writer || !t.readers || !t.pool || !t.mark || !t.seen || !t.stack)
        return PEAL_ERR_MEMORY;
    for (t.rank = 0; t.rank < c->n; t.rank++) {
        peal_status status = races_rank(&t);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}
