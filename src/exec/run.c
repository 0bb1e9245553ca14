/*
 * The runner. Slices run through the same program with their own cursor, requests and scratch; a message carries its lane and the
 * number of its slice, counted on through all calls, so slices may overtake each other without ever meeting the wrong receive.
 */
#include "exec/run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

enum {
    SLICE_BITS = 16,      /* of the tag; with 6 bits of lane this is PEALI_NET_TAG_BITS */
    SPINS_ALONE = 2000,   /* passes without progress before a core is given away: about 50 us, beyond most waits of a collective */
    SPINS_CROWDED = 1,
    PASSES_A_PROGRESS = 64, /* the host library is driven every so many passes without progress (FACTS, "Progress") */
    PASSES_A_CLOCK = 1024,  /* and the deadline looked at */
};

typedef struct cursor {
    int32_t slice; /* number within the call; K or more: none left */
    int32_t pc;
    bool *over;    /* per instruction: its message is over */
    peali_net_req *reqs;
    unsigned char *scratch;
} cursor;

struct peali_runner {
    peali_net *net;
    bool crowded;
    peal_status failed;
    atomic_int aborted; /* relaxed: a flag that says stop, and orders nothing */
    const peali_plan *plan;
    const unsigned char *in;
    unsigned char *out;
    uint64_t sequence;
    uint32_t base; /* slices of all calls before this one */
    int32_t left;  /* slices that have not left this rank */
    bool started;  /* a message or instruction moved since the last pass */
    cursor *cursors;
    int32_t ncursors, ninstrs, noperands; /* for how much there is room */
    size_t scratch_bytes;
    bool *over;
    peali_net_req *reqs;
    unsigned char *scratch;
    void **dst;
    const void **src;
};

peal_status peali_runner_create(peali_net *net, bool crowded, peali_runner **out)
{
    peali_runner *r = peali_alloc(1, sizeof *r);
    if (!r)
        return PEAL_ERR_MEMORY;
    r->net = net;
    r->crowded = crowded;
    *out = r;
    return PEAL_OK;
}

static void drop_room(peali_runner *r)
{
    peali_free(r->cursors);
    peali_free(r->over);
    peali_free(r->reqs);
    peali_free(r->scratch);
    peali_free(r->dst);
    peali_free(r->src);
    r->cursors = NULL;
    r->over = NULL;
    r->reqs = NULL;
    r->scratch = NULL;
    r->dst = NULL;
    r->src = NULL;
    r->ncursors = r->ninstrs = r->noperands = 0;
    r->scratch_bytes = 0;
}

void peali_runner_destroy(peali_runner **runner)
{
    if (*runner)
        drop_room(*runner);
    peali_free(*runner);
    *runner = NULL;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

peal_status peali_runner_fit(peali_runner *r, const peali_plan *plan)
{
    size_t scratch = plan->scratch_bytes * (size_t)plan->job.window;
    if (r->cursors && plan->job.window <= r->ncursors && plan->program->ninstrs <= r->ninstrs && scratch <= r->scratch_bytes &&
        plan->most_operands <= r->noperands)
        return PEAL_OK;
    int32_t ncursors = most(r->ncursors, plan->job.window), ninstrs = most(r->ninstrs, plan->program->ninstrs);
    int32_t noperands = most(r->noperands, plan->most_operands);
    scratch = scratch > r->scratch_bytes ? scratch : r->scratch_bytes;
    drop_room(r);
    r->cursors = peali_alloc((size_t)ncursors, sizeof *r->cursors);
    r->over = peali_alloc((size_t)ncursors * (size_t)ninstrs, sizeof *r->over);
    r->reqs = peali_alloc((size_t)ncursors * (size_t)ninstrs, sizeof *r->reqs);
    r->scratch = peali_alloc(scratch + 64, 1);
    r->dst = peali_alloc((size_t)noperands, sizeof *r->dst);
    r->src = peali_alloc((size_t)noperands, sizeof *r->src);
    if (!r->cursors || !r->over || !r->reqs || !r->scratch || !r->dst || !r->src) {
        drop_room(r);
        return PEAL_ERR_MEMORY;
    }
    r->ncursors = ncursors;
    r->ninstrs = ninstrs;
    r->noperands = noperands;
    r->scratch_bytes = scratch;
    return PEAL_OK;
}

void peali_run_start(peali_runner *r, const peali_plan *plan, const void *in, void *out, uint64_t sequence)
{
    r->plan = plan;
    r->in = in;
    r->out = out;
    r->sequence = sequence;
    r->left = plan->job.slices;
    for (int32_t w = 0; w < plan->job.window; w++) {
        size_t at = (size_t)w * (size_t)plan->program->ninstrs;
        r->cursors[w] = (cursor){w, 0, r->over + at, r->reqs + at, NULL};
        r->cursors[w].scratch = r->scratch + (size_t)w * plan->scratch_bytes;
    }
}

static unsigned char *address(const peali_runner *r, const cursor *c, const peali_instr *i, peali_loc loc)
{
    size_t offset = peali_plan_offset(r->plan, i->first, c->slice);
    if (loc.buf == PEAL_BUF_IN)
        return (unsigned char *)r->in + offset; /* only ever read */
    if (loc.buf == PEAL_BUF_OUT)
        return r->out + offset;
    size_t within = offset - peali_plan_offset(r->plan, loc.base, c->slice);
    return c->scratch + r->plan->slot_offset[loc.buf - PEAL_BUF_TMP] + within;
}

static size_t length(const peali_runner *r, const cursor *c, const peali_instr *i)
{
    return peali_plan_offset(r->plan, i->end, c->slice) - peali_plan_offset(r->plan, i->first, c->slice);
}

static void compute(peali_runner *r, const cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int ndst = 0;
    for (int k = 0; k < i->nsrc; k++)
        r->src[k] = address(r, c, i, locs[k]);
    for (int k = 0; k < i->ndst; k++) {
        r->dst[ndst] = address(r, c, i, locs[i->nsrc + k]);
        ndst += i->nsrc > 1 || r->dst[ndst] != r->src[0]; /* in place, a copy of IN to OUT is nothing */
    }
    if (ndst > 0)
        r->plan->reduce(r->dst, ndst, r->src, i->nsrc, length(r, c, i) / r->plan->elem_bytes);
}

static peal_status message(peali_runner *r, cursor *c, const peali_instr *i)
{
    uint32_t slice = (r->base + (uint32_t)c->slice) & ((1u << SLICE_BITS) - 1);
    uint32_t tag = (uint32_t)i->lane << SLICE_BITS | slice;
    void *at = address(r, c, i, r->plan->program->locs[i->locs]);
    c->over[c->pc] = false;
    if (i->kind == PEALI_I_SEND)
        return r->net->send(r->net, i->peer, tag, at, length(r, c, i), &c->reqs[c->pc]);
    return r->net->recv(r->net, i->peer, tag, at, length(r, c, i), &c->reqs[c->pc]);
}

/* PEAL_OK where all messages that the instruction waits for are over. */
static peal_status waited(peali_runner *r, cursor *c, const peali_instr *i)
{
    const int32_t *waits = r->plan->program->waits + i->waits;
    for (int32_t k = 0; k < i->nwaits; k++) {
        if (c->over[waits[k]])
            continue;
        peal_status status = r->net->test(r->net, &c->reqs[waits[k]]);
        if (status != PEAL_OK)
            return status;
        c->over[waits[k]] = true;
    }
    return PEAL_OK;
}

static void leave(peali_runner *r, cursor *c)
{
    c->slice += r->plan->job.window;
    c->pc = 0;
    r->left--;
}

/* One instruction of C, if it can go on. */
static peal_status advance(peali_runner *r, cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    peal_status status = waited(r, c, i);
    if (status != PEAL_OK)
        return status;
    if (i->kind == PEALI_I_REDUCE)
        compute(r, c, i);
    else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV)
        status = message(r, c, i);
    c->pc++;
    if (i->kind == PEALI_I_EXIT)
        leave(r, c);
    return status;
}

/* One pass: PEAL_OK where some cursor went on. The oldest slice in flight is served first, until it can go no further. */
static peal_status pass(peali_runner *r)
{
    int32_t window = r->plan->job.window, oldest = 0;
    for (int32_t w = 1; w < window; w++)
        if (r->cursors[w].slice < r->cursors[oldest].slice)
            oldest = w;
    for (int32_t k = 0; k < window; k++) {
        cursor *c = &r->cursors[(oldest + k) % window];
        if (c->slice >= r->plan->job.slices)
            continue;
        peal_status status = advance(r, c);
        if (status != PEAL_IN_PROGRESS)
            return status;
    }
    return PEAL_IN_PROGRESS;
}

static peal_status fail(peali_runner *r, peal_status status)
{
    r->failed = status;
    r->plan = NULL;
    return status;
}

peal_status peali_run_step(peali_runner *r)
{
    if (r->failed != PEAL_OK)
        return r->failed;
    peal_status status = PEAL_OK;
    r->started = false;
    while (r->left > 0 && status == PEAL_OK) {
        status = pass(r);
        r->started |= status == PEAL_OK;
    }
    if (r->left == 0)
        status = r->net->flush(r->net);
    if (status < 0)
        return fail(r, status);
    if (status == PEAL_OK) {
        r->base += (uint32_t)r->plan->job.slices;
        r->plan = NULL;
    }
    return status;
}

/* Says what the oldest slice waits for: the first message that is not over, or the flush. */
static void report(peali_runner *r, int64_t waited_ns)
{
    const peali_program *p = r->plan->program;
    const peali_job *job = &r->plan->job;
    const cursor *c = &r->cursors[0];
    for (int32_t w = 1; w < job->window; w++)
        if (r->cursors[w].slice < c->slice)
            c = &r->cursors[w];
    char what[128] = "delivery of its last messages";
    if (r->left > 0) {
        const peali_instr *i = &p->instrs[c->pc];
        const int32_t *waits = p->waits + i->waits;
        int32_t k = 0;
        while (k < i->nwaits - 1 && c->over[waits[k]])
            k++;
        if (i->nwaits > 0) {
            const peali_instr *m = &p->instrs[waits[k]];
            snprintf(what, sizeof what, "%zu bytes %s rank %d on lane %d, slice %d of %d, instruction %d of %d", length(r, c, m),
                     m->kind == PEALI_I_SEND ? "to" : "from", (int)m->peer, m->lane, (int)c->slice, (int)job->slices,
                     (int)waits[k], (int)p->ninstrs);
        }
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, p->rank, "%s number %llu (%s, count %zu, type %s, op %s) waits since %.1f s for %s",
              peal_kind_name(job->algo->kind), (unsigned long long)r->sequence, job->algo->name, job->count,
              peal_type_name(job->type), peal_op_name(job->op), (double)waited_ns * 1e-9, what);
}

static peal_status check_deadline(peali_runner *r, int64_t since_ns)
{
    int64_t limit = peali_config_get()->timeout_ns, waited_ns = peali_clock_ns() - since_ns;
    if (limit == 0 || waited_ns < limit)
        return PEAL_OK;
    report(r, waited_ns);
    return fail(r, PEAL_ERR_TIMEOUT);
}

peal_status peali_run_wait(peali_runner *r)
{
    int64_t since_ns = 0;
    int spins = r->crowded ? SPINS_CROWDED : SPINS_ALONE;
    for (unsigned idle = 0;;) {
        peal_status status = peali_run_step(r);
        if (status != PEAL_IN_PROGRESS)
            return status;
        idle = r->started ? 0 : idle + 1;
        if (atomic_load_explicit(&r->aborted, memory_order_relaxed))
            return fail(r, PEAL_ERR_ABORTED);
        if (idle == 0 || since_ns == 0)
            since_ns = idle ? peali_clock_ns() : 0;
        if (idle % PASSES_A_PROGRESS == PASSES_A_PROGRESS - 1 && (status = r->net->progress(r->net)) < 0)
            return fail(r, status);
        if (idle % PASSES_A_CLOCK == PASSES_A_CLOCK - 1 && (status = check_deadline(r, since_ns)) < 0)
            return status;
        if (idle < (unsigned)spins)
            peali_clock_pause();
        else
            peali_clock_yield();
    }
}

void peali_runner_abort(peali_runner *r)
{
    atomic_store_explicit(&r->aborted, 1, memory_order_relaxed);
}
