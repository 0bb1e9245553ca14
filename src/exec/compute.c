/* What an instruction does to memory. */
#include "exec/runner.h"

#include "base/atomics.h"

peali_line *peali_run_landing(const peali_runner *r, const peali_cursor *c, peali_loc loc)
{
    const peali_program *p = r->plan->program;
    int32_t slot = peali_land_slot(p->land_start, loc);
    return &r->shown[p->land_home[slot]]->lines[c->area * PEALI_REACH_SLOTS + p->land_line[slot]];
}

/* Where the landing area of rank X begins whose lines are those of C. */
static unsigned char *landing_area(const peali_runner *r, const peali_cursor *c, int32_t x)
{
    unsigned char *first = (unsigned char *)&r->shown[x]->lines[r->lands.areas * PEALI_REACH_SLOTS];
    return first + (size_t)c->area * r->lands.bytes;
}

/*
 * What no peer touches lies where the user has it, also where the rest is staged; and so does, for this rank itself, its IN, unless
 * to fill its staging multiplies.
 */
bool peali_run_at_home(const peali_runner *r, const peali_instr *i, peali_loc loc)
{
    if (peali_run_owner(r, loc) != r->me)
        return false;
    return loc.buf == PEAL_BUF_IN ? !r->plan->scale : !(r->plan->program->shown[i->first] & PEALI_SHOWN_OUT);
}

static bool is_staged(const peali_runner *r, const peali_instr *i, peali_loc loc)
{
    return r->shown[peali_run_owner(r, loc)]->front.staged >> (loc.buf == PEAL_BUF_OUT) & 1 && !peali_run_at_home(r, i, loc);
}

/* Where span UNIT of operand LOC of instruction I lies. */
unsigned char *peali_run_address(const peali_runner *r, const peali_cursor *c, const peali_instr *i, peali_loc loc, int32_t unit)
{
    const peali_plan *plan = r->plan;
    if (loc.buf < 0) {
        int32_t slot = peali_land_slot(plan->program->land_start, loc);
        size_t packed = peali_plan_span(plan, i, unit, c->slice, plan->program->land_first[slot]).packed;
        if (plan->land_offset[slot] == PEALI_PLAN_IN_LINE)
            return peali_run_landing(r, c, loc)->data + packed;
        return landing_area(r, c, plan->program->land_home[slot]) + plan->land_offset[slot] + packed;
    }
    peali_span at = peali_plan_span(plan, i, unit, c->slice, loc.base);
    const peali_front *front = &r->shown[peali_run_owner(r, loc)]->front;
    size_t place = (size_t)c->place;
    uintptr_t shift = (uintptr_t)r->shift[peali_run_owner(r, loc)];
    if (loc.buf >= PEAL_BUF_TMP) {
        size_t slot = plan->slot_offset[loc.buf - PEAL_BUF_TMP];
        return (unsigned char *)(front->tmp + shift) + place * plan->scratch_bytes + slot + at.packed;
    }
    bool shows = front->staged >> (loc.buf == PEAL_BUF_OUT) & 1;
    if (shows && peali_run_at_home(r, i, loc))
        return (unsigned char *)(loc.buf == PEAL_BUF_IN ? (uintptr_t)r->in : (uintptr_t)r->out) + at.offset;
    unsigned char *first = (unsigned char *)((loc.buf == PEAL_BUF_IN ? front->in : front->out) + shift);
    return first + (shows ? place * plan->slice_bytes + at.packed : at.offset);
}

size_t peali_run_length(const peali_runner *r, const peali_cursor *c, const peali_instr *i, int32_t unit)
{
    return peali_plan_span(r->plan, i, unit, c->slice, i->first).bytes;
}

/* All slots that an instruction fills lie in one place, that of the first. */
static int32_t first_slot(const peali_instr *i, const peali_loc *locs)
{
    int32_t k = i->nsrc;
    while (k < i->nsrc + i->ndst && locs[k].buf >= 0)
        k++;
    return k;
}

/* Past the caches, where one destination asks for it (push: its owner itself); not where the exit of a rank reads its staging. */
static bool streams(const peali_runner *r, const peali_instr *i, const peali_loc *locs)
{
    bool past = false;
    for (int32_t k = i->nsrc; k < i->nsrc + i->ndst; k++) {
        if (i->reread || locs[k].buf != PEAL_BUF_OUT || is_staged(r, i, locs[k]))
            return false;
        past |= r->shown[peali_run_owner(r, locs[k])]->front.past;
    }
    return past;
}

/*
 * Memory of another process may be new to this one: a load before the first store has Linux map, in one fault, what pages the file
 * has in the 64 KiB around; a store's fault maps one (mm/memory.c: do_fault_around). Stores to 64 MiB that another mapping had
 * touched, a page each: 1.9 us a page, and 0.36. So of the last places that this rank stored to, it knows which it had loaded from.
 */
void peali_run_map_around(peali_runner *r, int32_t owner, const void *at, size_t bytes)
{
    enum { AROUND = 64 << 10 };
    const uintptr_t end = (uintptr_t)at + bytes;
    if (r->shift[owner] == 0) /* it is this process' */
        return;
    for (uintptr_t from = (uintptr_t)at; from < end; from = (from / AROUND + 1) * AROUND) {
        const uintptr_t place = from / AROUND;
        uintptr_t *known = &r->around[place * 0x9e3779b97f4a7c15 >> (64 - PEALI_RUN_AROUND)]; /* Fibonacci hashing, Knuth 6.4 */
        if (*known == place)
            continue;
        *known = place;
        (void)*(const volatile unsigned char *)from;
    }
}

/*
 * Where all ranks read all others' memory, and begin with the same one's, its caches answer to each in turn, and the others have
 * nothing to do; so each asks for what it is to add beginning with another. Where it stores to all others as well, lines of theirs
 * come one by one, as stores keep their order, and no store waits where they were asked for together; that pays from two pieces
 * on. Allreduce by two_shot in memory that is seen, with results that are read, us, 32 cores of Xeon, in pieces of 2 KiB up to
 * 16 KiB of each, in these, and in these with lines to store to:
 *
 *     ranks   8 KiB              32 KiB             64 KiB             256 KiB            1 MiB             4 MiB
 *         4   3.4  3.6  2.9      6.2  6.1  5.0      9.7  10.0 7.7      28.5 28.8 26.8     137  140  118     610  582  528
 *        16   6.4  6.3  7.4      12.1 12.5 10.6     17.0 16.6 12.4     52.4 47.3 38.7     231  218  153     1020 1026 1003
 *        32   9.1  8.7  9.0      17.7 17.0 16.9     28.4 26.5 26.0     89.1 91.3 74.9     443  391  340     1952 1969 1933
 *
 * (8 KiB on 16 and 32 ranks are less than two pieces of each.) All asking in one order: 1.3 to 1.6 times as long as not asking.
 */
enum { ASK_PIECE = 1 << 10 };
static void ask(const peali_runner *r, int nsrc, size_t bytes)
{
    for (int k = 1, s = r->me % nsrc; k < nsrc; k++) {
        s = s + 1 < nsrc ? s + 1 : 0;
        for (size_t o = 0; o < bytes; o += PEALI_REACH_LINE)
            __builtin_prefetch((const unsigned char *)r->src[s] + o);
    }
}

static void ask_to_store(const peali_runner *r, int ndst, size_t bytes)
{
    for (int k = 0, d = r->me % ndst; k < ndst; k++) {
        for (size_t o = 0; o < bytes; o += PEALI_REACH_LINE)
            peali_run_ask_to_store((const unsigned char *)r->dst[d] + o);
        d = d + 1 < ndst ? d + 1 : 0;
    }
}

/* Moves all operands BY bytes. */
static void move(peali_runner *r, int ndst, int nsrc, ptrdiff_t by)
{
    for (int k = 0; k < nsrc; k++)
        r->src[k] = (const unsigned char *)r->src[k] + by;
    for (int k = 0; k < ndst; k++)
        r->dst[k] = (unsigned char *)r->dst[k] + by;
}

void peali_run_combine(peali_runner *r, int ndst, int nsrc, size_t bytes, bool past)
{
    const bool asks = nsrc > 2 && !past && bytes >= PEALI_REACH_LINE;
    const size_t piece = asks && bytes > ASK_PIECE ? ASK_PIECE : bytes;
    const bool to_store = ndst > 2 && piece < bytes;
    r->streamed |= past;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < piece ? bytes - at : piece;
        if (asks)
            ask(r, nsrc, n);
        if (to_store)
            ask_to_store(r, ndst, n);
        r->plan->reduce(r->dst, ndst, r->src, nsrc, n / r->plan->elem_bytes, past);
        if (n < bytes)
            move(r, ndst, nsrc, at + n < bytes ? (ptrdiff_t)n : -(ptrdiff_t)at);
    }
}

static void compute_unit(peali_runner *r, const peali_cursor *c, const peali_instr *i, int32_t unit)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int32_t filled = first_slot(i, locs);
    int ndst = 0;
    size_t bytes = peali_run_length(r, c, i, unit);
    bool past = streams(r, i, locs);
    for (int32_t k = 0; k < i->nsrc; k++)
        r->src[k] = peali_run_address(r, c, i, locs[k], unit);
    for (int32_t k = i->nsrc; k < i->nsrc + i->ndst; k++) {
        if (locs[k].buf < 0 && k > filled)
            continue;
        r->dst[ndst] = peali_run_address(r, c, i, locs[k], unit);
        if (locs[k].buf >= 0)
            peali_run_map_around(r, peali_run_owner(r, locs[k]), r->dst[ndst], bytes);
        ndst += i->nsrc > 1 || r->dst[ndst] != r->src[0]; /* in place, a copy of IN to OUT is nothing */
    }
    if (peali_run_offer(r, i, bytes, past))
        return;
    if (ndst > 0)
        peali_run_combine(r, ndst, i->nsrc, bytes, past);
    for (int32_t k = 0; k < i->nsrc && r->plan->takes_over; k++)
        if (locs[k].buf < 0 && peali_plan_alone(r->plan, peali_land_slot(r->plan->program->land_start, locs[k])))
            peali_run_take_over(r->src[k], bytes);
}

void peali_run_compute(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    int32_t units = peali_plan_units(r->plan, i);
    for (int32_t u = 0; u < units; u++)
        compute_unit(r, c, i, u);
}

void peali_run_stamp_slots(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int32_t filled = first_slot(i, locs);
    if (filled < i->nsrc + i->ndst) /* releases what was stored; landed() at the receivers acquires it */
        peali_run_tell(r, &peali_run_landing(r, c, locs[filled])->value, peali_run_stamp(r, peali_run_slice(r, c)));
}

/* The blocks behind cut *AT that peers touch, as far as BLOCKS go. False: there are none left. */
static bool next_shown(const peali_program *p, int bit, const int32_t blocks[2], int32_t *at, int32_t part[2])
{
    int32_t first = *at, end;
    while (first + 1 < p->ncuts && !(p->shown[first] & bit))
        first++;
    for (end = first; end + 1 < p->ncuts && p->shown[end] & bit; end++)
        continue;
    if (first == end)
        return false;
    part[0] = p->cuts[first] > blocks[0] ? p->cuts[first] : blocks[0];
    part[1] = p->cuts[end] < blocks[1] ? p->cuts[end] : blocks[1];
    *at = end;
    return true;
}

static void fill(const peali_runner *r, const peali_cursor *c)
{
    unsigned char *packed = (unsigned char *)r->mine->front.in + (size_t)c->place * r->plan->slice_bytes;
    int32_t blocks[2], part[2], at = 0;
    peali_plan_given(r->plan, blocks);
    if (r->plan->scale)
        peali_plan_pack(r->plan, blocks, c->slice, packed, r->in, r->scalars);
    while (!r->plan->scale && next_shown(r->plan->program, PEALI_SHOWN_IN, blocks, &at, part))
        peali_plan_pack(r->plan, part, c->slice, packed, r->in, r->scalars);
}

static void drain(peali_runner *r, const peali_cursor *c)
{
    const unsigned char *packed = (const unsigned char *)r->mine->front.out + (size_t)c->place * r->plan->slice_bytes;
    int32_t blocks[2], part[2], at = 0;
    peali_plan_wanted(r->plan, blocks);
    while (next_shown(r->plan->program, PEALI_SHOWN_OUT, blocks, &at, part))
        peali_plan_unpack(r->plan, part, c->slice, packed, r->out, r->mine->front.past);
    r->streamed |= r->mine->front.past;
}

/* Enter fills the staging of a slice, exit drains it. */
void peali_run_stage(peali_runner *r, const peali_cursor *c, bool fills)
{
    if (fills && r->staged_in)
        fill(r, c);
    else if (!fills && r->staged_out)
        drain(r, c);
}
