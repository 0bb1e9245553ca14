/*
 * Offsets: slice k of `count` elements is [k*count/K, (k+1)*count/K), block b of a slice of m elements is [b*m/B, (b+1)*m/B) of it.
 * One slice, the common case for small calls, has its offsets in a table; with more slices a division costs nothing beside the data.
 */
#include "exec/plan.h"

static size_t share(size_t count, int64_t part, int64_t parts)
{
    return (size_t)((unsigned __int128)count * (uint64_t)part / (uint64_t)parts);
}

size_t peali_plan_offset(const peali_plan *plan, int32_t cut, int32_t slice)
{
    if (plan->cut_offset)
        return plan->cut_offset[cut];
    const peali_job *job = &plan->job;
    size_t first = share(job->count, slice, job->slices), end = share(job->count, slice + 1, job->slices);
    return (first + share(end - first, plan->program->cuts[cut], plan->program->nblocks)) * plan->elem_bytes;
}

size_t peali_plan_slice(const peali_plan *plan, int32_t slice)
{
    return share(plan->job.count, slice, plan->job.slices) * plan->elem_bytes;
}

static bool place_cuts(peali_plan *plan)
{
    const peali_program *p = plan->program;
    if (plan->job.slices > 1)
        return true;
    plan->cut_offset = peali_arena_get(&plan->arena, (size_t)p->ncuts + 1, sizeof *plan->cut_offset);
    for (int32_t c = 0; plan->cut_offset && c < p->ncuts; c++)
        plan->cut_offset[c] = share(plan->job.count, p->cuts[c], p->nblocks) * plan->elem_bytes;
    return plan->cut_offset != NULL;
}

/* Room for BLOCKS blocks of the longest slice, in whole cache lines, so that no two buffers are on one. */
static size_t room(const peali_plan *plan, int32_t blocks)
{
    size_t longest = (plan->job.count + (size_t)plan->job.slices - 1) / (size_t)plan->job.slices;
    size_t elements = share(longest, blocks, plan->program->nblocks) + (blocks > 0 && blocks < plan->program->nblocks);
    return (elements * plan->elem_bytes + 63) / 64 * 64;
}

static bool place_slots(peali_plan *plan)
{
    const peali_program *p = plan->program;
    plan->slot_offset = peali_arena_get(&plan->arena, (size_t)p->nscratch + 1, sizeof *plan->slot_offset);
    for (int32_t i = 0; plan->slot_offset && i < p->nscratch; i++) {
        plan->slot_offset[i] = plan->scratch_bytes;
        plan->scratch_bytes += room(plan, p->slot_blocks[i]);
    }
    plan->slice_bytes = room(plan, p->nblocks);
    return plan->slot_offset != NULL;
}

static bool place_landings(peali_plan *plan)
{
    const peali_program *p = plan->program;
    plan->land_offset = peali_arena_get(&plan->arena, (size_t)p->nland + 1, sizeof *plan->land_offset);
    for (int32_t x = 0; plan->land_offset && x < p->nreach; x++) {
        size_t at = 0;
        for (int32_t i = p->land_start[x]; i < p->land_start[x + 1]; i++) {
            plan->land_offset[i] = at;
            at += room(plan, p->cuts[p->land_end[i]] - p->cuts[p->land_first[i]]);
        }
        plan->land_bytes = at > plan->land_bytes ? at : plan->land_bytes;
    }
    return plan->land_offset != NULL;
}

static int32_t most_operands(const peali_program *p)
{
    int32_t most = 1;
    for (int32_t i = 0; i < p->ninstrs; i++) {
        int32_t n = p->instrs[i].nsrc > p->instrs[i].ndst ? p->instrs[i].nsrc : p->instrs[i].ndst;
        most = n > most ? n : most;
    }
    return most;
}

peal_status peali_plan_make(const peali_program *program, const peali_job *job, peali_plan **out)
{
    peali_arena arena = {0};
    peali_plan *plan = peali_arena_get(&arena, 1, sizeof *plan);
    if (!plan)
        return PEAL_ERR_MEMORY;
    *plan = (peali_plan){.arena = arena, .program = program, .job = *job, .elem_bytes = peal_type_bytes(job->type)};
    plan->reduce = peali_reduce_find(job->type, job->op);
    plan->most_operands = most_operands(program);
    if (!place_cuts(plan) || !place_slots(plan) || !place_landings(plan)) {
        peali_plan_free(&plan);
        return PEAL_ERR_MEMORY;
    }
    *out = plan;
    return PEAL_OK;
}

void peali_plan_free(peali_plan **plan)
{
    if (*plan) {
        peali_arena arena = (*plan)->arena; /* the plan lies in it */
        peali_arena_free(&arena);
    }
    *plan = NULL;
}
