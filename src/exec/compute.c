/* What an instruction does to memory. */
#include "exec/runner.h"

#include "base/atomics.h"

uint64_t *peali_run_landing_flag(const peali_runner *r, const peali_cursor *c, peali_loc loc)
{
    const peali_public *p = r->shown[loc.rank];
    return &p->land_flags[peali_run_slice(r, c) % (uint64_t)p->areas * PEALI_REACH_SLOTS + (size_t)(-1 - loc.buf)];
}

/* Where span UNIT of operand LOC of instruction I lies. */
unsigned char *peali_run_address(const peali_runner *r, const peali_cursor *c, const peali_instr *i, peali_loc loc, int32_t unit)
{
    const peali_public *p = r->shown[loc.rank];
    const peali_program *program = r->plan->program;
    if (loc.buf < 0) {
        int32_t slot = program->land_start[loc.rank] - 1 - loc.buf;
        size_t area = peali_run_slice(r, c) % (uint64_t)p->areas * p->land_bytes;
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

size_t peali_run_length(const peali_runner *r, const peali_cursor *c, const peali_instr *i, int32_t unit)
{
    return peali_plan_span(r->plan, i, unit, c->slice, i->first).bytes;
}

static void compute_unit(peali_runner *r, const peali_cursor *c, const peali_instr *i, int32_t unit)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int ndst = 0;
    for (int k = 0; k < i->nsrc; k++)
        r->src[k] = peali_run_address(r, c, i, locs[k], unit);
    for (int k = 0; k < i->ndst; k++) {
        r->dst[ndst] = peali_run_address(r, c, i, locs[i->nsrc + k], unit);
        ndst += i->nsrc > 1 || r->dst[ndst] != r->src[0]; /* in place, a copy of IN to OUT is nothing */
    }
    if (ndst > 0)
        r->plan->reduce(r->dst, ndst, r->src, i->nsrc, peali_run_length(r, c, i, unit) / r->plan->elem_bytes);
}

void peali_run_compute(peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    int32_t units = peali_plan_units(r->plan, i);
    for (int32_t u = 0; u < units; u++)
        compute_unit(r, c, i, u);
    /* Releases what was stored; landed() at the receiver acquires it. */
    for (int k = i->nsrc; k < i->nsrc + i->ndst; k++)
        if (locs[k].buf < 0)
            peali_store_release(peali_run_landing_flag(r, c, locs[k]), peali_run_slice(r, c) + 1);
}

/* Staged: enter fills this slice's staging, exit drains it. */
void peali_run_stage(peali_runner *r, const peali_cursor *c, bool fill)
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
