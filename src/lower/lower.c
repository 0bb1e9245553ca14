/*
 * Lowering: the operations of all ranks within reach are taken in one fixed order that keeps each rank's list order, fused,
 * emitted, and packed into one program a rank. Source: LOWERING.
 */
#include "lower/work.h"

#include <string.h>

#include "base/log.h"

void *peali_work_get(peali_work *w, size_t count, size_t size)
{
    void *p = peali_arena_get(&w->arena, count ? count : 1, size);
    if (p)
        return p;
    w->failed = true;
    if (w->end)
        longjmp(*w->end, 1);
    return NULL;
}

void peali_work_push(peali_work *w, peali_vec *v, void *what)
{
    if (v->n == v->cap) {
        int32_t cap = v->cap ? 2 * v->cap : 16;
        void **at = peali_work_get(w, (size_t)cap, sizeof *at);
        if (v->n)
            memcpy(at, v->at, (size_t)v->n * sizeof *at);
        v->at = at;
        v->cap = cap;
    }
    v->at[v->n++] = what;
}

void peali_work_link(peali_work *w, peali_link **list, void *what)
{
    peali_link *l = peali_work_get(w, 1, sizeof *l);
    *l = (peali_link){what, *list};
    *list = l;
}

enum { MOST_EVENT_BITS = 1 << 28 }; /* 32 MiB: each instruction has a set of all events */

/* One operation as the driver sees it. */
typedef struct step {
    int32_t peer;  /* index of its peer within reach; -1: out of reach, or local */
    int32_t match; /* operation number of its other end, within reach */
    bool done;
    bool dead;     /* reads a scratch buffer for the last time before it is overwritten */
    int32_t event; /* of a message out of reach: its being over; -1: no other rank can tell */
    peali_loc land;             /* push: where the message lands */
    const peali_events *before; /* a send, or a receive that was taken: the events before it in list order */
} step;

typedef struct driver {
    peali_work w;
    const peal_algo *algo;
    const peal_problem *problem;
    step **steps;    /* per rank within reach, per operation */
    int32_t *at;     /* per rank: the next operation */
    int32_t **held;  /* per rank, per scratch buffer: the first cut of what it holds */
    peali_vec *open; /* per rank: operations that sent within reach and were not received yet */
    peali_order *orders; /* per rank, where there are events */
} driver;

static bool is_message(const peali_op *op)
{
    return op->verb == PEALI_SEND || op->verb == PEALI_RECV;
}

static int32_t within(const peali_reach *reach, int32_t rank)
{
    int32_t lo = 0, hi = reach->nranks - 1;
    while (lo <= hi) {
        int32_t mid = (lo + hi) / 2;
        if (reach->ranks[mid] == rank)
            return mid;
        if (reach->ranks[mid] < rank)
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    return -1;
}

/* Builds what rank X within reach does, which must have the blocks of the others. */
static peal_status build_one(driver *d, int x)
{
    peali_work *w = &d->w;
    peal_status status = peali_sched_build(d->algo, d->problem, w->reach->ranks[x], &w->scheds[x]);
    if (status != PEAL_OK)
        return status;
    const peal_sched *s = w->scheds[x], *first = w->scheds[0];
    if (s->nblocks != first->nblocks) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, s->rank, "%s %s: %d blocks, and rank %d has %d", peal_kind_name(d->algo->kind),
                  d->algo->name, (int)s->nblocks, (int)first->rank, (int)first->nblocks);
        return PEAL_ERR_INVALID;
    }
    d->steps[x] = peali_work_get(w, (size_t)s->nops, sizeof **d->steps);
    for (int32_t i = 0; i < s->nops; i++)
        d->steps[x][i].match = -1;
    d->held[x] = peali_work_get(w, (size_t)s->nbufs, sizeof **d->held);
    return PEAL_OK;
}

static peal_status build(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    w->scheds = peali_work_get(w, (size_t)n, sizeof *w->scheds);
    d->steps = peali_work_get(w, (size_t)n, sizeof *d->steps);
    d->at = peali_work_get(w, (size_t)n, sizeof *d->at);
    d->held = peali_work_get(w, (size_t)n, sizeof *d->held);
    d->open = peali_work_get(w, (size_t)n, sizeof *d->open);
    d->orders = peali_work_get(w, (size_t)n, sizeof *d->orders);
    w->code = peali_work_get(w, (size_t)n, sizeof *w->code);
    w->landings = peali_work_get(w, (size_t)n, sizeof *w->landings);
    w->outgoing = peali_work_get(w, (size_t)n, sizeof *w->outgoing);
    w->run_by = peali_work_get(w, (size_t)n, sizeof *w->run_by);
    peal_status status = PEAL_OK;
    for (int x = 0; x < n && status == PEAL_OK; x++)
        status = build_one(d, x);
    return status;
}

/* For each operation that reads scratch: is it the last to do so before the buffer is overwritten? */
static void find_dead(driver *d, int x)
{
    const peal_sched *s = d->w.scheds[x];
    bool *live = peali_work_get(&d->w, (size_t)s->nbufs, sizeof *live);
    for (int32_t i = s->nops - 1; i >= 0; i--) {
        const peali_op *op = &s->ops[i];
        if (op->dst >= PEAL_BUF_TMP)
            live[op->dst] = op->verb == PEALI_REDUCE;
        if (op->src >= PEAL_BUF_TMP) {
            d->steps[x][i].dead = !live[op->src];
            live[op->src] = true;
        }
    }
}

/* Queues of sends that wait for their receive, per (receiver, lane) of one sender. */
static peal_status match_from(driver *d, int x)
{
    peali_work *w = &d->w;
    const peal_sched *s = w->scheds[x];
    int n = w->reach->nranks;
    int32_t *next = peali_work_get(w, (size_t)n * PEAL_LANES, sizeof *next);
    for (int32_t i = 0; i < s->nops; i++) {
        const peali_op *op = &s->ops[i];
        int y = is_message(op) ? within(w->reach, op->peer) : -1;
        d->steps[x][i].peer = y;
        if (op->verb != PEALI_SEND || y < 0)
            continue;
        const peal_sched *t = w->scheds[y];
        int32_t k = next[y * PEAL_LANES + op->lane];
        while (k < t->nops && !(t->ops[k].verb == PEALI_RECV && t->ops[k].peer == s->rank && t->ops[k].lane == op->lane))
            k++;
        if (k == t->nops || t->ops[k].first != op->first || t->ops[k].end != op->end) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, s->rank, "%s %s: send %d to rank %d has no matching receive",
                      peal_kind_name(d->algo->kind), d->algo->name, (int)i, (int)op->peer);
            return PEAL_ERR_INVALID;
        }
        d->steps[x][i].match = k;
        d->steps[y][k].match = i;
        next[y * PEAL_LANES + op->lane] = k + 1;
    }
    return PEAL_OK;
}

/* All sends have their receives; has each receive its send? */
static peal_status match_to(const driver *d, int x)
{
    const peal_sched *s = d->w.scheds[x];
    for (int32_t i = 0; i < s->nops; i++)
        if (s->ops[i].verb == PEALI_RECV && d->steps[x][i].peer >= 0 && d->steps[x][i].match < 0) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, s->rank, "%s %s: receive %d from rank %d has no matching send",
                      peal_kind_name(d->algo->kind), d->algo->name, (int)i, (int)s->ops[i].peer);
            return PEAL_ERR_INVALID;
        }
    return PEAL_OK;
}

/*
 * A rank alone whose schedule is long: as it stands it needs no events, and what fusing would save is little beside the messages.
 */
static void forget_events(driver *d)
{
    d->w.nevents = 0;
    d->w.fuse = 0;
    for (int32_t i = 0; i < d->w.scheds[0]->nops; i++)
        d->steps[0][i].event = -1;
}

/* Numbers what can come from out of reach: arrivals, and (not push) completions of sends, as a rendezvous may wait. */
static void number_events(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    for (int x = 0; x < n; x++)
        for (int32_t i = 0; i < w->scheds[x]->nops; i++) {
            const peali_op *op = &w->scheds[x]->ops[i];
            step *s = &d->steps[x][i];
            bool counts = is_message(op) && s->peer < 0 && (op->verb == PEALI_RECV || w->mode != PEALI_PUSH);
            s->event = counts ? w->nevents++ : -1;
        }
    if (n == 1 && (int64_t)w->nevents * w->scheds[0]->nops > MOST_EVENT_BITS)
        forget_events(d);
    w->nwords = (w->nevents + 63) / 64;
    w->list_order = peali_work_get(w, (size_t)n, sizeof *w->list_order);
    w->now = peali_work_get(w, (size_t)n, sizeof *w->now);
    for (int x = 0; x < n; x++) {
        w->list_order[x] = peali_work_get(w, (size_t)w->nwords, sizeof **w->list_order);
        w->now[x] = peali_work_get(w, (size_t)w->nwords, sizeof **w->now);
    }
}

static peal_status prepare(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    int32_t nbufs = PEAL_BUF_TMP;
    peal_status status = PEAL_OK;
    for (int x = 0; x < n && status == PEAL_OK; x++) {
        status = match_from(d, x);
        find_dead(d, x);
        if (w->scheds[x]->nbufs > nbufs)
            nbufs = w->scheds[x]->nbufs;
    }
    for (int x = 0; x < n && status == PEAL_OK; x++)
        status = match_to(d, x);
    if (status != PEAL_OK)
        return status;
    status = peali_cuts_make((const peal_sched *const *)w->scheds, n, &w->cuts);
    w->npieces = w->cuts.n > 0 ? w->cuts.n - 1 : 0;
    w->ncells = w->npieces + nbufs - PEAL_BUF_TMP;
    w->cells = peali_work_get(w, (size_t)n * (size_t)w->ncells, sizeof *w->cells);
    number_events(d);
    for (int x = 0; x < n && w->nevents > 0 && status == PEAL_OK; x++)
        status = peali_order_infer(w->scheds[x], &d->orders[x]);
    return status;
}

static bool overlap(const peali_op *writer, const peali_op *sent)
{
    if (writer->dst < 0)
        return false;
    if (writer->dst >= PEAL_BUF_TMP || sent->src >= PEAL_BUF_TMP)
        return writer->dst == sent->src;
    return writer->first < sent->end && sent->first < writer->end;
}

/* May operation I of rank X be taken now? A receive wants its send, and nothing overwrites what was sent and not received. */
static bool ready(driver *d, int x, int32_t i)
{
    const peali_op *op = &d->w.scheds[x]->ops[i];
    const step *s = &d->steps[x][i];
    if (op->verb == PEALI_RECV && s->peer >= 0 && !d->steps[s->peer][s->match].done)
        return false;
    for (int32_t k = 0; k < d->open[x].n; k++)
        if (overlap(op, d->open[x].at[k]))
            return false;
    return true;
}

static peali_loc source(const driver *d, int x, const peali_op *op)
{
    return (peali_loc){(int16_t)x, op->src, op->src >= PEAL_BUF_TMP ? d->held[x][op->src] : 0};
}

/* From here on a scratch buffer holds what OP names. */
static peali_loc target(driver *d, int x, const peali_op *op)
{
    int32_t base = op->dst >= PEAL_BUF_TMP ? peali_cuts_find(&d->w.cuts, op->first) : 0;
    d->held[x][op->dst] = base;
    return (peali_loc){(int16_t)x, op->dst, base};
}

static const peali_events *snapshot(peali_work *w, int x)
{
    peali_events *copy = w->nevents ? peali_work_get(w, (size_t)w->nwords, sizeof *copy) : NULL;
    if (copy)
        peali_events_join(w, copy, w->list_order[x]);
    return copy;
}

/* In list order, an operation that overwrites what was sent waits for that send to be over. */
static void overwrites_sent(driver *d, int x, int32_t i)
{
    peali_work *w = &d->w;
    const peali_order *o = &d->orders[x];
    for (int32_t e = w->nevents > 0 ? o->start[i] : 0; w->nevents > 0 && e < o->start[i + 1]; e++) {
        const step *sent = &d->steps[x][o->from[e]];
        if (w->scheds[x]->ops[o->from[e]].verb != PEALI_SEND)
            continue;
        if (sent->peer < 0)
            peali_events_add(w->list_order[x], sent->event);
        else
            peali_events_join(w, w->list_order[x], d->steps[sent->peer][sent->match].before);
    }
}

static void post(driver *d, int x, int32_t i, peali_loc at, const peali_move *m)
{
    peali_work *w = &d->w;
    const peali_op *op = &w->scheds[x]->ops[i];
    bool sends = op->verb == PEALI_SEND;
    peali_loc *locs = peali_work_get(w, 1, sizeof *locs);
    *locs = at;
    peali_instr instr = {.kind = sends ? PEALI_I_SEND : PEALI_I_RECV, .lane = op->lane, .peer = op->peer, .flag = -1};
    instr.nsrc = sends;
    instr.ndst = !sends;
    instr.first = m->first;
    instr.end = m->end;
    peali_emit(w, x, instr, locs, d->steps[x][i].event);
}

/* Push: every message from out of reach has a landing slot, and its receive is posted when the slice begins. */
static void post_landings(driver *d, int x)
{
    peali_work *w = &d->w;
    for (int32_t i = 0; i < w->scheds[x]->nops; i++) {
        const peali_op *op = &w->scheds[x]->ops[i];
        if (op->verb != PEALI_RECV || d->steps[x][i].peer >= 0)
            continue;
        peali_move m = {.first = peali_cuts_find(&w->cuts, op->first), .end = peali_cuts_find(&w->cuts, op->end)};
        d->steps[x][i].land = peali_fuse_land(w, x, m.first, m.end);
        post(d, x, i, d->steps[x][i].land, &m);
    }
}

static void out_of_reach(driver *d, int x, int32_t i, peali_move *m)
{
    peali_work *w = &d->w;
    const peali_op *op = &w->scheds[x]->ops[i];
    if (op->verb == PEALI_SEND) {
        m->s = source(d, x, op);
        post(d, x, i, peali_fuse_source(w, m), m);
        return;
    }
    m->d = target(d, x, op);
    if (w->mode != PEALI_PUSH) {
        peali_fuse_overwrite(w, m->d, m->first, m->end);
        post(d, x, i, m->d, m);
    }
    if (w->nevents > 0)
        peali_events_add(w->list_order[x], d->steps[x][i].event);
    if (w->mode == PEALI_PUSH) {
        m->s = d->steps[x][i].land;
        m->from = -1;
        peali_fuse_move(w, m);
    }
}

static void received(driver *d, int x, const peali_op *send)
{
    peali_vec *open = &d->open[x];
    for (int32_t k = 0; k < open->n; k++)
        if (open->at[k] == send) {
            open->at[k] = open->at[--open->n];
            return;
        }
}

static void sent(driver *d, int x, int32_t i, peali_move *m)
{
    peali_work *w = &d->w;
    const peali_op *op = &w->scheds[x]->ops[i];
    step *s = &d->steps[x][i];
    s->before = snapshot(w, x);
    peali_work_push(w, &d->open[x], (void *)op);
    m->s = source(d, x, op);
    if (w->mode == PEALI_PUSH)
        m->d = s->land = peali_fuse_land(w, s->peer, m->first, m->end);
    peali_fuse_send(w, m);
}

static void receive(driver *d, int x, int32_t i, peali_move *m)
{
    peali_work *w = &d->w;
    step *s = &d->steps[x][i];
    const peali_op *send = &w->scheds[s->peer]->ops[s->match];
    const step *other = &d->steps[s->peer][s->match];
    if (w->nevents > 0)
        peali_events_join(w, w->list_order[x], other->before);
    s->before = snapshot(w, x);
    m->sent = other->before;
    m->from = s->peer;
    m->s = w->mode == PEALI_PUSH ? other->land : source(d, s->peer, send);
    m->d = target(d, x, &w->scheds[x]->ops[i]);
    received(d, s->peer, send);
    peali_fuse_move(w, m);
}

static void compute(driver *d, int x, int32_t i, peali_move *m)
{
    const peali_op *op = &d->w.scheds[x]->ops[i];
    m->s = source(d, x, op);
    m->d = target(d, x, op);
    if (op->verb == PEALI_REDUCE)
        peali_fuse_reduce(&d->w, m);
    else
        peali_fuse_move(&d->w, m);
}

/* Has rank X sent scratch buffer BUF to a rank that did not take it yet, and that will read it there (not push)? */
static bool is_sent(const driver *d, int x, int buf)
{
    for (int32_t k = 0; k < d->open[x].n && d->w.mode != PEALI_PUSH; k++)
        if (((const peali_op *)d->open[x].at[k])->src == buf)
            return true;
    return false;
}

static void take(driver *d, int x, int32_t i)
{
    peali_work *w = &d->w;
    const peali_op *op = &w->scheds[x]->ops[i];
    step *s = &d->steps[x][i];
    peali_move m = {.rank = x, .from = x, .dead = s->dead && !is_sent(d, x, op->src)};
    m.first = peali_cuts_find(&w->cuts, op->first);
    m.end = peali_cuts_find(&w->cuts, op->end);
    s->done = true;
    overwrites_sent(d, x, i);
    if (is_message(op) && s->peer < 0)
        out_of_reach(d, x, i, &m);
    else if (op->verb == PEALI_SEND)
        sent(d, x, i, &m);
    else if (op->verb == PEALI_RECV)
        receive(d, x, i, &m);
    else
        compute(d, x, i, &m);
    if (w->fuse == 0 || (w->fuse == 1 && op->verb == PEALI_COPY))
        peali_fuse_flush(w);
}

static void begin(driver *d, int x)
{
    peali_emit(&d->w, x, (peali_instr){.kind = PEALI_I_ENTER, .peer = -1, .flag = -1}, NULL, -1);
    if (d->w.mode == PEALI_PUSH)
        post_landings(d, x);
}

/* Push: exit names the landing slots that no instruction reads, because a slice is left only when all its messages have arrived. */
static void end(driver *d, int x)
{
    peali_work *w = &d->w;
    const peali_vec *slots = &w->landings[x];
    peali_loc *locs = peali_work_get(w, (size_t)slots->n, sizeof *locs);
    peali_instr i = {.kind = PEALI_I_EXIT, .peer = -1, .flag = -1};
    for (int32_t k = 0; k < slots->n; k++)
        if (!((peali_landing *)slots->at[k])->read)
            locs[i.nsrc++] = (peali_loc){(int16_t)x, (int16_t)(-1 - k), 0};
    peali_emit(w, x, i, locs, -1);
}

static peal_status drive(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    for (int x = 0; x < n; x++)
        begin(d, x);
    for (bool moved = true; moved;) {
        moved = false;
        for (int x = 0; x < n; x++)
            while (d->at[x] < w->scheds[x]->nops && ready(d, x, d->at[x])) {
                take(d, x, d->at[x]++);
                moved = true;
            }
    }
    for (int x = 0; x < n; x++)
        if (d->at[x] < w->scheds[x]->nops) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, w->scheds[x]->rank, "%s %s: operation %d never becomes ready",
                      peal_kind_name(d->algo->kind), d->algo->name, (int)d->at[x]);
            return PEAL_ERR_INVALID;
        }
    peali_fuse_finish(w);
    for (int x = 0; x < n; x++)
        end(d, x);
    if (w->mode == PEALI_PUSH)
        peali_emit_prune(w);
    return PEAL_OK;
}

static void finish(driver *d)
{
    for (int x = 0; d->orders && x < d->w.reach->nranks; x++)
        peali_order_free(&d->orders[x]);
    for (int x = 0; d->w.scheds && x < d->w.reach->nranks; x++)
        peali_sched_free(&d->w.scheds[x]);
    peali_cuts_free(&d->w.cuts);
    peali_arena_free(&d->w.arena);
}

static peal_status lower(driver *d)
{
    peal_status status = build(d);
    if (status == PEAL_OK)
        status = prepare(d);
    return status == PEAL_OK ? drive(d) : status;
}

/* All that is made lies in D: what is half made when memory runs out, anywhere, is not looked at again. */
static peal_status lower_or_end(driver *d, int fuse)
{
    jmp_buf end;
    d->w.mode = d->w.reach->mode;
    d->w.fuse = fuse;
    d->w.end = &end;
    peal_status status = setjmp(end) == 0 ? lower(d) : PEAL_ERR_MEMORY;
    d->w.end = NULL;
    return status;
}

/* Fused, unless that makes a message wait for what it would not wait for in list order, and so might close a cycle elsewhere. */
static peal_status lower_safely(driver *d)
{
    driver again = *d;
    peal_status status = PEAL_OK;
    for (int fuse = 2; fuse >= 0; fuse--) {
        *d = again;
        status = lower_or_end(d, fuse);
        if (status != PEAL_OK || !d->w.bad || fuse == 0)
            break;
        finish(d);
    }
    return status;
}

const char *peali_mode_name(peali_mode mode)
{
    static const char *const names[PEALI_MODES] = {[PEALI_PULL] = "pull", [PEALI_PUSH] = "push", [PEALI_PLACE] = "place"};
    return names[mode];
}

peal_status peali_lower(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach, int rank, peali_program **out)
{
    driver d = {.w.reach = reach, .algo = algo, .problem = problem};
    peal_status status = lower_safely(&d);
    if (status == PEAL_OK)
        status = peali_pack(&d.w, within(reach, rank), algo, out);
    finish(&d);
    return status;
}

peal_status peali_lower_all(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach, peali_program **out)
{
    driver d = {.w.reach = reach, .algo = algo, .problem = problem};
    peal_status status = lower_safely(&d);
    for (int x = 0; x < reach->nranks; x++)
        out[x] = NULL;
    for (int x = 0; status == PEAL_OK && x < reach->nranks; x++)
        status = peali_pack(&d.w, x, algo, &out[x]);
    for (int x = 0; status != PEAL_OK && x < reach->nranks; x++)
        peali_program_free(&out[x]);
    finish(&d);
    return status;
}
