/*
 * Schedules from algorithms: each verb resolves its symbolic range against the view of the algorithm at work (which ranks, which
 * part of the vector, which slots and lanes), so that a called algorithm need not know that it was called.
 */
#include "sched/sched.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

enum { MOST_DEPTH = 16 }; /* of calls within calls: deeper goes who calls itself */

typedef struct span {
    int32_t buf, first, end;
} span;

__attribute__((format(printf, 2, 3))) static void refuse(peal_sched *s, const char *format, ...)
{
    if (s->error != PEAL_OK)
        return;
    s->error = PEAL_ERR_INVALID;
    int at = snprintf(s->why, sizeof s->why, "operation %d: ", (int)s->nops);
    va_list args;
    va_start(args, format);
    vsnprintf(s->why + at, sizeof s->why - (size_t)at, format, args);
    va_end(args);
}

static bool grow(peal_sched *s)
{
    if (s->nops < s->cap)
        return true;
    int32_t cap = s->cap ? 2 * s->cap : 64;
    peali_op *ops = peali_realloc(s->ops, (size_t)cap, sizeof *ops);
    if (!ops)
        return false;
    s->ops = ops;
    s->cap = cap;
    return true;
}

peal_status peali_sched_add(peal_sched *s, peali_op op)
{
    if (!grow(s))
        return PEAL_ERR_MEMORY;
    s->ops[s->nops++] = op;
    int32_t top = op.dst > op.src ? op.dst : op.src;
    if (top >= s->nbufs)
        s->nbufs = top + 1;
    if (op.lane >= s->nlanes)
        s->nlanes = op.lane + 1;
    return PEAL_OK;
}

static void push(peal_sched *s, peali_op op)
{
    if (op.first == op.end || peali_sched_add(s, op) == PEAL_OK)
        return;
    s->error = PEAL_ERR_MEMORY;
    snprintf(s->why, sizeof s->why, "operation %d: no memory", (int)s->nops);
}

static int32_t block_of(const struct peali_view *v, int32_t part)
{
    if (v->units == v->parts && v->units == v->count)
        return v->first + part;
    int64_t unit = (int64_t)v->units * part / v->parts;
    return v->first + (int32_t)(v->units == v->count ? unit : v->count * unit / v->units);
}

/* The buffer of R as the outermost algorithm numbers it; -1 and an error where there is none. */
static int32_t buffer_of(peal_sched *s, peal_range r)
{
    if (r.buf == PEAL_BUF_IN)
        return s->view.in;
    if (r.buf == PEAL_BUF_OUT)
        return PEAL_BUF_OUT;
    int64_t slot = (int64_t)r.buf - PEAL_BUF_TMP + s->view.slot;
    if (r.buf >= PEAL_BUF_TMP && slot < PEAL_SLOTS)
        return (int32_t)(PEAL_BUF_TMP + 2 * slot);
    if (r.buf >= PEAL_BUF_TMP)
        refuse(s, "scratch slot %lld of %d", (long long)slot, PEAL_SLOTS);
    else
        refuse(s, "buffer %d is not IN, OUT or scratch", r.buf);
    return -1;
}

/* The last of PARTS parts from PART on, which may be any numbers. */
static long long last(int part, int parts)
{
    return (long long)part + parts - 1;
}

/* R as one span, or as two where it wraps: the part before the wrap and the part after it. */
static int resolve(peal_sched *s, peal_range r, span out[2])
{
    const struct peali_view *v = &s->view;
    if (!v->set)
        refuse(s, "peal_blocks comes first");
    else if (r.part < 0 || r.part >= v->parts || r.parts < 0 || r.parts > v->parts)
        refuse(s, "parts %d to %lld of %d", r.part, last(r.part, r.parts), (int)v->parts);
    int32_t buf = s->error == PEAL_OK ? buffer_of(s, r) : -1;
    if (buf < 0)
        return 0;
    int64_t stop = (int64_t)r.part + r.parts;
    int32_t end = stop < v->parts ? (int32_t)stop : v->parts;
    out[0] = (span){buf, block_of(v, r.part), block_of(v, end)};
    if (stop <= v->parts)
        return 1;
    out[1] = (span){buf >= PEAL_BUF_TMP ? buf + 1 : buf, v->first, block_of(v, (int32_t)(stop - v->parts))};
    return 2;
}

static void message(peal_sched *s, int verb, int peer, peal_range r)
{
    span at[2];
    int n = resolve(s, r, at);
    if (n == 0)
        return;
    if (peer < 0 || peer >= s->view.nranks || peer == s->view.rank) {
        refuse(s, "%s rank %d: of %d ranks, this one is %d", verb == PEALI_SEND ? "send to" : "receive from", peer,
               (int)s->view.nranks, (int)s->view.rank);
        return;
    }
    peali_op op = {.verb = (uint8_t)verb, .lane = (uint8_t)s->view.lane_now, .dst = -1, .src = -1};
    op.peer = s->view.ranks ? s->view.ranks[peer] : peer;
    for (int i = 0; i < n; i++) {
        *(verb == PEALI_SEND ? &op.src : &op.dst) = (int16_t)at[i].buf;
        op.first = at[i].first;
        op.end = at[i].end;
        push(s, op);
    }
}

static void local(peal_sched *s, int verb, peal_range d, peal_range from)
{
    if (d.part != from.part || d.parts != from.parts)
        refuse(s, "parts %d to %lld meet parts %d to %lld", d.part, last(d.part, d.parts), from.part, last(from.part, from.parts));
    span to[2], src[2];
    int n = resolve(s, d, to);
    if (n == 0 || resolve(s, from, src) == 0)
        return;
    if (to[0].buf == src[0].buf) {
        if (verb == PEALI_REDUCE)
            refuse(s, "a buffer is reduced onto itself");
        return;
    }
    for (int i = 0; i < n; i++) {
        push(s, (peali_op){.verb = (uint8_t)verb, .lane = (uint8_t)s->view.lane_now, .dst = (int16_t)to[i].buf,
                           .src = (int16_t)src[i].buf, .peer = -1, .first = to[i].first, .end = to[i].end});
    }
}

void peal_blocks(peal_sched *s, int n)
{
    struct peali_view *v = &s->view;
    if (n < 1 || v->set) {
        refuse(s, v->set ? "peal_blocks is called twice" : "%d blocks", n);
        return;
    }
    v->set = true;
    v->parts = n;
    if (s->nblocks == 0)
        s->nblocks = v->count = v->units = n;
}

void peal_send(peal_sched *s, int peer, peal_range from)
{
    message(s, PEALI_SEND, peer, from);
}

void peal_recv(peal_sched *s, int peer, peal_range into)
{
    if (into.buf == PEAL_BUF_IN)
        refuse(s, "a message is received into IN");
    message(s, PEALI_RECV, peer, into);
}

void peal_copy(peal_sched *s, peal_range d, peal_range from)
{
    if (d.buf == PEAL_BUF_IN)
        refuse(s, "a copy goes into IN");
    local(s, PEALI_COPY, d, from);
}

void peal_reduce_into(peal_sched *s, peal_range d, peal_range from)
{
    if (d.buf == PEAL_BUF_IN)
        refuse(s, "a sum goes into IN");
    local(s, PEALI_REDUCE, d, from);
}

void peal_lane(peal_sched *s, int lane)
{
    if (lane < 0 || lane >= PEAL_LANES - s->view.lane)
        refuse(s, "lane %d of %d", lane, PEAL_LANES - (int)s->view.lane);
    else
        s->view.lane_now = s->view.lane + lane;
}

/* The called algorithm's ranks in the numbering of the outermost; NULL where they are the caller's own. */
static bool compose(peal_sched *s, const peal_call *call, int **ranks)
{
    *ranks = NULL;
    if (!call->ranks)
        return true;
    *ranks = peali_alloc((size_t)call->problem->nranks, sizeof **ranks);
    if (!*ranks) {
        s->error = PEAL_ERR_MEMORY;
        return false;
    }
    for (int i = 0; i < call->problem->nranks; i++)
        (*ranks)[i] = s->view.ranks ? s->view.ranks[call->ranks[i]] : call->ranks[i];
    return true;
}

/* Each of the call's ranks is one of the caller's, and this rank is where it says. */
static bool ranks_valid(peal_sched *s, const peal_call *c)
{
    const struct peali_view *v = &s->view;
    for (int i = 0; c->ranks && i < c->problem->nranks; i++)
        if (c->ranks[i] < 0 || c->ranks[i] >= v->nranks || (c->ranks[i] == v->rank) != (i == c->rank)) {
            refuse(s, "a call as rank %d whose rank %d is rank %d: of %d ranks, this one is %d", c->rank, i, c->ranks[i],
                   (int)v->nranks, (int)v->rank);
            return false;
        }
    return true;
}

static bool call_valid(peal_sched *s, const peal_call *c)
{
    const struct peali_view *v = &s->view;
    int nranks = c->problem ? c->problem->nranks : 0;
    if (!v->set)
        refuse(s, "peal_blocks comes first");
    else if (!c->algo || !c->problem)
        refuse(s, "a call without %s", c->algo ? "a problem" : "an algorithm");
    else if (v->depth == MOST_DEPTH)
        refuse(s, "calls of %s within calls, %d deep", c->algo->name, MOST_DEPTH);
    else if (c->part < 0 || c->parts < 0 || last(c->part, c->parts) >= v->parts)
        refuse(s, "a call on parts %d to %lld of %d", c->part, last(c->part, c->parts), (int)v->parts);
    else if (c->in != PEAL_BUF_IN && c->in != PEAL_BUF_OUT)
        refuse(s, "a call with buffer %d as its IN", c->in);
    else if (c->rank < 0 || c->rank >= nranks || (c->ranks ? nranks > v->nranks : nranks != v->nranks || c->rank != v->rank))
        refuse(s, "a call as rank %d of %d ranks", c->rank, nranks);
    else if (c->slot < 0 || c->slot > PEAL_SLOTS - v->slot || c->lane < 0 || c->lane >= PEAL_LANES - v->lane)
        refuse(s, "a call from slot %d and lane %d on", c->slot, c->lane);
    else if (c->grain < 0 || (c->grain && c->parts % c->grain))
        refuse(s, "a call on %d parts with grain %d", c->parts, c->grain);
    return s->error == PEAL_OK && ranks_valid(s, c);
}

void peal_run(peal_sched *s, const peal_call *call)
{
    int *ranks;
    if (!call_valid(s, call) || !compose(s, call, &ranks))
        return;
    struct peali_view outer = s->view;
    int32_t first = block_of(&outer, call->part), count = block_of(&outer, call->part + call->parts) - first;
    s->view = (struct peali_view){
        .ranks = ranks ? ranks : outer.ranks,
        .nranks = call->problem->nranks,
        .rank = call->rank,
        .first = first,
        .count = count,
        .units = call->grain ? call->parts / call->grain : count,
        .slot = outer.slot + call->slot,
        .lane = outer.lane + call->lane,
        .lane_now = outer.lane + call->lane,
        .in = call->in == PEAL_BUF_IN ? outer.in : PEAL_BUF_OUT,
        .depth = (int16_t)(outer.depth + 1),
    };
    call->algo->build(s, call->problem, call->rank);
    s->view = outer;
    peali_free(ranks);
}

peal_status peali_sched_build(const peal_algo *algo, const peal_problem *problem, int rank, peal_sched **out)
{
    peal_sched *s = peali_alloc(1, sizeof *s);
    if (!s)
        return PEAL_ERR_MEMORY;
    s->rank = rank;
    s->nranks = problem->nranks;
    s->nbufs = PEAL_BUF_TMP;
    s->nlanes = 1;
    s->view = (struct peali_view){.nranks = problem->nranks, .rank = rank};
    algo->build(s, problem, rank);
    if (s->nblocks == 0)
        refuse(s, "the algorithm never called peal_blocks");
    if (s->error == PEAL_OK) {
        *out = s;
        return PEAL_OK;
    }
    peal_status status = s->error;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, rank, "%s %s on %d ranks: %s", peal_kind_name(algo->kind), algo->name,
              problem->nranks, s->why);
    peali_sched_free(&s);
    return status;
}

void peali_sched_free(peal_sched **sched)
{
    if (*sched)
        peali_free((*sched)->ops);
    peali_free(*sched);
    *sched = NULL;
}

const peal_algo *peali_algo_find(peal_kind kind, const char *name)
{
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if ((*a)->kind == kind && strcmp((*a)->name, name) == 0)
            return *a;
    return NULL;
}

bool peali_algo_fits(const peal_algo *algo, const peal_problem *problem)
{
    return algo->kind == problem->kind && (!algo->fits || algo->fits(problem));
}
