/*
 * Offsets: slice k of m elements is [k*m/K, (k+1)*m/K), block b of them is [b*m/B, (b+1)*m/B). Slices have one of two lengths, so
 * tables hold where blocks begin in each; what is left is a division where there is more than one slice. Two-shot on 60 ranks asks
 * for 400 such places in each slice.
 */
#include "exec/plan.h"

#include "exec/reach.h"

#include <string.h>

static size_t share(size_t count, int64_t part, int64_t parts)
{
    if (count >> 40 == 0 && part >> 23 == 0)
        return count * (size_t)part / (size_t)parts;
    return (size_t)((unsigned __int128)count * (uint64_t)part / (uint64_t)parts);
}

/* Elements from the start of the vector to slice SLICE. LONGER: it has one more than the shortest. */
static size_t slice_start(const peali_plan *plan, int32_t slice, bool *longer)
{
    size_t slices = (size_t)plan->job.slices, over = (size_t)slice * plan->over; /* both are below 2^31 */
    if (slices == 1)
        return *longer = false;
    *longer = over % slices + plan->over >= slices;
    return (size_t)slice * plan->least + over / slices;
}

/* Bytes from the start of the vector to block BLOCK in slice SLICE. */
static size_t block_offset(const peali_plan *plan, int32_t block, int32_t slice)
{
    int32_t nblocks = plan->program->nblocks;
    size_t first, at;
    bool longer;
    if (plan->blockwise) {
        first = share(plan->total, block, nblocks);
        at = first + share(share(plan->total, block + 1, nblocks) - first, slice, plan->job.slices);
    } else {
        first = slice_start(plan, slice, &longer);
        at = first + share(plan->least + longer, block, nblocks);
    }
    return at * plan->elem_bytes;
}

int32_t peali_plan_units(const peali_plan *plan, const peali_instr *i)
{
    return plan->blockwise ? plan->program->cuts[i->end] - plan->program->cuts[i->first] : 1;
}

static peali_span block_span(const peali_plan *plan, int32_t block, int32_t slice, int32_t base)
{
    int32_t nblocks = plan->program->nblocks, slices = plan->job.slices;
    size_t length = share(plan->total, block + 1, nblocks) - share(plan->total, block, nblocks);
    size_t elements = share(length, slice + 1, slices) - share(length, slice, slices);
    return (peali_span){block_offset(plan, block, slice), (size_t)(block - base) * plan->unit_bytes, elements * plan->elem_bytes};
}

peali_span peali_plan_span(const peali_plan *plan, const peali_instr *i, int32_t unit, int32_t slice, int32_t base)
{
    const int32_t *cuts = plan->program->cuts;
    if (plan->blockwise)
        return block_span(plan, cuts[i->first] + unit, slice, cuts[base]);
    bool longer;
    size_t start = slice_start(plan, slice, &longer) * plan->elem_bytes;
    const size_t *at = plan->cut_offset[longer];
    return (peali_span){start + at[i->first], at[i->first] - at[base], at[i->end] - at[i->first]};
}

static peali_span range_span(const peali_plan *plan, const int32_t blocks[2], int32_t slice)
{
    size_t first = block_offset(plan, blocks[0], slice);
    return (peali_span){first, first - block_offset(plan, 0, slice), block_offset(plan, blocks[1], slice) - first};
}

/* Blocks [first, end) lie in one piece, or blockwise in one a block. */
static int32_t pieces(const peali_plan *plan, const int32_t blocks[2])
{
    return plan->blockwise ? blocks[1] - blocks[0] : blocks[0] < blocks[1];
}

static peali_span piece(const peali_plan *plan, const int32_t blocks[2], int32_t slice, int32_t k)
{
    return plan->blockwise ? block_span(plan, blocks[0] + k, slice, 0) : range_span(plan, blocks, slice);
}

static void scale(const peali_plan *plan, unsigned char *to, const unsigned char *from, size_t bytes, const unsigned char *scalars)
{
    for (size_t at = 0; at < bytes; at += PEALI_PLAN_SCALARS) {
        size_t some = bytes - at < PEALI_PLAN_SCALARS ? bytes - at : PEALI_PLAN_SCALARS;
        plan->scale((void *[]){to + at}, 1, (const void *[]){from + at, scalars}, 2, some / plan->elem_bytes, false);
    }
}

void peali_plan_pack(const peali_plan *plan, const int32_t blocks[2], int32_t slice, unsigned char *packed,
                     const unsigned char *vector, const unsigned char *scalars)
{
    for (int32_t k = 0; k < pieces(plan, blocks); k++) {
        peali_span s = piece(plan, blocks, slice, k);
        if (plan->scale)
            scale(plan, packed + s.packed, vector + s.offset, s.bytes, scalars);
        else
            memcpy(packed + s.packed, vector + s.offset, s.bytes);
    }
}

void peali_plan_unpack(const peali_plan *plan, const int32_t blocks[2], int32_t slice, const unsigned char *packed,
                       unsigned char *vector, bool stream)
{
    for (int32_t k = 0; k < pieces(plan, blocks); k++) {
        peali_span s = piece(plan, blocks, slice, k);
        size_t count = s.bytes / plan->elem_bytes;
        plan->reduce((void *[]){vector + s.offset}, 1, (const void *[]){packed + s.packed}, 1, count, stream);
    }
}

static void part_of(const peali_plan *plan, bool all, bool own, int32_t blocks[2])
{
    const peali_program *p = plan->program;
    int32_t each = p->nblocks / p->nranks;
    blocks[0] = own ? p->rank * each : 0;
    blocks[1] = own ? blocks[0] + each : all ? p->nblocks : 0;
}

void peali_plan_given(const peali_plan *plan, int32_t blocks[2])
{
    peal_kind kind = plan->job.algo->kind;
    part_of(plan, kind != PEAL_BROADCAST || plan->program->rank == plan->job.root, kind == PEAL_ALLGATHER, blocks);
}

void peali_plan_wanted(const peali_plan *plan, int32_t blocks[2])
{
    peal_kind kind = plan->job.algo->kind;
    part_of(plan, kind != PEAL_REDUCE || plan->program->rank == plan->job.root, kind == PEAL_REDUCE_SCATTER, blocks);
}

static peali_extent extent(const peali_plan *plan, const int32_t blocks[2])
{
    size_t first = share(plan->total, blocks[0], plan->program->nblocks);
    size_t end = share(plan->total, blocks[1], plan->program->nblocks);
    return (peali_extent){first * plan->elem_bytes, (end - first) * plan->elem_bytes};
}

static void find_extents(peali_plan *plan)
{
    int32_t blocks[2];
    peali_plan_given(plan, blocks);
    plan->given = extent(plan, blocks);
    peali_plan_wanted(plan, blocks);
    plan->wanted = extent(plan, blocks);
}

void peali_plan_divide(const peali_plan *plan, int32_t slice, unsigned char *vector)
{
    int32_t blocks[2];
    if (!plan->divide)
        return;
    peali_plan_wanted(plan, blocks);
    for (int32_t k = 0; k < pieces(plan, blocks); k++) {
        peali_span s = piece(plan, blocks, slice, k);
        plan->divide(vector + s.offset, s.bytes / plan->elem_bytes, plan->program->nranks);
    }
}

static bool place_cuts(peali_plan *plan)
{
    const peali_program *p = plan->program;
    plan->least = plan->total / (size_t)plan->job.slices;
    plan->over = plan->total % (size_t)plan->job.slices;
    for (size_t longer = 0; longer < 2 && !plan->blockwise; longer++) {
        size_t *at = peali_arena_get(&plan->arena, (size_t)p->ncuts + 1, sizeof *at);
        for (int32_t c = 0; at && c < p->ncuts; c++)
            at[c] = share(plan->least + longer, p->cuts[c], p->nblocks) * plan->elem_bytes;
        if (!at)
            return false;
        plan->cut_offset[longer] = at;
    }
    return true;
}

/* The most that BLOCKS blocks take in a slice. */
static size_t most_bytes(const peali_plan *plan, int32_t blocks)
{
    if (plan->blockwise)
        return (size_t)blocks * plan->unit_bytes;
    size_t longest = (plan->total + (size_t)plan->job.slices - 1) / (size_t)plan->job.slices;
    return (share(longest, blocks, plan->program->nblocks) + (blocks > 0 && blocks < plan->program->nblocks)) * plan->elem_bytes;
}

/* In whole cache lines, so that no two buffers are on one. */
static size_t room(const peali_plan *plan, int32_t blocks)
{
    return (most_bytes(plan, blocks) + 63) / 64 * 64;
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

typedef struct landing_place {
    size_t at; /* 1 more than its offset; 0: not placed yet */
    int readers;
} landing_place;

static landing_place *place_of(const peali_plan *plan, landing_place *places, int32_t slot)
{
    const peali_program *p = plan->program;
    return &places[p->land_home[slot] * PEALI_REACH_SLOTS + p->land_line[slot]];
}

/* A slot has the place of its line; those that share one are of one length. END: of each rank, where its landings end so far. */
static void place_line(peali_plan *plan, int32_t slot, landing_place *places, size_t *end)
{
    const peali_program *p = plan->program;
    int32_t blocks = p->cuts[p->land_end[slot]] - p->cuts[p->land_first[slot]];
    landing_place *place = place_of(plan, places, slot);
    size_t *at = &end[p->land_home[slot]];
    if (place->at == 0) {
        bool fits = most_bytes(plan, blocks) <= PEALI_PLAN_LINE_BYTES;
        place->at = fits ? PEALI_PLAN_IN_LINE : *at + 1;
        *at += fits ? 0 : room(plan, blocks);
    }
    place->readers++;
    plan->land_offset[slot] = place->at == PEALI_PLAN_IN_LINE ? place->at : place->at - 1;
}

static bool place_landings(peali_plan *plan)
{
    const peali_program *p = plan->program;
    plan->land_offset = peali_arena_get(&plan->arena, (size_t)p->nland + 1, sizeof *plan->land_offset);
    plan->readers = peali_arena_get(&plan->arena, (size_t)p->nland + 1, sizeof *plan->readers);
    landing_place *places = peali_alloc((size_t)p->nreach * PEALI_REACH_SLOTS, sizeof *places);
    size_t *end = peali_alloc((size_t)p->nreach, sizeof *end);
    bool ok = plan->land_offset && plan->readers && places && end;
    for (int32_t slot = 0; ok && slot < p->nland; slot++)
        place_line(plan, slot, places, end);
    for (int32_t slot = 0; ok && slot < p->nland; slot++)
        plan->readers[slot] = place_of(plan, places, slot)->readers;
    for (int32_t x = 0; ok && x < p->nreach; x++)
        plan->land_bytes = end[x] > plan->land_bytes ? end[x] : plan->land_bytes;
    peali_free(places);
    peali_free(end);
    return ok;
}

static bool number_reqs(peali_plan *plan)
{
    const peali_program *p = plan->program;
    plan->nreqs = p->ninstrs;
    if (!plan->blockwise)
        return true;
    plan->first_req = peali_arena_get(&plan->arena, (size_t)p->ninstrs, sizeof *plan->first_req);
    plan->nreqs = 0;
    for (int32_t i = 0; plan->first_req && i < p->ninstrs; i++) {
        plan->first_req[i] = plan->nreqs;
        plan->nreqs += peali_plan_units(plan, &p->instrs[i]);
    }
    return plan->first_req != NULL;
}

/* Numbers the leads of KIND, one for each peer. OF_PEER, SEEN: room for a number, and a set of lanes, of every rank. */
static void number_leads(peali_plan *plan, int kind, int32_t *of_peer, uint64_t *seen)
{
    const peali_program *p = plan->program;
    const size_t eager = peali_plan_eager(p->nranks);
    memset(seen, 0, (size_t)p->nranks * sizeof *seen);
    memset(of_peer, -1, (size_t)p->nranks * sizeof *of_peer);
    for (int32_t i = 0; i < p->ninstrs; i++) {
        const peali_instr *m = &p->instrs[i];
        if (m->kind != kind)
            continue;
        if (of_peer[m->peer] < 0) {
            of_peer[m->peer] = plan->nleads;
            plan->first[plan->nleads++] = i;
        }
        plan->lead[i] = of_peer[m->peer];
        plan->opens[i] = !(seen[m->peer] >> m->lane & 1) && peali_plan_span(plan, m, 0, 0, 0).bytes <= eager;
        seen[m->peer] |= (uint64_t)1 << m->lane;
    }
}

/*
 * A call that gives every rank something of every other one does not end where calls differ. Where data has one root, a rank may
 * have sent all it has to send, and nobody tells it more.
 */
static void find_unheard(peali_plan *plan, const int32_t *sends, const int32_t *recvs)
{
    plan->rooted = plan->job.algo->kind == PEAL_BROADCAST || plan->job.algo->kind == PEAL_REDUCE;
    for (int32_t rank = 0; plan->rooted && rank < plan->program->nranks; rank++)
        if (sends[rank] >= 0 && recvs[rank] < 0)
            plan->unheard[plan->nunheard++] = rank;
}

static bool find_leads(peali_plan *plan)
{
    size_t nranks = (size_t)plan->program->nranks, ninstrs = (size_t)plan->program->ninstrs;
    int32_t *sends = peali_alloc(nranks, sizeof *sends), *recvs = peali_alloc(nranks, sizeof *recvs);
    uint64_t *seen = peali_alloc(nranks, sizeof *seen);
    plan->lead = peali_arena_get(&plan->arena, ninstrs, sizeof *plan->lead);
    plan->opens = peali_arena_get(&plan->arena, ninstrs, sizeof *plan->opens);
    plan->first = peali_arena_get(&plan->arena, 2 * nranks, sizeof *plan->first);
    plan->unheard = peali_arena_get(&plan->arena, nranks, sizeof *plan->unheard);
    bool ok = sends && recvs && seen && plan->lead && plan->opens && plan->first && plan->unheard;
    if (ok) {
        memset(plan->lead, -1, ninstrs * sizeof *plan->lead);
        number_leads(plan, PEALI_I_SEND, sends, seen);
        number_leads(plan, PEALI_I_RECV, recvs, seen);
        find_unheard(plan, sends, recvs);
    }
    peali_free(sends);
    peali_free(recvs);
    peali_free(seen);
    return ok;
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
    bool one_vector = job->algo->kind != PEAL_ALLGATHER && job->algo->kind != PEAL_REDUCE_SCATTER;
    plan->total = one_vector ? job->count : job->count * (size_t)program->nranks;
    plan->blockwise = !one_vector && job->slices > 1;
    size_t longest = (plan->total + (size_t)program->nblocks - 1) / (size_t)program->nblocks;
    plan->unit_bytes = (longest / (size_t)job->slices + 1) * plan->elem_bytes;
    plan->reduce = peali_reduce_find(job->type, job->op);
    plan->scale = job->op == PEAL_PREMUL_SUM ? peali_reduce_find(job->type, PEAL_PROD) : NULL;
    plan->divide = job->op == PEAL_AVG ? peali_divide_find(job->type) : NULL;
    plan->most_operands = most_operands(program);
    for (int32_t i = 0; i < program->ninstrs; i++)
        plan->nmessages += program->instrs[i].kind == PEALI_I_SEND || program->instrs[i].kind == PEALI_I_RECV;
    find_extents(plan);
    plan->closed = program->mode == PEALI_PUSH;
    for (int32_t x = 0; x < program->nreach; x++)
        plan->closed &= program->knows[x];
    if (!place_cuts(plan) || !place_slots(plan) || !place_landings(plan) || !number_reqs(plan) || !find_leads(plan)) {
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
