/*
 * Every operation by itself, the pieces, and the meeting of sends with receives.
 *
 * A reader of these proofs may be wrong about an algorithm, so nothing that build.c refuses is taken for granted here.
 */
#include "study/check_parts.h"

#include <string.h>

/*
 * In an allgather a rank's IN, in a reduce-scatter its OUT, is its own part. Only the root of a broadcast has IN, of a reduce
 * OUT: a user may give the others no such buffer.
 */
peali_span peali_check_holds(const peali_checking *c, int rank, int buf)
{
    const peal_problem *p = c->what->problem;
    peali_span all = {0, c->nblocks}, none = {0, 0};
    int32_t share = c->nblocks / c->n;
    if (p->kind == (buf == PEAL_BUF_IN ? PEAL_ALLGATHER : PEAL_REDUCE_SCATTER))
        return (peali_span){rank * share, (rank + 1) * share};
    if (p->kind == (buf == PEAL_BUF_IN ? PEAL_BROADCAST : PEAL_REDUCE))
        return rank == p->root ? all : none;
    return all;
}

static bool reads(const peali_op *op)
{
    return op->verb != PEALI_RECV;
}

static bool writes(const peali_op *op)
{
    return op->verb != PEALI_SEND;
}

static peal_status form_buffers(peali_checking *c, int r, int i)
{
    const peali_op *op = peali_check_op(c, r, i);
    char text[24];
    if (reads(op) && (op->src < 0 || op->src >= c->what->sched[r]->nbufs))
        return peali_check_refute(c, r, i, "source buffer %d of %d", op->src, (int)c->what->sched[r]->nbufs);
    if (!writes(op))
        return PEAL_OK;
    if (op->dst < 0 || op->dst >= c->what->sched[r]->nbufs)
        return peali_check_refute(c, r, i, "target buffer %d of %d", op->dst, (int)c->what->sched[r]->nbufs);
    if (op->dst == PEAL_BUF_IN)
        return peali_check_refute(c, r, i, "writes IN");
    if (reads(op) && op->dst == op->src)
        return peali_check_refute(c, r, i, "%s is its own source", peali_check_buffer(text, op->dst));
    peali_span own = peali_check_holds(c, r, PEAL_BUF_OUT);
    if (op->dst == PEAL_BUF_OUT && (op->first < own.first || op->end > own.end))
        return peali_check_refute(c, r, i, "writes blocks of OUT that the user does not give this rank (%d of them from %d on are)",
                                  (int)(own.end - own.first), (int)own.first);
    return PEAL_OK;
}

static peal_status form_op(peali_checking *c, int r, int i)
{
    const peali_op *op = peali_check_op(c, r, i);
    if (op->verb > PEALI_REDUCE)
        return peali_check_refute(c, r, -1, "operation %d has verb %d", i, op->verb);
    if (op->first < 0 || op->first >= op->end || op->end > c->nblocks)
        return peali_check_refute(c, r, i, "of %d blocks", (int)c->nblocks);
    if (op->verb == PEALI_SEND || op->verb == PEALI_RECV) {
        if (op->peer < 0 || op->peer >= c->n || op->peer == r)
            return peali_check_refute(c, r, i, "there is no such peer");
        if (op->lane >= PEAL_LANES || op->lane >= c->what->sched[r]->nlanes)
            return peali_check_refute(c, r, i, "of %d lanes", (int)c->what->sched[r]->nlanes);
    }
    return form_buffers(c, r, i);
}

static peal_status form_pieces(peali_checking *c)
{
    bool parts = c->what->problem->kind == PEAL_ALLGATHER || c->what->problem->kind == PEAL_REDUCE_SCATTER;
    if (parts && c->nblocks % c->n)
        return peali_check_refute(c, 0, -1, "%d blocks cannot be divided among %d ranks", (int)c->nblocks, (int)c->n);
    c->piece = peali_arena_get(&c->arena, (size_t)c->nblocks + 1, sizeof *c->piece);
    if (!c->piece)
        return PEAL_ERR_MEMORY;
    for (int r = 0; r < c->n; r++) {
        for (int i = 0; i < c->what->sched[r]->nops; i++) {
            const peali_op *op = peali_check_op(c, r, i);
            c->piece[op->first] = c->piece[op->end] = 1;
        }
        if (parts)
            c->piece[r * (c->nblocks / c->n)] = 1;
    }
    c->piece[0] = 1;
    c->cut = peali_arena_get(&c->arena, (size_t)c->nblocks + 1, sizeof *c->cut);
    if (!c->cut)
        return PEAL_ERR_MEMORY;
    for (int32_t b = 0; b < c->nblocks; b++)
        if (c->piece[b]) {
            c->cut[c->npieces] = b;
            c->piece[b] = c->npieces++;
        }
    c->cut[c->npieces] = c->nblocks;
    c->piece[c->nblocks] = c->npieces;
    return PEAL_OK;
}

peal_status peali_check_form(peali_checking *c)
{
    c->base = peali_arena_get(&c->arena, (size_t)c->n + 1, sizeof *c->base);
    if (!c->base)
        return PEAL_ERR_MEMORY;
    for (int r = 0; r < c->n; r++) {
        const peal_sched *s = c->what->sched[r];
        if (s->nblocks != c->nblocks || s->nblocks < 1)
            return peali_check_refute(c, r, -1, "has %d blocks, rank 0 has %d", (int)s->nblocks, (int)c->nblocks);
        if (s->rank != r || s->nranks != c->n)
            return peali_check_refute(c, r, -1, "holds the schedule of rank %d of %d", (int)s->rank, (int)s->nranks);
        for (int i = 0; i < s->nops; i++) {
            peal_status status = form_op(c, r, i);
            if (status != PEAL_OK)
                return status;
        }
        c->base[r + 1] = c->base[r] + s->nops;
    }
    c->report->ops = c->base[c->n];
    return form_pieces(c);
}

/* All sends, ordered by receiver, sender and place in the sender's list; those to rank b are from[b] .. from[b + 1]. */
typedef struct mail {
    int32_t *from;
    int32_t *send, *sender; /* number and rank */
    int32_t *next, *end;    /* of each sender: its first send to the rank at hand that has no receive yet; one past its last */
} mail;

static peal_status sort_mail(peali_checking *c, mail *m)
{
    size_t n = (size_t)c->n, nops = (size_t)c->base[c->n];
    m->from = peali_arena_get(&c->arena, n + 2, sizeof *m->from);
    m->next = peali_arena_get(&c->arena, n, sizeof *m->next);
    m->end = peali_arena_get(&c->arena, n, sizeof *m->end);
    m->send = peali_arena_get(&c->arena, nops, sizeof *m->send);
    m->sender = peali_arena_get(&c->arena, nops, sizeof *m->sender);
    if (!m->from || !m->next || !m->end || !m->send || !m->sender)
        return PEAL_ERR_MEMORY;
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < c->n; r++)
            for (int i = 0; i < c->what->sched[r]->nops; i++) {
                const peali_op *op = peali_check_op(c, r, i);
                if (op->verb != PEALI_SEND)
                    continue;
                int32_t at = m->from[op->peer + 1 + !pass]++;
                if (pass) {
                    m->send[at] = c->base[r] + i;
                    m->sender[at] = r;
                }
            }
        for (size_t b = 1; !pass && b <= n; b++)
            m->from[b + 1] += m->from[b];
    }
    return PEAL_OK;
}

static const peali_op *sent(const peali_checking *c, const mail *m, int32_t at)
{
    return peali_check_op(c, m->sender[at], m->send[at] - c->base[m->sender[at]]);
}

static peal_status meet(peali_checking *c, mail *m, int r, int i)
{
    const peali_op *op = peali_check_op(c, r, i);
    int32_t *next = &m->next[op->peer], end = m->end[op->peer];
    while (*next < end && c->match[m->send[*next]] >= 0)
        (*next)++;
    int32_t at = *next;
    while (at < end && (c->match[m->send[at]] >= 0 || sent(c, m, at)->lane != op->lane))
        at++;
    if (at >= end)
        return peali_check_refute(c, r, i, "there is no send for it: rank %d has no other send to rank %d on lane %d",
                                  (int)op->peer, r, op->lane);
    c->match[m->send[at]] = c->base[r] + i;
    c->match[c->base[r] + i] = m->send[at];
    const peali_op *s = sent(c, m, at);
    if (s->first == op->first && s->end == op->end)
        return PEAL_OK;
    char words[128];
    peali_check_words(words, sizeof words, s);
    return peali_check_refute(c, r, i, "meets rank %d's operation %d (%s), which has another range", (int)op->peer,
                              (int)(m->send[at] - c->base[op->peer]), words);
}

static peal_status match_rank(peali_checking *c, mail *m, int r)
{
    memset(m->next, 0, (size_t)c->n * sizeof *m->next);
    memset(m->end, 0, (size_t)c->n * sizeof *m->end);
    for (int32_t at = m->from[r + 1] - 1; at >= m->from[r]; at--) {
        int32_t a = m->sender[at];
        m->next[a] = at;
        m->end[a] = m->end[a] ? m->end[a] : at + 1;
    }
    for (int i = 0; i < c->what->sched[r]->nops; i++) {
        if (peali_check_op(c, r, i)->verb != PEALI_RECV)
            continue;
        peal_status status = meet(c, m, r, i);
        if (status != PEAL_OK)
            return status;
    }
    for (int32_t at = m->from[r]; at < m->from[r + 1]; at++)
        if (c->match[m->send[at]] < 0)
            return peali_check_refute(c, m->sender[at], m->send[at] - c->base[m->sender[at]], "rank %d has no receive for it", r);
    return PEAL_OK;
}

peal_status peali_check_match(peali_checking *c)
{
    mail m = {NULL};
    size_t nops = (size_t)c->base[c->n];
    c->match = peali_arena_get(&c->arena, nops, sizeof *c->match);
    if (!c->match || sort_mail(c, &m) != PEAL_OK)
        return PEAL_ERR_MEMORY;
    memset(c->match, -1, nops * sizeof *c->match);
    for (int r = 0; r < c->n; r++) {
        peal_status status = match_rank(c, &m, r);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}
