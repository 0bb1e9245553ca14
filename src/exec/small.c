/*
 * Small calls: one slice, pushed, no message. Where every operand lies is found once, when the plan is made, for each landing area;
 * a call is then a few stores to peers' lines and a few loads of its own. The general loop does the same, and takes several times
 * as long to find out what to do as the data takes to come.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"

enum { SPINS = 64 }; /* looks at a line before the caller may do something else: about 100 ns */

/* What an operand's place is relative to: nothing, or a buffer of this call. */
enum { BASE_NONE, BASE_IN, BASE_OUT, BASE_TMP, BASES };

/* One operand: the data, and the line whose value is its stamp, or NULL. */
typedef struct operand {
    uintptr_t at;
    peali_line *line;
    int base;
    bool alone; /* a landing beside its line, which one rank alone reads */
} operand;

/* What of an instruction matters here. Slots that it fills are one place (compute.c), so that is one destination. */
typedef struct action {
    uint8_t kind;
    bool takes; /* copies to OUT what nobody reads there */
    uint16_t nsrc, ndst;
    int32_t operands; /* the first; sources, then destinations */
    size_t bytes, count;
} action;

struct peali_small {
    action *actions;
    operand *operands; /* per landing area */
    int32_t nactions, noperands;
};

static bool fits(const peali_runner *r, const peali_plan *plan)
{
    return plan->program->mode == PEALI_PUSH && plan->job.slices == 1 && plan->nmessages == 0 && r->lands.areas > 0;
}

static operand resolve(const peali_runner *r, const peali_cursor *c, const peali_instr *i, peali_loc loc)
{
    if (loc.buf < 0)
        return (operand){(uintptr_t)peali_run_address(r, c, i, loc, 0), peali_run_landing(r, c, loc), BASE_NONE,
                         r->plan->alone[peali_land_slot(r->plan->program->land_start, loc)]};
    peali_span at = peali_plan_span(r->plan, i, 0, 0, loc.base);
    if (loc.buf >= PEAL_BUF_TMP)
        return (operand){r->plan->slot_offset[loc.buf - PEAL_BUF_TMP] + at.packed, NULL, BASE_TMP, false};
    return (operand){at.offset, NULL, loc.buf == PEAL_BUF_IN ? BASE_IN : BASE_OUT, false};
}

static bool takes(const peali_instr *i, const peali_loc *locs)
{
    return i->nsrc == 1 && i->ndst == 1 && !i->reread && locs[1].buf == PEAL_BUF_OUT;
}

static void note(const peali_runner *r, peali_small *small)
{
    const peali_program *p = r->plan->program;
    peali_cursor c = {0};
    for (; small->nactions < p->ninstrs; small->nactions++) {
        const peali_instr *i = &p->instrs[small->nactions];
        action *a = &small->actions[small->nactions];
        size_t bytes = i->nsrc > 0 ? peali_run_length(r, &c, i, 0) : 0;
        *a = (action){i->kind, takes(i, p->locs + i->locs), i->nsrc, 0, small->noperands, bytes, bytes / r->plan->elem_bytes};
        bool filled = false;
        for (int32_t k = i->locs + i->nsrc; k < i->locs + i->nsrc + i->ndst; k++) {
            a->ndst += p->locs[k].buf >= 0 || !filled;
            filled |= p->locs[k].buf < 0;
        }
        small->noperands += a->nsrc + a->ndst;
    }
}

static void resolve_area(const peali_runner *r, int32_t area, peali_small *small)
{
    const peali_program *p = r->plan->program;
    peali_cursor c = {.area = area};
    operand *o = small->operands + area * small->noperands;
    for (int32_t n = 0; n < p->ninstrs; n++) {
        const peali_instr *i = &p->instrs[n];
        bool filled = false;
        for (int32_t k = 0; k < i->nsrc + i->ndst; k++) {
            peali_loc loc = p->locs[i->locs + k];
            if (k < i->nsrc || loc.buf >= 0 || !filled)
                *o++ = resolve(r, &c, i, loc);
            filled |= k >= i->nsrc && loc.buf < 0;
        }
    }
}

static bool make(const peali_runner *r, peali_arena *arena, peali_small *small)
{
    small->actions = peali_arena_get(arena, (size_t)r->plan->program->ninstrs, sizeof *small->actions);
    if (!small->actions)
        return false;
    note(r, small);
    small->operands = peali_arena_get(arena, (size_t)(r->lands.areas * small->noperands), sizeof *small->operands);
    for (int32_t area = 0; small->operands && area < r->lands.areas; area++)
        resolve_area(r, area, small);
    return small->operands != NULL;
}

peal_status peali_small_make(peali_runner *r, peali_plan *plan)
{
    if (!fits(r, plan))
        return PEAL_OK;
    peali_small *small = peali_arena_get(&plan->arena, 1, sizeof *small);
    const peali_plan *running = r->plan;
    r->plan = plan;
    bool ok = small && make(r, &plan->arena, small);
    r->plan = running;
    plan->small = ok ? small : NULL;
    return ok ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* Acquires what compute() of the writer released. The lines are asked for all at once: each takes about as long as all. */
static peal_status arrived(peali_runner *r, const operand *from, int32_t n)
{
    for (int32_t k = 1; k < n; k++)
        if (from[k].line)
            __builtin_prefetch(from[k].line);
    const int most = peali_run_crowded(r) ? 1 : SPINS;
    for (int32_t k = 0; k < n; k++) {
        if (!from[k].line)
            continue;
        int spins = most;
        uint64_t there = peali_load_acquire(&from[k].line->value);
        while (!peali_run_stamped(r, there, r->base) && --spins > 0)
            there = peali_load_acquire(&from[k].line->value);
        if (spins == 0)
            return peali_run_stranger(r, there, r->base);
    }
    return PEAL_OK;
}

static void place(const peali_runner *r, const operand *o, int n, void **at)
{
    uintptr_t bases[BASES] = {0, r->mine->front.in, (uintptr_t)r->out, (uintptr_t)r->scratch};
    for (int k = 0; k < n; k++)
        at[k] = (void *)(o[k].at + bases[o[k].base]);
}

/* The sizes of one element, by far the most frequent, need no call. What only stays where it is may be read-only. */
static void copy(void *to, const void *from, size_t bytes)
{
    if (to == from)
        return;
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, bytes);
}

static void compute(peali_runner *r, const action *a, const operand *o)
{
    const operand *to = o + a->nsrc;
    place(r, o, a->nsrc, (void **)r->src);
    place(r, to, a->ndst, r->dst);
    bool past = a->takes && r->mine->front.past;
    if (a->nsrc > 1 || past)
        r->plan->reduce(r->dst, a->ndst, r->src, a->nsrc, a->count, past);
    for (int k = 0; k < a->ndst; k++) {
        if (a->nsrc == 1 && !past)
            copy(r->dst[k], r->src[0], a->bytes);
        if (to[k].line)
            peali_store_release(&to[k].line->value, peali_run_stamp(r, r->base)); /* pairs with arrived() */
    }
    for (int k = 0; k < a->nsrc && r->plan->takes_over; k++)
        if (o[k].alone)
            peali_run_take_over(r->src[k], a->bytes);
}

peal_status peali_small_advance(peali_runner *r)
{
    const peali_small *small = r->plan->small;
    peali_cursor *c = &r->cursors[0];
    const operand *operands = small->operands + c->area * small->noperands;
    for (; c->pc < small->nactions; c->pc++, r->moved = true) {
        const action *a = &small->actions[c->pc];
        const operand *o = operands + a->operands;
        if (a->kind == PEALI_I_ENTER && !peali_run_credited(r, c))
            return PEAL_IN_PROGRESS;
        if (a->kind == PEALI_I_ENTER)
            peali_run_stage(r, c, true);
        peal_status status = arrived(r, o, a->nsrc);
        if (status != PEAL_OK)
            return status;
        if (a->kind == PEALI_I_REDUCE)
            compute(r, a, o);
    }
    peali_run_leave(r, c);
    return PEAL_OK;
}
