/*
 * Lowering: the operations of all ranks within reach are taken in one fixed order that keeps each rank's list order, fused, emitted,
 * and packed into one program a rank. Source: LOWERING.
 */
#include "lower/work.h"

#include <string.h>

#include "base/log.h"

void *peali_work_get(peali_work *w, size_t count, size_t size)
{
    void *p = peali_arena_get(&w->arena, count ? count : 1, size);
    if (!p)
        w->failed = true;
    return p;
}

void peali_work_push(peali_work *w, peali_vec *v, void *what)
{
    if (v->n == v->cap) {
        int32_t cap = v->cap ? 2 * v->cap : 16;
        void **at = peali_work_get(w, (size_t)cap, sizeof *at);
        if (!at)
            return;
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
    if (!l)
        return;
    *l = (peali_link){what, *list};
    *list = l;
}

/* One operation as the driver sees it. */
typedef struct step {
    int32_t peer;  /* index of its peer within reach; -1: out of reach, or local */
    int32_t match; /* operation number of its other end, within reach */
    bool done;
    bool dead;     /* reads a scratch buffer for the last time before it is overwritten */
} step;

typedef struct driver {
    peali_work w;
    const peal_algo *algo;
    const peal_problem *problem;
    step **steps;    /* per rank within reach, per operation */
    int32_t *at;     /* per rank: the next operation */
    peali_vec *open; /* per rank: operations that sent and were not received yet */
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

static peal_status build(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    w->scheds = peali_work_get(w, (size_t)n, sizeof *w->scheds);
    d->steps = peali_work_get(w, (size_t)n, sizeof *d->steps);
    d->at = peali_work_get(w, (size_t)n, sizeof *d->at);
    d->open = peali_work_get(w, (size_t)n, sizeof *d->open);
    w->code = peali_work_get(w, (size_t)n, sizeof *w->code);
    if (w->failed)
        return PEAL_ERR_MEMORY;
    for (int x = 0; x < n; x++) {
        peal_status status = peali_sched_build(d->algo, d->problem, w->reach->ranks[x], &w->scheds[x]);
        if (status != PEAL_OK)
            return status;
        d->steps[x] = peali_work_get(w, (size_t)w->scheds[x]->nops, sizeof **d->steps);
        if (!d->steps[x])
            return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

/* For each operation that reads scratch: is it the last to do so before the buffer is overwritten? */
static void find_dead(driver *d, int x)
{
    const peal_sched *s = d->w.scheds[x];
    bool *live = peali_work_get(&d->w, (size_t)s->nbufs, sizeof *live);
    for (int32_t i = s->nops - 1; live && i >= 0; i--) {
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
    if (!next)
        return PEAL_ERR_MEMORY;
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

static peal_status prepare(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    int32_t nbufs = PEAL_BUF_TMP;
    for (int x = 0; x < n; x++) {
        peal_status status = match_from(d, x);
        if (status != PEAL_OK)
            return status;
        find_dead(d, x);
        if (w->scheds[x]->nbufs > nbufs)
            nbufs = w->scheds[x]->nbufs;
    }
    peal_status status = peali_cuts_make((const peal_sched *const *)w->scheds, n, &w->cuts);
    w->npieces = w->cuts.n > 0 ? w->cuts.n - 1 : 0;
    w->ncells = w->npieces + nbufs - PEAL_BUF_TMP;
    w->cells = peali_work_get(w, (size_t)n * (size_t)w->ncells, sizeof *w->cells);
    return status == PEAL_OK && w->failed ? PEAL_ERR_MEMORY : status;
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

static peali_loc loc(driver *d, int x, int buf, const peali_op *op)
{
    int32_t base = buf >= PEAL_BUF_TMP ? peali_cuts_find(&d->w.cuts, op->first) : 0;
    return (peali_loc){(int16_t)x, (int16_t)buf, base};
}

static void out_of_reach(driver *d, int x, const peali_op *op, int32_t first, int32_t end)
{
    peali_work *w = &d->w;
    bool sends = op->verb == PEALI_SEND;
    peali_loc *at = peali_work_get(w, 1, sizeof *at);
    if (!at)
        return;
    *at = loc(d, x, sends ? op->src : op->dst, op);
    if (sends)
        *at = peali_fuse_source(w, x, *at, first, end);
    else
        peali_fuse_overwrite(w, *at, first, end);
    peali_instr i = {.kind = sends ? PEALI_I_SEND : PEALI_I_RECV, .lane = op->lane, .peer = op->peer, .flag = -1};
    i.nsrc = sends;
    i.ndst = !sends;
    i.first = first;
    i.end = end;
    peali_emit(w, x, i, at);
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

static void take(driver *d, int x, int32_t i)
{
    peali_work *w = &d->w;
    const peali_op *op = &w->scheds[x]->ops[i];
    step *s = &d->steps[x][i];
    s->done = true;
    peali_move m = {.rank = x, .from = x, .dead = s->dead};
    m.first = peali_cuts_find(&w->cuts, op->first);
    m.end = peali_cuts_find(&w->cuts, op->end);
    if (is_message(op) && s->peer < 0) {
        out_of_reach(d, x, op, m.first, m.end);
        return;
    }
    if (op->verb == PEALI_SEND) {
        peali_work_push(w, &d->open[x], (void *)op);
        return;
    }
    m.d = loc(d, x, op->dst, op);
    if (op->verb == PEALI_RECV) {
        const peali_op *send = &w->scheds[s->peer]->ops[s->match];
        m.from = s->peer;
        m.s = loc(d, s->peer, send->src, send);
        received(d, s->peer, send);
    } else {
        m.s = loc(d, x, op->src, op);
    }
    if (op->verb == PEALI_REDUCE)
        peali_fuse_reduce(w, &m);
    else
        peali_fuse_move(w, &m);
}

static peal_status drive(driver *d)
{
    peali_work *w = &d->w;
    int n = w->reach->nranks;
    for (int x = 0; x < n; x++)
        peali_emit(w, x, (peali_instr){.kind = PEALI_I_ENTER, .peer = -1, .flag = -1}, NULL);
    for (bool moved = true; moved && !w->failed;) {
        moved = false;
        for (int x = 0; x < n; x++)
            while (d->at[x] < w->scheds[x]->nops && ready(d, x, d->at[x]) && !w->failed) {
                take(d, x, d->at[x]++);
                moved = true;
            }
    }
    for (int x = 0; x < n && !w->failed; x++)
        if (d->at[x] < w->scheds[x]->nops) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, w->scheds[x]->rank, "%s %s: operation %d never becomes ready",
                      peal_kind_name(d->algo->kind), d->algo->name, (int)d->at[x]);
            return PEAL_ERR_INVALID;
        }
    peali_fuse_finish(w);
    for (int x = 0; x < n; x++)
        peali_emit(w, x, (peali_instr){.kind = PEALI_I_EXIT, .peer = -1, .flag = -1}, NULL);
    return w->failed ? PEAL_ERR_MEMORY : PEAL_OK;
}

static void finish(driver *d)
{
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
    if (status == PEAL_OK)
        status = drive(d);
    return status;
}

peal_status peali_lower(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach, int rank, peali_program **out)
{
    driver d = {.w.reach = reach, .algo = algo, .problem = problem};
    peal_status status = lower(&d);
    if (status == PEAL_OK)
        status = peali_pack(&d.w, within(reach, rank), algo, out);
    finish(&d);
    return status;
}

peal_status peali_lower_all(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach, peali_program **out)
{
    driver d = {.w.reach = reach, .algo = algo, .problem = problem};
    peal_status status = lower(&d);
    for (int x = 0; x < reach->nranks; x++)
        out[x] = NULL;
    for (int x = 0; status == PEAL_OK && x < reach->nranks; x++)
        status = peali_pack(&d.w, x, algo, &out[x]);
    for (int x = 0; status != PEAL_OK && x < reach->nranks; x++)
        peali_program_free(&out[x]);
    finish(&d);
    return status;
}
