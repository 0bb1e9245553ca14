/*
 * Events in order of time, and of their making where times are equal, so that a run repeats exactly. A rank's arithmetic is one
 * resource; a port is a queue. Wires are the messages of one slice; each has a state per slice.
 */
#include "study/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "lower/lower.h"

enum { SENT = 1, POSTED = 2, DELIVERED = 4, SEND_OVER = 8 }; /* of a message */
enum { PORT_DONE, HEAD_ARRIVES, WAKE, READY };                /* events; what happens first of those at one time */

typedef struct wire {
    int32_t from, to, lane, instr_from, instr_to;
    int32_t nth; /* among those with equal from, to and lane */
    int32_t first, end; /* blocks */
} wire;

typedef struct message {
    int32_t wire, slice;
    int32_t next[2]; /* in the queue of its sender's and its receiver's port, it may be in both; -1: none */
    int32_t state;
    int64_t sent; /* its place among all sends */
} message;

typedef struct port {
    int32_t first, last; /* messages that want it; the first one has it */
} port;

typedef struct event {
    double at;
    int64_t order; /* among those of its time and kind */
    int32_t kind, what; /* a rank, a message */
    int32_t port;       /* PORT_DONE */
} event;

typedef struct cursor {
    int32_t slice, pc;
} cursor;

typedef struct rank {
    peali_program *program;
    int32_t *wire; /* of each instruction that is a message */
    int32_t *flags; /* slices done */
    int32_t raise; /* the flag of the instruction that its arithmetic is at; -1: none */
    int32_t first, end; /* ranks within its reach */
    cursor *cursors;
    int32_t left;   /* slices that have not left it */
    double free_at; /* its arithmetic */
    bool woken;
    peali_sim_rank busy;
} rank;

typedef struct sim {
    const peali_sim_case *what;
    const peali_cost_params *params;
    peali_arena arena;
    int n, nports; /* of a rank, in one direction */
    rank *ranks;
    wire *wires;
    int32_t nwires;
    message *messages;
    port *ports; /* of each rank: send ports, then receive ports */
    event *heap;
    int32_t nevents, heap_cap;
    int64_t made;
    double now;
    bool full; /* memory ran out */
} sim;

static size_t share(size_t count, int64_t part, int64_t parts)
{
    return (size_t)((unsigned __int128)count * (uint64_t)part / (uint64_t)parts);
}

/* Bytes of blocks [first, end) in SLICE, cut as the runner cuts them. */
static double bytes_of(const sim *s, int32_t first, int32_t end, int32_t slice)
{
    size_t from = share(s->what->bytes, slice, s->what->slices), to = share(s->what->bytes, slice + 1, s->what->slices);
    int32_t nblocks = s->ranks[0].program->nblocks;
    return (double)(share(to - from, end, nblocks) - share(to - from, first, nblocks));
}

static bool before(const event *a, const event *b)
{
    if (a->at != b->at)
        return a->at < b->at;
    return a->kind < b->kind || (a->kind == b->kind && a->order < b->order);
}

static void push(sim *s, double at, int kind, int32_t what, int32_t of_port)
{
    if (s->nevents == s->heap_cap) {
        int32_t cap = s->heap_cap ? 2 * s->heap_cap : 1024;
        event *grown = peali_realloc(s->heap, (size_t)cap, sizeof *grown);
        s->full |= !grown;
        if (!grown)
            return;
        s->heap = grown;
        s->heap_cap = cap;
    }
    event e = {at, kind == READY ? s->messages[what].sent : s->made++, kind, what, of_port};
    int32_t i = s->nevents++;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static event pop(sim *s)
{
    event top = s->heap[0], last = s->heap[--s->nevents];
    int32_t i = 0;
    for (int32_t child; (child = 2 * i + 1) < s->nevents; i = child) {
        if (child + 1 < s->nevents && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* At the current time, after all that is already to happen then. */
static void wake(sim *s, int32_t r)
{
    if (s->ranks[r].woken)
        return;
    s->ranks[r].woken = true;
    push(s, s->now, WAKE, r, -1);
}

static int peers_of(const sim *s, const wire *w)
{
    const int *node = s->what->problem->node;
    return node && node[w->from] != node[w->to] ? PEALI_FAR : PEALI_NEAR;
}

static int32_t port_of(const sim *s, const wire *w, bool sends)
{
    int32_t at = (sends ? w->from : w->to) * 2 + !sends;
    return at * s->nports + peers_of(s, w) * s->params->ports + w->lane % s->params->ports;
}

static bool receives(const sim *s, int32_t p)
{
    return p / s->nports % 2;
}

/* The first message in the queue of port P gets it. */
static void serve_port(sim *s, int32_t p)
{
    message *m = &s->messages[s->ports[p].first];
    const wire *w = &s->wires[m->wire];
    const peali_link_cost *cost = &s->params->link[peers_of(s, w)];
    bool sends = !receives(s, p);
    double busy = bytes_of(s, w->first, w->end, m->slice) * cost->byte_ns + (sends ? cost->send_ns : cost->recv_ns);
    peali_sim_rank *mine = &s->ranks[sends ? w->from : w->to].busy;
    *(sends ? &mine->send_ns : &mine->recv_ns) += busy;
    push(s, s->now + busy, PORT_DONE, s->ports[p].first, p);
    if (sends)
        push(s, s->now + cost->send_ns + cost->latency_ns, HEAD_ARRIVES, s->ports[p].first, -1);
}

static void queue_up(sim *s, int32_t p, int32_t m)
{
    port *q = &s->ports[p];
    int side = receives(s, p);
    s->messages[m].next[side] = -1;
    if (q->first >= 0) {
        s->messages[q->last].next[side] = m;
        q->last = m;
        return;
    }
    q->first = q->last = m;
    serve_port(s, p);
}

static bool is_eager(const sim *s, const message *m)
{
    const wire *w = &s->wires[m->wire];
    return bytes_of(s, w->first, w->end, m->slice) <= (double)s->params->eager_bytes;
}

static void port_done(sim *s, int32_t p, int32_t at)
{
    message *m = &s->messages[at];
    const wire *w = &s->wires[m->wire];
    bool sends = !receives(s, p);
    s->ports[p].first = m->next[!sends];
    if (s->ports[p].first >= 0)
        serve_port(s, p);
    m->state |= sends ? 0 : DELIVERED;
    if (!sends)
        wake(s, w->to);
    if (sends == is_eager(s, m)) {
        m->state |= SEND_OVER;
        wake(s, w->from);
    }
}

/* SIDE, SENT or POSTED, has come to the message. It starts with SENT, or with both; of those that start now, as they were sent. */
static void meet(sim *s, int32_t at, int side)
{
    message *m = &s->messages[at];
    m->state |= side;
    if (side == SENT)
        m->sent = s->made++;
    bool both = (m->state & (SENT | POSTED)) == (SENT | POSTED);
    if (is_eager(s, m) ? side == SENT : both)
        push(s, s->now, READY, at, -1);
}

static int32_t message_of(const sim *s, const rank *k, int32_t instr, int32_t slice)
{
    return slice * s->nwires + k->wire[instr];
}

static bool waited(const sim *s, const rank *k, const cursor *c, const peali_instr *i)
{
    for (int32_t w = 0; w < i->nwaits; w++) {
        int32_t instr = k->program->waits[i->waits + w];
        int over = k->program->instrs[instr].kind == PEALI_I_SEND ? SEND_OVER : DELIVERED;
        if (!(s->messages[message_of(s, k, instr, c->slice)].state & over))
            return false;
    }
    return true;
}

/* Slices raise a flag in their order, as the runner has it. */
static bool awaited(const sim *s, const rank *k, const cursor *c, const peali_instr *i)
{
    for (int32_t a = 0; a < i->nawaits; a++) {
        peali_await await = k->program->awaits[i->awaits + a];
        if (s->ranks[k->first + await.rank].flags[await.flag] <= c->slice)
            return false;
    }
    return i->flag < 0 || k->flags[i->flag] == c->slice;
}

static void raise_flag(sim *s, rank *k)
{
    if (k->raise < 0)
        return;
    k->flags[k->raise]++;
    k->raise = -1;
    for (int32_t r = k->first; r < k->end; r++)
        wake(s, r);
}

static double compute_ns(const sim *s, const rank *k, const cursor *c, const peali_instr *i)
{
    if (i->nsrc == 0)
        return 0;
    double bytes = bytes_of(s, k->program->cuts[i->first], k->program->cuts[i->end], c->slice);
    double copies = i->nsrc == 1 ? i->ndst : i->ndst - 1;
    return s->params->step_ns + bytes * ((i->nsrc - 1) * s->params->reduce_byte_ns + copies * s->params->copy_byte_ns);
}

static bool advance(sim *s, rank *k, cursor *c)
{
    const peali_instr *i = &k->program->instrs[c->pc];
    if (!waited(s, k, c, i) || !awaited(s, k, c, i))
        return false;
    if (i->kind == PEALI_I_REDUCE) {
        double ns = compute_ns(s, k, c, i);
        k->busy.compute_ns += ns;
        k->free_at = s->now + ns;
    } else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV) {
        meet(s, message_of(s, k, c->pc, c->slice), i->kind == PEALI_I_SEND ? SENT : POSTED);
    }
    k->raise = i->flag;
    c->pc++;
    if (i->kind == PEALI_I_EXIT) {
        *c = (cursor){c->slice + s->what->window, 0};
        k->left--;
        k->busy.end_ns = s->now;
    }
    return true;
}

/* As the runner does it: the oldest slice first, until it can go no further. */
static bool pass(sim *s, rank *k)
{
    int32_t window = s->what->window, oldest = 0;
    for (int32_t w = 1; w < window; w++)
        if (k->cursors[w].slice < k->cursors[oldest].slice)
            oldest = w;
    for (int32_t w = 0; w < window; w++) {
        cursor *c = &k->cursors[(oldest + w) % window];
        if (c->slice < s->what->slices && advance(s, k, c))
            return true;
    }
    return false;
}

static void serve(sim *s, int32_t r)
{
    rank *k = &s->ranks[r];
    k->woken = false;
    if (s->now < k->free_at)
        return; /* woken again when it is free */
    raise_flag(s, k);
    while (k->left > 0 && pass(s, k)) {
        if (k->free_at > s->now) {
            push(s, k->free_at, WAKE, r, -1);
            return;
        }
        raise_flag(s, k);
    }
}

static void happen(sim *s, const event *e)
{
    s->now = e->at;
    if (e->kind == WAKE)
        serve(s, e->what);
    else if (e->kind == PORT_DONE)
        port_done(s, e->port, e->what);
    else
        queue_up(s, port_of(s, &s->wires[s->messages[e->what].wire], e->kind == READY), e->what);
}

static int by_channel(const void *a, const void *b)
{
    const wire *x = a, *y = b;
    int32_t keys[][2] = {{x->from, y->from}, {x->to, y->to}, {x->lane, y->lane}, {x->nth, y->nth}};
    for (int i = 0; i < 4; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* The sends (else the receives) of all ranks, sorted, so that the i-th send meets the i-th receive. */
static wire *list_wires(sim *s, int kind, int32_t *count)
{
    int32_t n = 0;
    for (int r = 0; r < s->n; r++)
        for (int32_t i = 0; i < s->ranks[r].program->ninstrs; i++)
            n += s->ranks[r].program->instrs[i].kind == kind;
    wire *all = peali_arena_get(&s->arena, (size_t)n + 1, sizeof *all), *w = all;
    for (int r = 0; all && r < s->n; r++) {
        const peali_program *p = s->ranks[r].program;
        for (int32_t i = 0; i < p->ninstrs; i++) {
            const peali_instr *in = &p->instrs[i];
            if (in->kind != kind)
                continue;
            bool sends = kind == PEALI_I_SEND;
            *w++ = (wire){sends ? r : in->peer, sends ? in->peer : r, in->lane, i, i, i, p->cuts[in->first], p->cuts[in->end]};
        }
    }
    if (all)
        qsort(all, (size_t)n, sizeof *all, by_channel);
    *count = n;
    return all;
}

static peal_status refuse(const sim *s, const char *why)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "%s %s on %d ranks, window %d of %d slices: %s",
              peal_kind_name(s->what->algo->kind), s->what->algo->name, s->n, s->what->window, s->what->slices, why);
    return PEAL_ERR_INVALID;
}

static peal_status connect(sim *s)
{
    int32_t nrecvs;
    s->wires = list_wires(s, PEALI_I_SEND, &s->nwires);
    wire *recvs = list_wires(s, PEALI_I_RECV, &nrecvs);
    if (!s->wires || !recvs)
        return PEAL_ERR_MEMORY;
    if (nrecvs != s->nwires)
        return refuse(s, "there are not as many receives as sends");
    for (int32_t i = 0; i < s->nwires; i++) {
        wire *w = &s->wires[i];
        if (w->from != recvs[i].from || w->to != recvs[i].to || w->lane != recvs[i].lane)
            return refuse(s, "a send has no receive");
        w->instr_to = recvs[i].instr_to;
        s->ranks[w->from].wire[w->instr_from] = i;
        s->ranks[w->to].wire[w->instr_to] = i;
    }
    return PEAL_OK;
}

static peal_status equip(sim *s, rank *k)
{
    k->wire = peali_arena_get(&s->arena, (size_t)k->program->ninstrs, sizeof *k->wire);
    k->flags = peali_arena_get(&s->arena, (size_t)k->program->nflags + 1, sizeof *k->flags);
    k->cursors = peali_arena_get(&s->arena, (size_t)s->what->window, sizeof *k->cursors);
    k->left = s->what->slices;
    k->raise = -1;
    for (int32_t w = 0; k->cursors && w < s->what->window; w++)
        k->cursors[w].slice = w;
    return k->wire && k->flags && k->cursors ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* The ranks from FIRST on that reach each other. */
static peal_status lower_domain(sim *s, int32_t first, int32_t end)
{
    size_t n = (size_t)(end - first);
    int32_t *ids = peali_arena_get(&s->arena, n, sizeof *ids);
    peali_program **programs = peali_arena_get(&s->arena, n, sizeof *programs);
    if (!ids || !programs)
        return PEAL_ERR_MEMORY;
    for (int32_t r = first; r < end; r++)
        ids[r - first] = r;
    peali_reach reach = {end - first, ids, PEALI_PULL};
    peal_status status = peali_lower_all(s->what->algo, s->what->problem, &reach, programs);
    for (int32_t r = first; r < end && status == PEAL_OK; r++) {
        s->ranks[r].program = programs[r - first];
        s->ranks[r].first = first;
        s->ranks[r].end = end;
    }
    for (int32_t r = first; r < end && status == PEAL_OK; r++)
        status = equip(s, &s->ranks[r]);
    return status;
}

static int32_t domain_end(const sim *s, int32_t first)
{
    const int *node = s->what->problem->node;
    int32_t end = first + 1;
    while (s->what->shared && end < s->n && (!node || node[end] == node[first]))
        end++;
    return end;
}

static peal_status prepare(sim *s)
{
    s->ranks = peali_arena_get(&s->arena, (size_t)s->n, sizeof *s->ranks);
    if (!s->ranks)
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (int32_t r = 0; r < s->n && status == PEAL_OK; r = domain_end(s, r))
        status = lower_domain(s, r, domain_end(s, r));
    if (status == PEAL_OK)
        status = connect(s);
    if (status != PEAL_OK)
        return status;
    size_t nports = (size_t)s->n * 2 * (size_t)s->nports, nmessages = (size_t)s->nwires * (size_t)s->what->slices;
    s->ports = peali_arena_get(&s->arena, nports, sizeof *s->ports);
    s->messages = nmessages < INT32_MAX ? peali_arena_get(&s->arena, nmessages + 1, sizeof *s->messages) : NULL;
    if (!s->ports || !s->messages)
        return PEAL_ERR_MEMORY;
    for (size_t i = 0; i < nports; i++)
        s->ports[i].first = -1;
    for (size_t i = 0; i < nmessages; i++)
        s->messages[i] = (message){(int32_t)(i % (size_t)s->nwires), (int32_t)(i / (size_t)s->nwires), {-1, -1}, 0, 0};
    return PEAL_OK;
}

static peal_status run(sim *s)
{
    for (int32_t r = 0; r < s->n; r++)
        wake(s, r);
    while (s->nevents > 0 && !s->full) {
        event e = pop(s);
        happen(s, &e);
    }
    for (int r = 0; r < s->n && !s->full; r++)
        if (s->ranks[r].left > 0)
            return refuse(s, "it does not come to an end");
    return s->full ? PEAL_ERR_MEMORY : PEAL_OK;
}

static void drop(sim *s)
{
    for (int r = 0; s->ranks && r < s->n; r++)
        peali_program_free(&s->ranks[r].program);
    peali_free(s->heap);
    peali_arena_free(&s->arena);
}

peal_status peali_sim(const peali_sim_case *what, const peali_cost_params *params, double *ns, peali_sim_rank *ranks)
{
    sim s = {.what = what, .params = params, .n = what->problem->nranks, .nports = PEALI_PEERS * params->ports};
    peal_status status = prepare(&s);
    if (status == PEAL_OK)
        status = run(&s);
    double last = 0;
    for (int r = 0; r < s.n && status == PEAL_OK; r++) {
        last = s.ranks[r].busy.end_ns > last ? s.ranks[r].busy.end_ns : last;
        if (ranks)
            ranks[r] = s.ranks[r].busy;
    }
    if (status == PEAL_OK)
        *ns = last;
    drop(&s);
    return status;
}
