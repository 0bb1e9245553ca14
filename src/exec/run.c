/*
 * The loop. Slices run through the same program with their own cursor, requests and scratch; a message carries its lane and the
 * number of its slice, counted on through all calls, so slices may overtake each other without ever meeting the wrong receive.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* PEAL_OK where all messages that the instruction waits for are over. */
static peal_status waited(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    const peali_program *p = r->plan->program;
    const int32_t *waits = p->waits + i->waits;
    for (int32_t k = 0; k < i->nwaits; k++) {
        peal_status status = peali_run_over(r, c, waits[k]);
        if (status != PEAL_OK)
            return status;
        const peali_instr *m = &p->instrs[waits[k]];
        peali_loc at = p->locs[m->locs];
        if (m->kind == PEALI_I_RECV && at.buf < 0)
            peali_store_release(peali_run_landing_flag(r, c, at), peali_run_slice(r, c) + 1);
    }
    return PEAL_OK;
}

/* Pull: have the other ranks come far enough? Acquires what raised() released. */
static bool awaited(const peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_await *a = r->plan->program->awaits + i->awaits;
    for (int32_t k = 0; k < i->nawaits; k++)
        if (peali_load_acquire(&r->shown[a[k].rank]->flags[a[k].flag].value) < peali_run_slice(r, c) + 1)
            return false;
    /* "Slices done" is a number, so they are done in order (LOWERING, "Waiting"). */
    return i->flag < 0 || c->slice == 0 || peali_load_relaxed(&r->mine->flags[i->flag].value) == peali_run_slice(r, c);
}

/* Push: has everything landed that the instruction reads? Acquires what compute() released. */
static bool landed(const peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    for (int k = 0; k < i->nsrc; k++)
        if (locs[k].buf < 0 && peali_load_acquire(peali_run_landing_flag(r, c, locs[k])) != peali_run_slice(r, c) + 1)
            return false;
    return true;
}

/* Push: have all ranks that this slice stores to left the slice that used the area before? (LOWERING, "Epochs and credits".) */
static bool credited(peali_runner *r, const peali_cursor *c)
{
    int64_t need = (int64_t)peali_run_slice(r, c) + 1 - r->mine->areas;
    for (int32_t x = 0; x < r->nreach && need > 0; x++) {
        if (!r->plan->program->stores_to[x] || r->known[x] >= need)
            continue;
        r->known[x] = (int64_t)peali_load_acquire(&r->shown[x]->left.value);
        if (r->known[x] < need)
            return false;
    }
    return true;
}

static void learn(peali_runner *r, const peali_cursor *c)
{
    int64_t g = (int64_t)peali_run_slice(r, c), sure = g - r->mine->areas / 2 + 1;
    sure = sure > (int64_t)r->base ? sure : (int64_t)r->base;
    for (int32_t x = 0; x < r->nreach; x++)
        if (r->plan->program->knows[x] && r->known[x] < sure)
            r->known[x] = sure;
}

int32_t peali_run_oldest(const peali_runner *r)
{
    int32_t least = 0;
    for (int32_t w = 1; w < r->plan->job.window; w++)
        if (r->cursors[w].slice < r->cursors[least].slice)
            least = w;
    return least;
}

static void leave(peali_runner *r, peali_cursor *c)
{
    peali_run_stage(r, c, false);
    bool push = r->plan->program->mode == PEALI_PUSH;
    if (push)
        learn(r, c);
    c->slice += r->plan->job.window;
    c->pc = 0;
    r->left--;
    int32_t first = most(0, r->cursors[peali_run_oldest(r)].slice);
    first = first < r->plan->job.slices ? first : r->plan->job.slices;
    if (push) /* pairs with credited() */
        peali_store_release(&r->mine->left.value, r->base + (uint64_t)first);
}

static bool calls_the_same(peali_runner *r, int32_t x)
{
    uint64_t words[PEALI_REACH_CALL];
    for (int k = 0; k < PEALI_REACH_CALL; k++)
        words[k] = peali_load_relaxed(&r->shown[x]->call[k]);
    memcpy(&r->theirs, words, sizeof words);
    return peali_signature_equal(&r->theirs, &r->signature);
}

/* Ranks within reach show what they called; before this one touches a peer's memory, it looks. */
static peal_status agreed(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    if (c->slice > 0 || r->plan->program->mode == PEALI_PUSH)
        return PEAL_OK;
    const peali_loc *locs = r->plan->program->locs + i->locs;
    for (int32_t k = 0; k < i->nsrc + i->ndst; k++)
        if (locs[k].rank != r->me && !calls_the_same(r, locs[k].rank)) {
            r->dissenter = r->ranks[locs[k].rank];
            return PEAL_ERR_MISMATCH;
        }
    return PEAL_OK;
}

static bool may_begin(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    bool push = r->plan->program->mode == PEALI_PUSH;
    if (push && i->kind == PEALI_I_ENTER && !credited(r, c))
        return false;
    return push ? landed(r, c, i) : awaited(r, c, i);
}

/* One instruction of C, if it can go on. */
static peal_status advance(peali_runner *r, peali_cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    peal_status status = waited(r, c, i);
    if (status != PEAL_OK)
        return status;
    if (!may_begin(r, c, i))
        return PEAL_IN_PROGRESS;
    if (i->kind == PEALI_I_REDUCE && (status = agreed(r, c, i)) != PEAL_OK)
        return status;
    if (i->kind == PEALI_I_REDUCE)
        peali_run_compute(r, c, i);
    else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV)
        status = peali_run_message(r, c, i);
    else if (i->kind == PEALI_I_ENTER)
        peali_run_stage(r, c, true);
    if (i->flag >= 0) /* pairs with awaited() */
        peali_store_release(&r->mine->flags[i->flag].value, peali_run_slice(r, c) + 1);
    c->pc++;
    if (i->kind == PEALI_I_EXIT)
        leave(r, c);
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
    while (r->left > 0 && status == PEAL_OK) {
        status = pass(r);
        r->moved |= status == PEAL_OK;
    }
    return r->left == 0 ? r->net->flush(r->net) : status;
}
