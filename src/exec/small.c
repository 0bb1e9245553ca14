/*
 * Small calls: one slice, and no message. Where every operand lies is found once, when the plan is made: pushed, for each landing
 * area; pulled, from where each rank's buffers begin. A call is then a few loads and stores of lines, and the sums. The general
 * loop does the same, and takes several times as long to find out what to do as the data takes to come.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"

enum {
    SPINS = 64, /* looks at a line before the caller may do something else: about 100 ns */
    FEW = 3,    /* readers */
    MOST_ASKED = 64 /* lines at a call's begin: of many ranks there are thousands, and more help none of 8 and 16 */
};

/* What an operand's place is relative to: nothing, or a buffer of this call. */
enum { BASE_NONE, BASE_IN, BASE_OUT, BASE_TMP, BASES };

/* One operand: the data, and the line whose value is its stamp, or NULL. */
typedef struct operand {
    uintptr_t at;
    peali_line *line;
    int32_t owner; /* pull: whose buffer it is, among the ranks within reach */
    uint8_t base;
    bool alone;    /* a landing beside its line, which one rank alone reads */
    bool few;      /* a landing that few read */
    bool home;     /* pull: even where its buffer is staged, where the user has it */
    bool tells;    /* pull: whether its owner's buffers are staged counts */
} operand;

/* What of an instruction matters here. Slots that it fills are one place (compute.c), so that is one destination. */
typedef struct action {
    uint8_t kind;
    bool takes;     /* push: copies to OUT what nobody reads there */
    bool waits;     /* push: for what is to land */
    uint16_t nsrc, ndst;
    int32_t flag;
    int32_t operands; /* the first; sources, then destinations */
    size_t bytes;
} action;

struct peali_small {
    action *actions;
    operand *operands;    /* per landing area, */
    unsigned char **asks; /* and lines that a call stores to before it waits for any */
    int32_t nactions, noperands, nasks;
    bool pulls;
};

static bool fits(const peali_runner *r, const peali_plan *plan)
{
    const peali_program *p = plan->program;
    const bool pushes = p->mode == PEALI_PUSH && r->lands.areas > 0, pulls = p->mode == PEALI_PULL && p->nreach > 1 && !r->timed;
    return (pushes || pulls) && plan->job.slices == 1 && plan->nmessages == 0 && !plan->helps;
}

static operand resolve(const peali_runner *r, const peali_cursor *c, const peali_instr *i, peali_loc loc)
{
    if (loc.buf < 0) {
        const int32_t slot = peali_land_slot(r->plan->program->land_start, loc);
        return (operand){.at = (uintptr_t)peali_run_address(r, c, i, loc, 0), .line = peali_run_landing(r, c, loc),
                         .alone = peali_plan_alone(r->plan, slot), .few = r->plan->readers[slot] <= FEW};
    }
    peali_span at = peali_plan_span(r->plan, i, 0, 0, loc.base);
    operand o = {.at = at.offset, .base = loc.buf == PEAL_BUF_IN ? BASE_IN : BASE_OUT, .owner = peali_run_owner(r, loc)};
    if (loc.buf >= PEAL_BUF_TMP) {
        o.at = r->plan->slot_offset[loc.buf - PEAL_BUF_TMP] + at.packed;
        o.base = BASE_TMP;
    }
    o.home = r->plan->program->mode == PEALI_PULL && o.base != BASE_TMP && peali_run_at_home(r, i, loc);
    o.tells = peali_run_tells(r, loc);
    return o;
}

static bool takes(const peali_instr *i, const peali_loc *locs)
{
    return i->nsrc == 1 && i->ndst == 1 && !i->reread && locs[1].buf == PEAL_BUF_OUT;
}

/* Push: an exit that nothing is read for is nothing to do. */
static bool idle(const peali_instr *i)
{
    return i->kind == PEALI_I_EXIT && i->nsrc == 0 && i->flag < 0;
}

static void note(const peali_runner *r, peali_small *small)
{
    const peali_program *p = r->plan->program;
    peali_cursor c = {0};
    const int32_t end = p->ninstrs - (!small->pulls && idle(&p->instrs[p->ninstrs - 1]));
    for (; small->nactions < end; small->nactions++) {
        const peali_instr *i = &p->instrs[small->nactions];
        action *a = &small->actions[small->nactions];
        *a = (action){.kind = i->kind, .takes = takes(i, p->locs + i->locs), .nsrc = i->nsrc, .flag = i->flag,
                      .operands = small->noperands, .bytes = i->nsrc > 0 ? peali_run_length(r, &c, i, 0) : 0};
        bool filled = false;
        for (int32_t k = i->locs; k < i->locs + i->nsrc; k++)
            a->waits |= p->locs[k].buf < 0;
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
    for (int32_t n = 0; n < small->nactions; n++) {
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

/* Up to 56 bytes lie in the line of their stamp. */
static bool in_line(const operand *o)
{
    return o->at - (uintptr_t)o->line < sizeof *o->line;
}

static void note_line(unsigned char **at, int32_t n, uintptr_t line)
{
    if (at && n < MOST_ASKED)
        at[n] = (unsigned char *)line;
}

/*
 * The lines of AREA that a call stores to before it waits for any: so many, and where, if AT is not NULL. The first KiB of what
 * lands, and the stamp where few look for it. us, nothing asked for, what lands, and the stamps too (float sums, 16 cores of Xeon,
 * all ranks at once, each the least median of two jobs):
 *
 *     ranks            16 B              64 B              256 B             1 KiB
 *         4 allreduce  0.76       0.55   0.88  0.82  0.65  0.95  0.88  0.71  1.36  1.11  1.14
 *           reduce     0.58       0.53   0.71  0.68  0.57  0.75  0.77  0.55  1.11  0.98  0.92
 *           broadcast  0.55       0.53   0.73  0.70  0.53  0.80  0.73  0.65  1.09  0.97  0.92
 *        16 allreduce  1.12       0.86   1.51  1.31  1.39  1.82  1.71  1.75  2.74  2.36  2.46
 *           reduce     0.86       0.83   1.08  0.94  0.98  1.26  1.18  1.13  2.22  2.03  2.21
 *           broadcast  0.80       0.90   0.85  0.79  0.92  0.91  0.82  0.98  1.27  0.98  1.10
 *
 * Where many look for a stamp, one of them mostly has its line again before it is stored to.
 */
static int32_t first_lines(const peali_small *small, int32_t area, unsigned char **at)
{
    enum { MOST = 1 << 10 };
    int32_t n = 0;
    for (const action *a = small->actions, *end = a + small->nactions; a < end && !a->waits; a++) {
        const operand *to = small->operands + area * small->noperands + a->operands + a->nsrc;
        for (int k = 0; k < a->ndst; k++) {
            if (!to[k].line)
                continue;
            const size_t bytes = in_line(&to[k]) ? 0 : a->bytes < MOST ? a->bytes : MOST;
            for (size_t b = 0; b < bytes; b += PEALI_REACH_LINE)
                note_line(at, n++, to[k].at + b);
            if (in_line(&to[k]) || to[k].few)
                note_line(at, n++, (uintptr_t)to[k].line);
        }
    }
    return n < MOST_ASKED ? n : MOST_ASKED;
}

static bool make(const peali_runner *r, peali_arena *arena, peali_small *small)
{
    small->actions = peali_arena_get(arena, (size_t)r->plan->program->ninstrs, sizeof *small->actions);
    if (!small->actions)
        return false;
    small->pulls = r->plan->program->mode == PEALI_PULL;
    note(r, small);
    const int32_t areas = small->pulls ? 1 : r->lands.areas;
    small->operands = peali_arena_get(arena, (size_t)(areas * small->noperands), sizeof *small->operands);
    if (!small->operands)
        return false;
    for (int32_t area = 0; area < areas; area++)
        resolve_area(r, area, small);
    small->nasks = small->pulls ? 0 : first_lines(small, 0, NULL);
    small->asks = peali_arena_get(arena, (size_t)(areas * small->nasks) + 1, sizeof *small->asks);
    for (int32_t area = 0; small->asks && area < areas; area++)
        first_lines(small, area, small->asks + area * small->nasks);
    return small->asks;
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

/*
 * Before a call looks at anything, it asks for the lines that it will store to first: readers have them since the last time, and
 * to take them back takes as long as to get there.
 */
void peali_small_begin(const peali_runner *r)
{
    const peali_small *small = r->plan->small;
    unsigned char *const *at = small->asks + r->cursors[0].area * small->nasks;
    for (int32_t n = 0; n < small->nasks; n++)
        peali_run_ask_to_store(at[n]);
}

static int spins(const peali_runner *r)
{
    return peali_run_crowded(r) ? 1 : SPINS;
}

/* Pull. */
static peal_status raised(peali_runner *r, const peali_cursor *c)
{
    const peali_instr *i = &r->plan->program->instrs[c->pc];
    peal_status status = PEAL_IN_PROGRESS;
    for (int left = spins(r); left > 0 && status == PEAL_IN_PROGRESS; left--)
        status = peali_run_awaited(r, c, i);
    return status;
}

/*
 * Acquires what compute() of the writer released. The lines are asked for all at once: each takes about as long as all. So is what
 * lies behind a stamp that is there, but for more than one line, which stamps still to come would wait for: of 64 bytes,
 * allreduces of 4 and 8 ranks take 0.94 and 0.96 of the time, and a reduce-scatter of 16 takes 0.91.
 */
static peal_status arrived(peali_runner *r, const operand *from, int32_t n)
{
    for (int32_t k = 1; k < n; k++)
        if (from[k].line)
            __builtin_prefetch(from[k].line);
    for (int32_t k = 0; k < n; k++) {
        if (!from[k].line)
            continue;
        int left = spins(r);
        uint64_t there = peali_load_acquire(&from[k].line->value);
        while (!peali_run_stamped(r, there, r->base) && --left > 0)
            there = peali_load_acquire(&from[k].line->value);
        if (left == 0)
            return peali_run_stranger(r, there, r->base);
        if (!in_line(&from[k]))
            __builtin_prefetch((const void *)from[k].at);
    }
    return PEAL_OK;
}

static void place(const uintptr_t bases[BASES], const operand *o, int n, void **at)
{
    for (int k = 0; k < n; k++)
        at[k] = (void *)(o[k].at + bases[o[k].base]);
}

/* An element or two, by far the most frequent, need no call. What only stays where it is may be read-only. */
static void copy(void *to, const void *from, size_t bytes)
{
    if (to == from)
        return;
    if (bytes >= 8 && bytes <= 16) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, (const unsigned char *)from + bytes - 8, 8);
        memcpy(to, &first, 8);
        memcpy((unsigned char *)to + bytes - 8, &last, 8);
    } else if (bytes == 4) {
        memcpy(to, from, 4);
    } else {
        memcpy(to, from, bytes);
    }
}

static void push(peali_runner *r, const action *a, const operand *o)
{
    const operand *to = o + a->nsrc;
    const uintptr_t bases[BASES] = {0, r->mine->front.in, (uintptr_t)r->out, (uintptr_t)r->scratch};
    place(bases, o, a->nsrc, (void **)r->src);
    place(bases, to, a->ndst, r->dst);
    bool past = a->takes && r->mine->front.past;
    if (a->nsrc > 1 || past)
        peali_run_combine(r, a->ndst, a->nsrc, a->bytes, past);
    for (int k = 0; k < a->ndst; k++) {
        if (a->nsrc == 1 && !past)
            copy(r->dst[k], r->src[0], a->bytes);
        if (to[k].line)
            peali_run_tell(r, &to[k].line->value, peali_run_stamp(r, r->base)); /* pairs with arrived() */
    }
    for (int k = 0; k < a->nsrc && r->plan->takes_over; k++)
        if (o[k].alone)
            peali_run_take_over(r->src[k], a->bytes);
}

static void *find(const peali_runner *r, const operand *o, const peali_front *front)
{
    const bool out = o->base == BASE_OUT;
    if (o->home && (front->staged >> out & 1))
        return (void *)((out ? (uintptr_t)r->out : (uintptr_t)r->in) + o->at);
    uintptr_t bases[BASES] = {0, front->in, front->out, front->tmp};
    return (void *)(bases[o->base] + (uintptr_t)r->shift[o->owner] + o->at);
}

/* Pull: the same; false where an owner does not show this call. */
static bool place_at_owners(peali_runner *r, const operand *o, int n, void **at)
{
    for (int k = 0; k < n; k++) {
        const peali_front *front = &r->shown[o[k].owner]->front;
        if (peali_load_relaxed(&front->call) != r->call)
            return false;
        r->seen &= !(o[k].tells && front->staged);
        at[k] = find(r, &o[k], front);
    }
    return true;
}

static peal_status pull(peali_runner *r, const peali_cursor *c, const action *a, const operand *o)
{
    const operand *to = o + a->nsrc;
    bool past = false;
    if (peali_run_given_up(r) || !place_at_owners(r, o, a->nsrc, (void **)r->src) || !place_at_owners(r, to, a->ndst, r->dst))
        return PEAL_ERR_MISMATCH;
    for (int k = 0; k < a->ndst; k++)
        past |= r->shown[to[k].owner]->front.past;
    for (int k = 0; k < a->ndst && !past; k++)
        peali_run_map_around(r, to[k].owner, r->dst[k], a->bytes);
    if (past)
        peali_run_compute(r, c, &r->plan->program->instrs[c->pc]);
    else if (a->nsrc > 1)
        peali_run_combine(r, a->ndst, a->nsrc, a->bytes, false);
    else
        for (int k = 0; k < a->ndst; k++)
            copy(r->dst[k], r->src[0], a->bytes);
    return PEAL_OK;
}

static peal_status may_begin(peali_runner *r, const peali_cursor *c, const action *a, const operand *o)
{
    if (r->plan->small->pulls)
        return raised(r, c);
    if (a->kind == PEALI_I_ENTER && !peali_run_credited(r, c))
        return PEAL_IN_PROGRESS;
    return a->waits ? arrived(r, o, a->nsrc) : PEAL_OK;
}

peal_status peali_small_advance(peali_runner *r)
{
    const peali_small *small = r->plan->small;
    peali_cursor *c = &r->cursors[0];
    const operand *operands = small->operands + (small->pulls ? 0 : c->area * small->noperands);
    for (; c->pc < small->nactions; c->pc++, r->moved = true) {
        const action *a = &small->actions[c->pc];
        const operand *o = operands + a->operands;
        peal_status status = may_begin(r, c, a, o);
        if (status == PEAL_OK && a->kind == PEALI_I_REDUCE && small->pulls)
            status = pull(r, c, a, o);
        else if (status == PEAL_OK && a->kind == PEALI_I_REDUCE)
            push(r, a, o);
        if (status != PEAL_OK)
            return status;
        if (a->kind == PEALI_I_ENTER)
            peali_run_stage(r, c, true);
        if (a->flag >= 0) /* pairs with peali_run_awaited() */
            peali_run_tell(r, &r->mine->flags[a->flag].value, r->base + 1);
    }
    peali_run_leave(r, c);
    return PEAL_OK;
}
