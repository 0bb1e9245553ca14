/*
 * The runner. Slices run through the same program with their own cursor, requests and scratch; a message carries its lane and the
 * number of its slice, counted on through all calls, so slices may overtake each other without ever meeting the wrong receive.
 */
#include "exec/run.h"

#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
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
    bool *over;    /* per request: its message is over */
    peali_net_req *reqs;
} cursor;

struct peali_runner {
    peali_net *net;
    bool crowded, staged;
    int32_t me, nreach;
    peali_public **shown, *mine;
    int64_t *known; /* push: slices that each rank within reach is known to have left */
    peal_status failed;
    int aborted; /* relaxed: a flag that says stop, and orders nothing */
    const peali_plan *plan;
    const unsigned char *in;
    unsigned char *out;
    uint64_t sequence;
    uint64_t base; /* slices of all calls before this one */
    int32_t left;  /* slices that have not left this rank */
    bool started;  /* a message or instruction moved since the last pass */
    cursor *cursors;
    int32_t ncursors, nreqs, noperands; /* for how much there is room */
    size_t scratch_bytes, staging_bytes;
    bool *over;
    peali_net_req *reqs;
    unsigned char *scratch, *staging;
    void **dst;
    const void **src;
};

peal_status peali_runner_create(const peali_setting *setting, peali_runner **out)
{
    peali_runner *r = peali_alloc(1, sizeof *r);
    size_t n = (size_t)setting->nreach;
    peali_public **shown = peali_alloc(n, sizeof *shown);
    int64_t *known = peali_alloc(n, sizeof *known);
    if (!r || !shown || !known) {
        peali_free(r);
        peali_free(shown);
        peali_free(known);
        return PEAL_ERR_MEMORY;
    }
    memcpy(shown, setting->shown, n * sizeof *shown);
    *r = (peali_runner){.net = setting->net, .crowded = setting->crowded, .staged = setting->staged, .me = setting->me};
    r->nreach = setting->nreach;
    r->shown = shown;
    r->known = known;
    r->mine = shown[r->me];
    *out = r;
    return PEAL_OK;
}

static void drop_room(peali_runner *r)
{
    peali_free(r->cursors);
    peali_free(r->over);
    peali_free(r->reqs);
    peali_free(r->scratch);
    peali_free(r->staging);
    peali_free(r->dst);
    peali_free(r->src);
    r->cursors = NULL;
    r->over = NULL;
    r->reqs = NULL;
    r->scratch = r->staging = NULL;
    r->dst = NULL;
    r->src = NULL;
    r->ncursors = r->nreqs = r->noperands = 0;
    r->scratch_bytes = r->staging_bytes = 0;
}

void peali_runner_destroy(peali_runner **runner)
{
    if (*runner) {
        drop_room(*runner);
        for (int32_t x = 0; x < (*runner)->nreach; x++)
            peali_public_release((*runner)->shown[x]);
        peali_free((*runner)->shown);
        peali_free((*runner)->known);
    }
    peali_free(*runner);
    *runner = NULL;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

peal_status peali_runner_fit(peali_runner *r, const peali_plan *plan)
{
    size_t scratch = plan->scratch_bytes * (size_t)plan->job.window;
    size_t staging = r->staged ? 2 * plan->slice_bytes * (size_t)plan->job.window : 0;
    if (r->cursors && plan->job.window <= r->ncursors && plan->nreqs <= r->nreqs && scratch <= r->scratch_bytes &&
        staging <= r->staging_bytes && plan->most_operands <= r->noperands)
        return PEAL_OK;
    int32_t ncursors = most(r->ncursors, plan->job.window), nreqs = most(r->nreqs, plan->nreqs);
    int32_t noperands = most(r->noperands, plan->most_operands);
    scratch = largest(scratch, r->scratch_bytes);
    staging = largest(staging, r->staging_bytes);
    drop_room(r);
    r->cursors = peali_alloc((size_t)ncursors, sizeof *r->cursors);
    r->over = peali_alloc((size_t)ncursors * (size_t)nreqs, sizeof *r->over);
    r->reqs = peali_alloc((size_t)ncursors * (size_t)nreqs, sizeof *r->reqs);
    r->scratch = peali_alloc(scratch + 1, 1);
    r->staging = peali_alloc(staging + 1, 1);
    r->dst = peali_alloc((size_t)noperands, sizeof *r->dst);
    r->src = peali_alloc((size_t)noperands, sizeof *r->src);
    if (!r->cursors || !r->over || !r->reqs || !r->scratch || !r->staging || !r->dst || !r->src) {
        drop_room(r);
        return PEAL_ERR_MEMORY;
    }
    r->ncursors = ncursors;
    r->nreqs = nreqs;
    r->noperands = noperands;
    r->scratch_bytes = scratch;
    r->staging_bytes = staging;
    return PEAL_OK;
}

/*
 * Before enter's flag of slice 0, which releases it. A buffer that holds one part of the vector only (what a rank gives to an
 * allgather, or gets of a reduce-scatter) is shown as if the rest lay around it; nobody touches the rest.
 */
static void show_buffers(peali_runner *r, const peali_plan *plan)
{
    peal_kind kind = plan->job.algo->kind;
    size_t half = plan->slice_bytes * (size_t)plan->job.window;
    uintptr_t before = (uintptr_t)plan->program->rank * plan->job.count * plan->elem_bytes;
    r->in = (const unsigned char *)((uintptr_t)r->in - (kind == PEAL_ALLGATHER ? before : 0));
    r->out = (unsigned char *)((uintptr_t)r->out - (kind == PEAL_REDUCE_SCATTER ? before : 0));
    r->mine->tmp = (peali_window){r->scratch, plan->scratch_bytes, plan->job.window};
    r->mine->in = (peali_window){(unsigned char *)r->in, 0, 0}; /* only ever read */
    r->mine->out = (peali_window){r->out, 0, 0};
    if (r->staged) {
        r->mine->in = (peali_window){r->staging, plan->slice_bytes, plan->job.window};
        r->mine->out = (peali_window){r->staging + half, plan->slice_bytes, plan->job.window};
    }
}

void peali_run_start(peali_runner *r, const peali_plan *plan, const void *in, void *out, uint64_t sequence)
{
    r->plan = plan;
    r->in = in;
    r->out = out;
    r->sequence = sequence;
    r->left = plan->job.slices;
    show_buffers(r, plan);
    for (int32_t w = 0; w < plan->job.window; w++) {
        size_t at = (size_t)w * (size_t)plan->nreqs;
        r->cursors[w] = (cursor){w, 0, r->over + at, r->reqs + at};
    }
}

static uint64_t slice_number(const peali_runner *r, const cursor *c)
{
    return r->base + (uint64_t)c->slice;
}

static uint64_t *landing_flag(const peali_runner *r, const cursor *c, peali_loc loc)
{
    const peali_public *p = r->shown[loc.rank];
    return &p->land_flags[slice_number(r, c) % (uint64_t)p->areas * PEALI_REACH_SLOTS + (size_t)(-1 - loc.buf)];
}

/* Where span UNIT of operand LOC of instruction I lies. */
static unsigned char *address(const peali_runner *r, const cursor *c, const peali_instr *i, peali_loc loc, int32_t unit)
{
    const peali_public *p = r->shown[loc.rank];
    const peali_program *program = r->plan->program;
    if (loc.buf < 0) {
        int32_t slot = program->land_start[loc.rank] - 1 - loc.buf;
        size_t area = slice_number(r, c) % (uint64_t)p->areas * p->land_bytes;
        return p->land + area + r->plan->land_offset[slot] +
               peali_plan_span(r->plan, i, unit, c->slice, program->land_first[slot]).packed;
    }
    peali_span at = peali_plan_span(r->plan, i, unit, c->slice, loc.base);
    if (loc.buf >= PEAL_BUF_TMP)
        return p->tmp.at + (size_t)(c->slice % p->tmp.slices) * p->tmp.stride +
               r->plan->slot_offset[loc.buf - PEAL_BUF_TMP] + at.packed;
    const peali_window *w = loc.buf == PEAL_BUF_IN ? &p->in : &p->out;
    if (w->slices == 0)
        return w->at + at.offset;
    return w->at + (size_t)(c->slice % w->slices) * w->stride + at.packed;
}

static size_t length(const peali_runner *r, const cursor *c, const peali_instr *i, int32_t unit)
{
    return peali_plan_span(r->plan, i, unit, c->slice, i->first).bytes;
}

static void compute_unit(peali_runner *r, const cursor *c, const peali_instr *i, int32_t unit)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int ndst = 0;
    for (int k = 0; k < i->nsrc; k++)
        r->src[k] = address(r, c, i, locs[k], unit);
    for (int k = 0; k < i->ndst; k++) {
        r->dst[ndst] = address(r, c, i, locs[i->nsrc + k], unit);
        ndst += i->nsrc > 1 || r->dst[ndst] != r->src[0]; /* in place, a copy of IN to OUT is nothing */
    }
    if (ndst > 0)
        r->plan->reduce(r->dst, ndst, r->src, i->nsrc, length(r, c, i, unit) / r->plan->elem_bytes);
}

static void compute(peali_runner *r, const cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int32_t units = peali_plan_units(r->plan, i);
    for (int32_t u = 0; u < units; u++)
        compute_unit(r, c, i, u);
    /* Releases what was stored; landed() at the receiver acquires it. */
    for (int k = i->nsrc; k < i->nsrc + i->ndst; k++)
        if (locs[k].buf < 0)
            peali_store_release(landing_flag(r, c, locs[k]), slice_number(r, c) + 1);
}

/* Staged: enter fills this slice's staging, exit drains it. */
static void stage(peali_runner *r, const cursor *c, bool fill)
{
    if (!r->staged)
        return;
    const peali_window *w = fill ? &r->mine->in : &r->mine->out;
    unsigned char *packed = w->at + (size_t)(c->slice % w->slices) * w->stride;
    int32_t blocks[2];
    if (fill) {
        peali_plan_given(r->plan, blocks);
        peali_plan_pack(r->plan, blocks, c->slice, packed, r->in);
    } else {
        peali_plan_wanted(r->plan, blocks);
        peali_plan_unpack(r->plan, blocks, c->slice, packed, r->out);
    }
}

static int32_t first_req(const peali_plan *plan, int32_t instr)
{
    return plan->first_req ? plan->first_req[instr] : instr;
}

static peal_status message(peali_runner *r, cursor *c, const peali_instr *i)
{
    uint32_t slice = (uint32_t)slice_number(r, c) & ((1u << SLICE_BITS) - 1);
    uint32_t tag = (uint32_t)i->lane << SLICE_BITS | slice;
    peali_loc loc = r->plan->program->locs[i->locs];
    int32_t req = first_req(r->plan, c->pc), units = peali_plan_units(r->plan, i);
    peal_status status = PEAL_OK;
    for (int32_t u = 0; u < units && status == PEAL_OK; u++) {
        void *at = address(r, c, i, loc, u);
        size_t bytes = length(r, c, i, u);
        c->over[req + u] = false;
        if (i->kind == PEALI_I_SEND)
            status = r->net->send(r->net, i->peer, tag, at, bytes, &c->reqs[req + u]);
        else
            status = r->net->recv(r->net, i->peer, tag, at, bytes, &c->reqs[req + u]);
    }
    return status;
}

/* PEAL_OK where the message of instruction NO is over. */
static peal_status over(peali_runner *r, cursor *c, int32_t no)
{
    int32_t req = first_req(r->plan, no), units = peali_plan_units(r->plan, &r->plan->program->instrs[no]);
    for (int32_t u = req; u < req + units; u++) {
        if (c->over[u])
            continue;
        peal_status status = r->net->test(r->net, &c->reqs[u]);
        if (status != PEAL_OK)
            return status;
        c->over[u] = true;
    }
    return PEAL_OK;
}

/* PEAL_OK where all messages that the instruction waits for are over. */
static peal_status waited(peali_runner *r, cursor *c, const peali_instr *i)
{
    const peali_program *p = r->plan->program;
    const int32_t *waits = p->waits + i->waits;
    for (int32_t k = 0; k < i->nwaits; k++) {
        peal_status status = over(r, c, waits[k]);
        if (status != PEAL_OK)
            return status;
        const peali_instr *m = &p->instrs[waits[k]];
        peali_loc at = p->locs[m->locs];
        if (m->kind == PEALI_I_RECV && at.buf < 0)
            peali_store_release(landing_flag(r, c, at), slice_number(r, c) + 1);
    }
    return PEAL_OK;
}

/* Pull: have the other ranks come far enough? Acquires what raised() released. */
static bool awaited(const peali_runner *r, const cursor *c, const peali_instr *i)
{
    const peali_await *a = r->plan->program->awaits + i->awaits;
    for (int32_t k = 0; k < i->nawaits; k++)
        if (peali_load_acquire(&r->shown[a[k].rank]->flags[a[k].flag].value) < slice_number(r, c) + 1)
            return false;
    /* "Slices done" is a number, so they are done in order (LOWERING, "Waiting"). */
    return i->flag < 0 || c->slice == 0 || peali_load_relaxed(&r->mine->flags[i->flag].value) == slice_number(r, c);
}

/* Push: has everything landed that the instruction reads? Acquires what compute() released. */
static bool landed(const peali_runner *r, const cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    for (int k = 0; k < i->nsrc; k++)
        if (locs[k].buf < 0 && peali_load_acquire(landing_flag(r, c, locs[k])) != slice_number(r, c) + 1)
            return false;
    return true;
}

/* Push: have all ranks that this slice stores to left the slice that used the area before? (LOWERING, "Epochs and credits".) */
static bool credited(peali_runner *r, const cursor *c)
{
    int64_t need = (int64_t)slice_number(r, c) + 1 - r->mine->areas;
    for (int32_t x = 0; x < r->nreach && need > 0; x++) {
        if (!r->plan->program->stores_to[x] || r->known[x] >= need)
            continue;
        r->known[x] = (int64_t)peali_load_acquire(&r->shown[x]->left.value);
        if (r->known[x] < need)
            return false;
    }
    return true;
}

static void learn(peali_runner *r, const cursor *c)
{
    int64_t g = (int64_t)slice_number(r, c), sure = g - r->mine->areas / 2 + 1;
    sure = sure > (int64_t)r->base ? sure : (int64_t)r->base;
    for (int32_t x = 0; x < r->nreach; x++)
        if (r->plan->program->knows[x] && r->known[x] < sure)
            r->known[x] = sure;
}

static int32_t oldest(const peali_runner *r)
{
    int32_t least = 0;
    for (int32_t w = 1; w < r->plan->job.window; w++)
        if (r->cursors[w].slice < r->cursors[least].slice)
            least = w;
    return least;
}

static void leave(peali_runner *r, cursor *c)
{
    stage(r, c, false);
    bool push = r->plan->program->mode == PEALI_PUSH;
    if (push)
        learn(r, c);
    c->slice += r->plan->job.window;
    c->pc = 0;
    r->left--;
    int32_t first = most(0, r->cursors[oldest(r)].slice);
    first = first < r->plan->job.slices ? first : r->plan->job.slices;
    if (push) /* pairs with credited() */
        peali_store_release(&r->mine->left.value, r->base + (uint64_t)first);
}

static bool may_begin(peali_runner *r, const cursor *c, const peali_instr *i)
{
    bool push = r->plan->program->mode == PEALI_PUSH;
    if (push && i->kind == PEALI_I_ENTER && !credited(r, c))
        return false;
    return push ? landed(r, c, i) : awaited(r, c, i);
}

/* One instruction of C, if it can go on. */
static peal_status advance(peali_runner *r, cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    peal_status status = waited(r, c, i);
    if (status != PEAL_OK)
        return status;
    if (!may_begin(r, c, i))
        return PEAL_IN_PROGRESS;
    if (i->kind == PEALI_I_REDUCE)
        compute(r, c, i);
    else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV)
        status = message(r, c, i);
    else if (i->kind == PEALI_I_ENTER)
        stage(r, c, true);
    if (i->flag >= 0) /* pairs with awaited() */
        peali_store_release(&r->mine->flags[i->flag].value, slice_number(r, c) + 1);
    c->pc++;
    if (i->kind == PEALI_I_EXIT)
        leave(r, c);
    return status;
}

/* One pass: PEAL_OK where some cursor went on. The oldest slice in flight is served first, until it can go no further. */
static peal_status pass(peali_runner *r)
{
    int32_t window = r->plan->job.window, first = oldest(r);
    for (int32_t k = 0; k < window; k++) {
        cursor *c = &r->cursors[(first + k) % window];
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
        r->base += (uint64_t)r->plan->job.slices;
        r->plan = NULL;
    }
    return status;
}

static void describe_wait(const peali_runner *r, char *what, size_t bytes)
{
    const peali_program *p = r->plan->program;
    const cursor *c = &r->cursors[oldest(r)];
    snprintf(what, bytes, "delivery of its last messages");
    if (r->left == 0)
        return;
    const peali_instr *i = &p->instrs[c->pc];
    const int32_t *waits = p->waits + i->waits;
    int32_t k = 0;
    while (k < i->nwaits && c->over[first_req(r->plan, waits[k])])
        k++;
    const peali_instr *m = k < i->nwaits ? &p->instrs[waits[k]] : i;
    if (m != i)
        snprintf(what, bytes, "%zu bytes %s rank %d on lane %d, slice %d of %d, instruction %d of %d", length(r, c, m, 0),
                 m->kind == PEALI_I_SEND ? "to" : "from", (int)m->peer, m->lane, (int)c->slice, (int)r->plan->job.slices,
                 (int)waits[k], (int)p->ninstrs);
    else
        snprintf(what, bytes, "ranks of its host, slice %d of %d, instruction %d of %d", (int)c->slice, (int)r->plan->job.slices,
                 (int)c->pc, (int)p->ninstrs);
}

/* Says what the oldest slice waits for: the first message that is not over, ranks within reach, or the flush. */
static void report(const peali_runner *r, int64_t waited_ns)
{
    const peali_job *job = &r->plan->job;
    char what[160];
    describe_wait(r, what, sizeof what);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r->plan->program->rank,
              "%s number %llu (%s, count %zu, type %s, op %s) waits since %.1f s for %s", peal_kind_name(job->algo->kind),
              (unsigned long long)r->sequence, job->algo->name, job->count, peal_type_name(job->type), peal_op_name(job->op),
              (double)waited_ns * 1e-9, what);
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
        if (peali_load_relaxed(&r->aborted))
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
    peali_store_relaxed(&r->aborted, 1);
}
