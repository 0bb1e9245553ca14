/*
 * The loop. Slices run through the same program with their own cursor, requests and scratch; a message carries its lane and the
 * number of its slice, counted on through all calls, so slices may overtake each other without ever meeting the wrong receive.
 */
#include "exec/runner.h"

#include "base/atomics.h"
#include "base/clock.h"

/* For the timeline: instruction NO of C. */
static peali_moment moment_of(const peali_runner *r, const peali_cursor *c, int32_t no)
{
    const peali_instr *i = &r->plan->program->instrs[no];
    const bool sends = i->kind == PEALI_I_SEND, message = sends || i->kind == PEALI_I_RECV;
    peali_moment m = {.what = sends ? "send" : message ? "recv" : "reduce", .how = "", .slice = (int)c->slice,
                      .rank = peali_run_world(r, r->net->rank), .peer = message ? peali_run_world(r, i->peer) : -1};
    m.key = (uint64_t)(uintptr_t)r + (peali_run_slice(r, c) << 16) + (uint64_t)no;
    for (int32_t unit = 0; unit < (message ? peali_plan_units(r->plan, i) : i->nsrc > 0); unit++)
        m.bytes += peali_run_length(r, c, i, unit);
    return m;
}

static peal_status over(peali_runner *r, peali_cursor *c, int32_t no)
{
    bool *open = &c->open[peali_run_first_req(r->plan, no)];
    peal_status status = peali_run_over(r, c, no);
    if (*open && status != PEAL_IN_PROGRESS) {
        peali_timeline_end(moment_of(r, c, no));
        *open = false;
    }
    return status;
}

/* PEAL_OK where all messages that the instruction waits for are over. */
static peal_status waited(peali_runner *r, peali_cursor *c, const peali_instr *i)
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
            peali_run_tell(r, &peali_run_landing(r, c, at)->value, peali_run_stamp(r, peali_run_slice(r, c)));
    }
    return PEAL_OK;
}

/* Pull: PEAL_OK where rank X shows this call, or so late a one that it has forgotten this: it may leave while others are in it. */
static peal_status shares(peali_runner *r, int32_t x)
{
    peali_signature theirs;
    if (peali_load_relaxed(&r->shown[x]->front.call) != r->call) {
        const peali_signature_shown *then = &r->shown[x]->past[r->signature.sequence % PEALI_SIGNATURE_PAST];
        if (!peali_signature_look(then, &theirs) || theirs.sequence < r->signature.sequence)
            return PEAL_IN_PROGRESS;
        if (theirs.sequence == r->signature.sequence && !peali_signature_equal(&theirs, &r->signature))
            return PEAL_ERR_MISMATCH;
    }
    r->agreed[x] = r->call;
    return PEAL_OK;
}

/* Pull: have the other ranks come far enough, and in this call? Acquires what the raise of a flag released. */
peal_status peali_run_awaited(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_await *a = r->plan->program->awaits + i->awaits;
    peal_status status = PEAL_OK;
    for (int32_t k = 1; k < i->nawaits; k++) /* all at once take about as long as one */
        __builtin_prefetch(&r->shown[a[k].rank]->flags[a[k].flag]);
    for (int32_t k = 0; k < i->nawaits && status == PEAL_OK; k++)
        if (peali_load_acquire(&r->shown[a[k].rank]->flags[a[k].flag].value) < peali_run_slice(r, c) + 1)
            return PEAL_IN_PROGRESS;
        else if (r->agreed[a[k].rank] != r->call)
            status = shares(r, a[k].rank);
    /* "Slices done" is a number, so they are done in order (LOWERING, "Waiting"). */
    bool turn = i->flag < 0 || c->slice == 0 || peali_load_relaxed(&r->mine->flags[i->flag].value) == peali_run_slice(r, c);
    return status == PEAL_OK && !turn ? PEAL_IN_PROGRESS : status;
}

/* The stamp of another slice is overwritten in time, that of the same slice in another call never. */
peal_status peali_run_stranger(peali_runner *r, uint64_t there, uint64_t g)
{
    return (there ^ peali_run_stamp(r, g)) << (64 - PEALI_RUN_STAMP_BITS) ? PEAL_IN_PROGRESS : PEAL_ERR_MISMATCH;
}

/* Push: has everything landed that the instruction reads, and was it meant for this call? Acquires what compute() released. */
static peal_status landed(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    uint64_t g = peali_run_slice(r, c);
    for (int k = 1; k < i->nsrc; k++)
        if (locs[k].buf < 0)
            __builtin_prefetch(peali_run_landing(r, c, locs[k]));
    for (int k = 0; k < i->nsrc; k++) {
        if (locs[k].buf >= 0)
            continue;
        uint64_t there = peali_load_acquire(&peali_run_landing(r, c, locs[k])->value);
        if (!peali_run_stamped(r, there, g))
            return peali_run_stranger(r, there, g);
    }
    return PEAL_OK;
}

/* Push: who may read what this rank filled in a slice of this call. Of a call before that are all. */
static bool may_read(const peali_runner *r, int32_t x)
{
    return x != r->me && r->plan->program->stores_to[x];
}

/* Push: looks at how far all others are. All at once take about as long as one, and need no other look for as long. */
static void look_at_all(peali_runner *r)
{
    int64_t least = INT64_MAX;
    for (int32_t x = 0; x < r->nreach; x++)
        __builtin_prefetch(&r->shown[x]->left);
    for (int32_t x = 0; x < r->nreach; x++) {
        r->known[x] = (int64_t)peali_load_acquire(&r->shown[x]->left.value);
        least = x != r->me && r->known[x] < least ? r->known[x] : least;
    }
    r->sure = least > r->sure ? least : r->sure;
}

/*
 * Push: has everybody left the slice whose landings lie in the same area? This rank keeps what it filled then, for readers who need
 * not be those of today (LOWERING, "Epochs and credits", has them at home with the reader).
 */
bool peali_run_credited(peali_runner *r, const peali_cursor *c)
{
    int64_t need = (int64_t)peali_run_slice(r, c) + 1 - r->lands.areas;
    if (r->sure < need && need <= (int64_t)r->base)
        look_at_all(r);
    bool all = r->sure >= need || need > (int64_t)r->base;
    for (int32_t x = 0; x < r->nreach && all && r->sure < need; x++) {
        if (r->known[x] < need && may_read(r, x))
            r->known[x] = (int64_t)peali_load_acquire(&r->shown[x]->left.value);
        all = r->known[x] >= need || !may_read(r, x);
    }
    return all;
}

/*
 * A rank that only gives to others looks ahead when it has given, where it would keep them waiting before: a reduce of 16 bytes on
 * 16 ranks had each look at four of the others first, which took 0.2 of 1.2 us.
 */
void peali_run_look_ahead(peali_runner *r)
{
    const peali_program *p = r->plan->program;
    if (p->mode == PEALI_PUSH && r->sure < (int64_t)r->base + 1 - r->lands.areas && memchr(p->stores_to, 1, (size_t)p->nreach))
        look_at_all(r);
}

/* A slice of a closed program has ended, so all ranks have begun it, and left what its window leaves no room for. */
static void learn(peali_runner *r, const peali_cursor *c)
{
    int64_t g = (int64_t)peali_run_slice(r, c), least = g - r->lands.areas / 2 + 1;
    least = least > (int64_t)r->base ? least : (int64_t)r->base;
    if (r->plan->closed && least > r->sure)
        r->sure = least;
}

/* Pull: the first whose flag is not up. */
static int32_t flagless(const peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_await *a = r->plan->program->awaits + i->awaits;
    for (int32_t k = 0; k < i->nawaits; k++)
        if (peali_load_relaxed(&r->shown[a[k].rank]->flags[a[k].flag].value) < peali_run_slice(r, c) + 1)
            return a[k].rank;
    return -1;
}

/* Push: the first that has not filled its slot; before a slice, the first that has not left an older one. */
static int32_t late(const peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_program *p = r->plan->program;
    const peali_loc *locs = p->locs + i->locs;
    uint64_t g = peali_run_slice(r, c), stamp = peali_run_stamp(r, g) | PEALI_RUN_SEEN;
    const int64_t need = (int64_t)g + 1 - r->lands.areas;
    for (int k = 0; k < i->nsrc; k++)
        if (locs[k].buf < 0 && (peali_load_relaxed(&peali_run_landing(r, c, locs[k])->value) | PEALI_RUN_SEEN) != stamp)
            return p->land_home[peali_land_slot(p->land_start, locs[k])];
    for (int32_t x = 0; x < r->nreach && i->kind == PEALI_I_ENTER; x++) {
        const bool counts = need <= (int64_t)r->base ? x != r->me : may_read(r, x);
        if (counts && (int64_t)peali_load_relaxed(&r->shown[x]->left.value) < need)
            return x;
    }
    return -1;
}

int32_t peali_run_awaits(const peali_runner *r, const peali_cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    int32_t x = c->offered ? peali_run_helper(r) : r->plan->program->mode == PEALI_PULL ? flagless(r, c, i) : late(r, c, i);
    return x < 0 ? -1 : r->ranks[x];
}

int32_t peali_run_oldest(const peali_runner *r)
{
    int32_t least = 0;
    for (int32_t w = 1; w < r->plan->job.window; w++)
        if (r->cursors[w].slice < r->cursors[least].slice)
            least = w;
    return least;
}

void peali_run_leave(peali_runner *r, peali_cursor *c)
{
    peali_run_stage(r, c, false);
    unsigned char *out = r->out + (r->staged_out ? 0 : r->shift[r->me]);
    peali_plan_divide(r->plan, c->slice, out); /* nobody reads this slice of OUT any more */
    if (r->plan->program->mode == PEALI_PUSH)
        learn(r, c);
    c->slice += r->plan->job.window;
    c->area = peali_run_area(r, c->area, r->plan->job.window);
    c->pc = 0;
    r->left--;
    uint64_t first = (uint64_t)r->cursors[peali_run_oldest(r)].slice; /* in the end, the number of slices */
    peali_run_tell(r, &r->mine->left.value, r->base + first); /* pairs with credited() */
}

/* Of a broadcast, the root's IN; the others' buffers count for nothing. */
bool peali_run_tells(const peali_runner *r, peali_loc loc)
{
    return r->plan->job.algo->kind != PEAL_BROADCAST || loc.buf == PEAL_BUF_IN;
}

/* Ranks within reach show what they called; before this one touches a peer's memory, it looks. */
static peal_status agreed(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    if (peali_run_given_up(r))
        return PEAL_ERR_MISMATCH;
    if (c->slice > 0 || r->plan->program->mode == PEALI_PUSH)
        return PEAL_OK;
    const peali_loc *locs = r->plan->program->locs + i->locs;
    for (int32_t k = 0; k < i->nsrc + i->ndst; k++) {
        const peali_front *front = &r->shown[peali_run_owner(r, locs[k])]->front;
        if (peali_load_relaxed(&front->call) != r->call)
            return PEAL_ERR_MISMATCH;
        r->seen &= !(front->staged && peali_run_tells(r, locs[k]));
    }
    return PEAL_OK;
}

static peal_status may_begin(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    if (r->plan->program->mode == PEALI_PULL)
        return peali_run_awaited(r, c, i);
    if (i->kind == PEALI_I_ENTER && !peali_run_credited(r, c))
        return PEAL_IN_PROGRESS;
    return landed(r, c, i);
}

static void compute(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    const int64_t begin_ns = r->timed ? peali_clock_ns() : 0;
    const bool busy = r->helpers > 0;
    peali_run_compute(r, c, i);
    c->offered = !busy && r->helpers > 0;
    if (r->timed)
        peali_timeline_did(moment_of(r, c, c->pc), begin_ns);
}

static peal_status begin_message(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    if (r->timed)
        peali_timeline_begin(moment_of(r, c, c->pc));
    c->open[peali_run_first_req(r->plan, c->pc)] = r->timed;
    peali_run_settle(r);
    return peali_run_message(r, c, i);
}

/* Behind instruction I, which is over. */
static void go_on(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    c->offered = false;
    peali_run_offer_end(r);
    if (i->kind == PEALI_I_REDUCE)
        peali_run_stamp_slots(r, c, i);
    if (i->flag >= 0) /* pairs with peali_run_awaited() */
        peali_run_tell(r, &r->mine->flags[i->flag].value, peali_run_slice(r, c) + 1);
    c->pc++;
    if (i->kind == PEALI_I_EXIT)
        peali_run_leave(r, c);
}

/* One instruction of C, if it can go on. */
static peal_status advance(peali_runner *r, peali_cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    if (c->offered) {
        if (!peali_run_offer_is_over(r))
            return PEAL_IN_PROGRESS;
        go_on(r, c, i);
        return PEAL_OK;
    }
    peal_status status = waited(r, c, i);
    if (status == PEAL_OK)
        status = may_begin(r, c, i);
    if (status != PEAL_OK)
        return status;
    if (i->kind == PEALI_I_REDUCE && (status = agreed(r, c, i)) != PEAL_OK)
        return status;
    if (i->kind == PEALI_I_REDUCE)
        compute(r, c, i);
    else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV)
        status = begin_message(r, c, i);
    else if (i->kind == PEALI_I_ENTER)
        peali_run_stage(r, c, true);
    if (!c->offered)
        go_on(r, c, i);
    return status;
}

/* One pass: PEAL_OK where some cursor went on. The oldest slice in flight is served first, until it can go no further. */
static peal_status pass(peali_runner *r)
{
    int32_t window = r->plan->job.window, first = peali_run_oldest(r);
    for (int32_t k = 0; k < window; k++) {
        peali_cursor *c = &r->cursors[(first + k) % window];
        if (c->slice >= r->plan->job.slices)
            continue;
        peal_status status = advance(r, c);
        if (status != PEAL_IN_PROGRESS)
            return status;
    }
    return PEAL_IN_PROGRESS;
}

peal_status peali_run_advance(peali_runner *r)
{
    peal_status status = PEAL_OK;
    r->moved = false;
    if (r->plan->small) {
        status = peali_small_advance(r);
        peali_run_settle(r);
        return status;
    }
    while (r->left > 0 && status == PEAL_OK) {
        status = pass(r);
        if (status != PEAL_IN_PROGRESS)
            r->looked_again = false;
        else if (peali_run_help(r))
            status = PEAL_OK;
        r->moved |= status == PEAL_OK;
    }
    peali_run_settle(r);
    if (status == PEAL_IN_PROGRESS)
        status = peali_run_hear(r);
    if (r->left == 0)
        status = r->net->flush(r->net);
    if (status == PEAL_OK && r->plan->trial)
        peali_trial_tell(r->plan->trial, r->net == r->courier, peali_clock_ns() - r->began_ns);
    return status;
}
