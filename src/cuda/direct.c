/*
 * A program of place, laid out behind that of a call. The kernel has no flags between instructions for it, only that all ranks have
 * begun and that all have ended, so it takes programs that need no others: those of two-shot, and of the direct algorithms.
 */
#include "cuda/load.h"

enum { MOST_TARGETS = 8 }; /* of a copy, for which the kernel has a loop (cuda/direct.cuh) */

/* A rank's copy of its own IN into its own OUT: in place it changes nothing, and else OUT is not read. */
static bool is_home(const peali_program *p, const peali_instr *i)
{
    const peali_loc *locs = p->locs + i->locs;
    return i->kind == PEALI_I_REDUCE && i->nsrc == 1 && i->ndst == 1 && locs[0].rank == p->me && locs[1].rank == p->me &&
           locs[0].buf == PEAL_BUF_IN && locs[1].buf == PEAL_BUF_OUT;
}

/* Does FLAG of P say no more than that its rank has begun? */
static bool says_begun(const peali_program *p, int32_t flag)
{
    for (int32_t k = 0; k < p->ninstrs; k++) {
        const peali_instr *i = &p->instrs[k];
        if (i->kind != PEALI_I_ENTER && !is_home(p, i))
            return false;
        if (i->flag == flag)
            return true;
    }
    return false;
}

/* From INs into OUTs, at once. */
static bool goes_at_once(peali_program *const *all, const peali_program *p, const peali_instr *i)
{
    const peali_loc *locs = p->locs + i->locs;
    if (i->kind != PEALI_I_REDUCE || i->nsrc < 1 || i->nwaits > 0)
        return false;
    for (int k = 0; k < i->nsrc + i->ndst; k++)
        if (locs[k].buf != (k < i->nsrc ? PEAL_BUF_IN : PEAL_BUF_OUT))
            return false;
    for (int32_t k = 0; k < i->nawaits; k++)
        if (!says_begun(all[p->awaits[i->awaits + k].rank], p->awaits[i->awaits + k].flag))
            return false;
    return true;
}

/* No block is in two instructions of a rank. */
static bool apart(const peali_program *p)
{
    for (int32_t a = 1; a < p->ninstrs - 1; a++)
        for (int32_t b = 1; b < a; b++)
            if (p->instrs[a].first < p->instrs[b].end && p->instrs[b].first < p->instrs[a].end)
                return false;
    return true;
}

bool peali_cuda_one_round(peali_program *const *all)
{
    for (int x = 0; x < all[0]->nreach; x++) {
        const peali_program *p = all[x];
        bool can = p->mode == PEALI_PLACE && p->nreach == p->nranks && p->nranks <= PEALI_CUDA_RANKS && p->ninstrs >= 2 &&
                   p->instrs[0].kind == PEALI_I_ENTER && p->instrs[p->ninstrs - 1].kind == PEALI_I_EXIT && apart(p);
        for (int32_t k = 1; can && k < p->ninstrs - 1; k++)
            can = goes_at_once(all, p, &p->instrs[k]);
        if (!can)
            return false;
    }
    return true;
}

/* One slice for each CTA; none where one is too long for the kernel's words, or where parts do not begin at packs. */
static void cut(peali_cuda_call *call, uint32_t ctas)
{
    peali_cuda_direct *d = &call->direct;
    const uint64_t packs = (call->part_bytes + PEALI_CUDA_PACK - 1) / PEALI_CUDA_PACK, most = UINT32_MAX / 4;
    const uint64_t slices = ctas < packs ? ctas : packs;
    if (slices == 0 || (call->parts > 1 && call->part_bytes % PEALI_CUDA_PACK) || (packs / slices + 1) * call->parts > most)
        return;
    d->slices = (uint32_t)slices;
    d->slice_packs = (uint32_t)(packs / slices);
    d->long_slices = (uint32_t)(packs % slices);
    d->block_packs = d->slice_packs / call->blocks;
    d->long_blocks = d->slice_packs % call->blocks;
}

/* The operands in use; those of the last operation are the last. */
static uint32_t locs_of(const peali_cuda_call *call)
{
    if (call->nops == 0)
        return 0;
    const peali_cuda_op *last = &call->ops[call->nops - 1];
    return (uint32_t)last->locs + last->nsrc + last->ndst;
}

static void add_loc(peali_cuda_call *call, uint32_t *nlocs, peali_loc loc)
{
    call->locs[(*nlocs)++] = (peali_cuda_loc){.where = (uint8_t)(PEALI_CUDA_SLOT + loc.rank),
                                              .slot = loc.buf == PEAL_BUF_IN ? PEALI_CUDA_IN : PEALI_CUDA_OUT};
}

/* I, as far as it stores to NDST destinations from DST on. */
static bool add(const peali_program *p, const peali_instr *i, const peali_loc *dst, int ndst, peali_cuda_call *call,
                uint32_t *nlocs)
{
    peali_cuda_direct *d = &call->direct;
    if (d->end == PEALI_CUDA_OPS || *nlocs + i->nsrc + (uint32_t)ndst > PEALI_CUDA_LOCS)
        return false;
    call->ops[d->end++] = (peali_cuda_op){.nsrc = (uint8_t)i->nsrc, .ndst = (uint8_t)ndst, .locs = (uint16_t)*nlocs,
                                          .first = (uint16_t)p->cuts[i->first], .end = (uint16_t)p->cuts[i->end]};
    for (int k = 0; k < i->nsrc; k++)
        add_loc(call, nlocs, p->locs[i->locs + k]);
    for (int k = 0; k < ndst; k++)
        add_loc(call, nlocs, dst[k]);
    return true;
}

/* A copy to many is several. */
static bool add_instr(const peali_program *p, const peali_instr *i, peali_cuda_call *call, uint32_t *nlocs)
{
    const peali_loc *dst = p->locs + i->locs + i->nsrc;
    const int most = i->nsrc == 1 ? MOST_TARGETS : i->ndst;
    bool fits = true;
    for (int k = 0; k < i->ndst && fits; k += most)
        fits = add(p, i, dst + k, i->ndst - k < most ? i->ndst - k : most, call, nlocs);
    return fits;
}

void peali_cuda_load_direct(const peali_program *program, uint32_t most, peali_cuda_call *call, uint32_t *ctas)
{
    peali_cuda_direct *d = &call->direct;
    uint32_t nlocs = locs_of(call);
    bool fits = true;
    const uint32_t wanted = most > *ctas ? most : *ctas;
    cut(call, wanted);
    if (d->slices == 0)
        return;
    *ctas = wanted;
    d->first = d->end = call->nops;
    for (int32_t k = 1; k < program->ninstrs - 1 && fits; k++)
        fits = add_instr(program, &program->instrs[k], call, &nlocs);
    d->room = fits;
    for (int x = 0; x < program->nreach; x++)
        call->stores_to |= (uint16_t)((x != program->me) << x);
}
