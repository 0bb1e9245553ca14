/*
 * The invariant of programs whose peers are lowered apart: what is outgoing (a send, the post of a receive) waits for no event
 * from out of reach (an arrival, and but for push the end of a send) for which it would not wait if the ranks within reach ran
 * their schedules in list order. Then nothing that fusing delays can close a cycle through ranks that this domain knows nothing of.
 * Source: LOWERING, "Out of reach".
 *
 * In list order a send goes on at once, a receive waits for its send, and what overwrites a piece that was sent waits for the end
 * of that send; the order of operations was proved to have an edge for each such pair, directly or through others of the same
 * rank.
 */
#include "study/check_programs_parts.h"

#include <string.h>

typedef uint64_t word;

typedef struct history {
    peali_proving *p;
    int first, nranks;   /* of the domain: its first rank, and how many */
    const int32_t *rank; /* all of them */
    int32_t *op, *instr; /* of each, and behind the last one: where its operations and instructions begin in what follows */
    int32_t *event;      /* of each operation; -1: none */
    int32_t nevents;
    size_t nwords;
    word **list;         /* of each rank: what happened before its next operation */
    word **before;       /* of each message: what had happened in list order when it began */
    int32_t *cursor;     /* of each rank */
    word *begun;         /* of each instruction: what happened before it begins */
} history;

static int32_t op_base(const history *h, int r)
{
    return h->op[h->p->place[r]];
}

/* Where the operation is that message NUMBER performs. */
static int32_t op_of(const history *h, int32_t number)
{
    int r = h->p->rank[number];
    return op_base(h, r) + h->p->op[number] - h->p->truth->c.base[r];
}

static word *begun(const history *h, int32_t number)
{
    int r = h->p->rank[number];
    return h->begun + (size_t)(h->instr[h->p->place[r]] + number - h->p->base[r]) * h->nwords;
}

static void join(const history *h, word *to, const word *from)
{
    for (size_t i = 0; i < h->nwords; i++)
        to[i] |= from[i];
}

static void add(word *to, int32_t event)
{
    if (event >= 0)
        to[event / 64] |= (word)1 << event % 64;
}

static bool inside(const history *h, int peer)
{
    return h->p->domain[peer] == h->first;
}

static bool is_message(const peali_op *op)
{
    return op->verb == PEALI_SEND || op->verb == PEALI_RECV;
}

static bool prepare(history *h)
{
    peali_proving *p = h->p;
    const peali_checking *c = &p->truth->c;
    size_t n = (size_t)h->nranks, nops;
    h->op = peali_arena_get(&p->arena, n + 1, sizeof *h->op);
    h->instr = peali_arena_get(&p->arena, n + 1, sizeof *h->instr);
    if (!h->op || !h->instr)
        return false;
    for (size_t x = 0; x < n; x++) {
        int r = h->rank[x];
        h->op[x + 1] = h->op[x] + c->base[r + 1] - c->base[r];
        h->instr[x + 1] = h->instr[x] + p->base[r + 1] - p->base[r];
    }
    nops = (size_t)h->op[n];
    h->event = peali_arena_get(&p->arena, nops, sizeof *h->event);
    h->before = peali_arena_get(&p->arena, nops, sizeof *h->before);
    h->list = peali_arena_get(&p->arena, n, sizeof *h->list);
    h->cursor = peali_arena_get(&p->arena, n, sizeof *h->cursor);
    if (!h->event || !h->before || !h->list || !h->cursor)
        return false;
    for (size_t x = 0; x < n; x++)
        for (int r = h->rank[x], i = 0; i < p->truth->what.sched[r]->nops; i++) {
            const peali_op *op = peali_check_op(c, r, i);
            bool comes = is_message(op) && !inside(h, op->peer) && (op->verb == PEALI_RECV || p->mode != PEALI_PUSH);
            h->event[op_base(h, r) + i] = comes ? h->nevents++ : -1;
        }
    h->nwords = ((size_t)h->nevents + 63) / 64;
    h->begun = peali_arena_get(&p->arena, (size_t)h->instr[n] * h->nwords, sizeof *h->begun);
    for (size_t x = 0; x < n; x++)
        if (!(h->list[x] = peali_arena_get(&p->arena, h->nwords, sizeof **h->list)))
            return false;
    return h->begun != NULL;
}

static int32_t partner(const history *h, int r, int i)
{
    const peali_checking *c = &h->p->truth->c;
    return c->match[c->base[r] + i] - c->base[peali_check_op(c, r, i)->peer];
}

static bool was_run(const history *h, int r, int i)
{
    return h->cursor[h->p->place[r]] > i;
}

/* May operation I of R, the next in its list, run? */
static bool ready(const history *h, int r, int i)
{
    const peali_op *op = peali_check_op(&h->p->truth->c, r, i);
    const peali_order *o = &h->p->truth->what.order[r];
    if (op->verb == PEALI_RECV && inside(h, op->peer) && !was_run(h, op->peer, partner(h, r, i)))
        return false;
    for (int32_t e = o->start[i]; e < o->start[i + 1]; e++) {
        const peali_op *sent = peali_check_op(&h->p->truth->c, r, o->from[e]);
        if (sent->verb == PEALI_SEND && inside(h, sent->peer) && !was_run(h, sent->peer, partner(h, r, o->from[e])))
            return false;
    }
    return true;
}

static bool keep_before(history *h, int r, int i)
{
    word *copy = peali_arena_get(&h->p->arena, h->nwords, sizeof *copy);
    if (copy)
        join(h, copy, h->list[h->p->place[r]]);
    h->before[op_base(h, r) + i] = copy;
    return copy != NULL;
}

static bool run_op(history *h, int r, int i)
{
    const peali_op *op = peali_check_op(&h->p->truth->c, r, i);
    const peali_order *o = &h->p->truth->what.order[r];
    word *now = h->list[h->p->place[r]];
    for (int32_t e = o->start[i]; e < o->start[i + 1]; e++) {
        const peali_op *sent = peali_check_op(&h->p->truth->c, r, o->from[e]);
        if (sent->verb == PEALI_SEND && inside(h, sent->peer))
            join(h, now, h->before[op_base(h, sent->peer) + partner(h, r, o->from[e])]);
        else if (sent->verb == PEALI_SEND)
            add(now, h->event[op_base(h, r) + o->from[e]]);
    }
    if (op->verb == PEALI_RECV && inside(h, op->peer))
        join(h, now, h->before[op_base(h, op->peer) + partner(h, r, i)]);
    if (is_message(op) && !keep_before(h, r, i))
        return false;
    if (op->verb == PEALI_RECV && !inside(h, op->peer))
        add(now, h->event[op_base(h, r) + i]);
    return true;
}

/* The schedules were proved to come to an end in list order, so these do, for which messages from out of reach are always there. */
static bool run_lists(history *h)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int x = 0; x < h->nranks; x++) {
            int32_t *i = &h->cursor[x], r = h->rank[x];
            for (; *i < h->p->truth->what.sched[r]->nops && ready(h, r, *i); (*i)++, moved = true)
                if (!run_op(h, r, *i))
                    return false;
        }
    }
    return true;
}

static void gather(history *h, int32_t number)
{
    peali_proving *p = h->p;
    int r = p->rank[number];
    const peali_program *q = p->program[r];
    const peali_instr *i = peali_proving_instr(p, number);
    word *now = begun(h, number);
    if (i != q->instrs)
        join(h, now, begun(h, number - 1));
    for (int32_t k = 0; k < i->nwaits; k++)
        add(now, h->event[op_of(h, p->base[r] + q->waits[i->waits + k])]);
    for (int32_t k = 0; k < i->nawaits; k++) {
        int y = h->rank[q->awaits[i->awaits + k].rank];
        join(h, now, begun(h, p->base[y] + p->flag[p->flags[y] + q->awaits[i->awaits + k].flag]));
    }
    const peali_loc *locs = peali_proving_locs(p, number);
    for (int k = 0; k < i->nsrc; k++)
        if (locs[k].buf < 0)
            join(h, now, begun(h, *peali_proving_filler(p, r, locs[k])));
}

static peal_status outgoing(history *h, int32_t number)
{
    peali_proving *p = h->p;
    int r = p->rank[number];
    const word *now = begun(h, number), *most = h->before[op_of(h, number)];
    for (size_t i = 0; i < h->nwords; i++)
        if (now[i] & ~most[i])
            return peali_proving_refute(p, r, number - p->base[r],
                                        "waits for an arrival or the end of a send for which it does not wait in list order");
    return PEAL_OK;
}

static peal_status prove_domain(peali_proving *p, int first)
{
    history h = {.p = p, .first = first, .nranks = p->nnear[first], .rank = p->near[first]};
    if (!prepare(&h))
        return PEAL_ERR_MEMORY;
    if (h.nevents == 0)
        return PEAL_OK;
    if (!run_lists(&h))
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (int32_t k = 0; k < p->base[p->n] && status == PEAL_OK; k++) {
        int32_t number = p->sequence[k];
        if (!inside(&h, p->rank[number]))
            continue;
        gather(&h, number);
        if (p->op[number] >= 0)
            status = outgoing(&h, number);
    }
    return status;
}

peal_status peali_programs_events(peali_proving *p)
{
    peal_status status = PEAL_OK;
    for (int first = 0; first < p->n && status == PEAL_OK; first++)
        if (p->domain[first] == first)
            status = prove_domain(p, first);
    return status;
}
