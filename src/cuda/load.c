/*
 * The slices of a call are as few as its landings allow, and as many as there are CTAs, where each then has something to do. All
 * ranks compute the same slices, because a program knows the landing slots of all.
 */
#include "cuda/load.h"

#include <string.h>

#include "base/ops.h"
#include "cuda/exchange.h"

enum {
    WORK_PACKS = 64,    /* a slice of less is not worth a CTA of its own */
    FAR_LANES = 16,     /* as many CTAs fill host memory's 52 GB/s on H200 */
    LEAST_AREA = 4096,  /* of a lane and protocol; rather fewer lanes than less */
};

typedef struct loader {
    const peali_program *program;
    const peali_cuda_job *job;
    const peali_cuda_layout *layout;
    peali_cuda_call *call;
    uint64_t packs;  /* of a part */
    uint32_t longest; /* slice, in packs of a part */
    uint32_t nlocs;
    uint32_t land_at[PEALI_CUDA_RANKS][PEALI_CUDA_SLOTS]; /* where landing slots start in their area, in units of 16 bytes */
    uint32_t tmp_at[PEALI_CUDA_LOCS];                     /* likewise the scratch buffers */
    bool passes[PEALI_CUDA_LOCS];                         /* those that hold nothing */
    uint64_t arrives;                     /* bit per landing slot of this rank: a message fills it */
    uint32_t sent_at[PEALI_POST_SLOTS];   /* where what is sent starts, likewise */
    int sends;                            /* placed so far */
} loader;

static uint64_t up(uint64_t x, uint64_t step)
{
    return (x + step - 1) / step * step;
}

/*
 * The shares of a lane's memory: scratch 4/64; lines of 16 bytes, so that of 8 MiB, 64 lanes exchange 512 KiB of 2 ranks, or 64 KiB
 * of 4; lines of 128 bytes, so that 1 MiB of 2 or 4 ranks is a slice for each of 64 CTAs; and bulk what is left: with 16/64 it took
 * 1.3 to 1.6 times as long on 2 H200 as with 24/64. FAR: no call is direct; lines of 16 bytes so that 10 KiB of two nodes of two
 * are a slice, and none of 128 bytes.
 */
static peali_cuda_layout lay_out_lanes(size_t bytes, int nranks, bool far, uint32_t lanes)
{
    static const unsigned pair_shares[PEALI_CUDA_BULK] = {17, 19}, near_shares[PEALI_CUDA_BULK] = {9, 28};
    static const unsigned far_shares[PEALI_CUDA_BULK] = {8, 0};
    const unsigned *shares = far ? far_shares : nranks <= 2 ? pair_shares : near_shares;
    const uint64_t all = far ? lanes : (uint64_t)lanes * (PEALI_CUDA_DIRECT_LANES / PEALI_CUDA_LANES);
    peali_cuda_layout l = {.lanes = lanes, .direct_lanes = (uint32_t)all};
    uint64_t at = up(2 * (uint64_t)nranks * sizeof(uint64_t), PEALI_CUDA_LINE);
    l.left = at;
    at = up(at + all * (uint64_t)nranks * sizeof(uint32_t), PEALI_CUDA_LINE);
    l.flags = at;
    l.votes = at + all * 2 * PEALI_CUDA_SLOTS * sizeof(uint32_t);
    at = up(l.votes + all * 2 * (uint64_t)nranks * PEALI_CUDA_VOTE, 1024);
    uint64_t share = at < bytes ? (bytes - at) / lanes / 64 : 0, left = 64 * share;
    l.tmp = at;
    l.tmp_bytes = 4 * share / 1024 * 1024;
    at += lanes * l.tmp_bytes;
    left -= l.tmp_bytes;
    for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++) {
        l.areas[proto] = at;
        l.area_bytes[proto] = (proto == PEALI_CUDA_BULK ? left : share * shares[proto]) / 2 / 1024 * 1024;
        at += 2 * lanes * l.area_bytes[proto];
        left -= 2 * l.area_bytes[proto];
    }
    l.bytes = l.area_bytes[PEALI_CUDA_LL] >= LEAST_AREA && l.area_bytes[PEALI_CUDA_BULK] >= LEAST_AREA ? at : 0;
    return l;
}

peali_cuda_layout peali_cuda_lay_out(size_t bytes, int nranks, bool far)
{
    uint32_t lanes = far ? FAR_LANES : PEALI_CUDA_LANES;
    peali_cuda_layout l = lay_out_lanes(bytes, nranks, far, lanes);
    while (l.bytes == 0 && lanes > 1) {
        lanes /= 2;
        l = lay_out_lanes(bytes, nranks, far, lanes);
    }
    return l;
}

/* Complex sums are sums of parts. What is only moved has no type: the kernel of float moves it. */
static bool choose_arithmetic(loader *l)
{
    peal_type type = l->job->type;
    peal_op op = l->job->op;
    bool moved = l->job->kind == PEAL_BROADCAST || l->job->kind == PEAL_ALLGATHER;
    if (moved) {
        type = PEAL_FLOAT;
        op = PEAL_SUM;
    } else if (op == PEAL_SUM || op == PEAL_AVG) {
        type = type == PEAL_COMPLEX_FLOAT ? PEAL_FLOAT : type == PEAL_COMPLEX_DOUBLE ? PEAL_DOUBLE : type;
    }
    l->call->type = (uint8_t)type;
    l->call->op = (uint8_t)peali_op_combines(op);
    l->call->scaled = op == PEAL_PREMUL_SUM;
    l->call->ranks = op == PEAL_AVG && !moved ? (uint32_t)l->program->nranks : 0;
    return type < PEAL_LONG_DOUBLE;
}

static bool is_message(const peali_instr *i)
{
    return i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV;
}

/* Lines of 128 bytes arrive whole over NVLink alone. */
static bool for_kernels(const peali_program *p, peali_cuda_proto proto)
{
    int messages = 0;
    for (int32_t i = 0; i < p->ninstrs; i++)
        messages += is_message(&p->instrs[i]);
    return p->mode == PEALI_PUSH && p->nreach <= PEALI_CUDA_RANKS && p->nblocks <= UINT16_MAX && messages <= PEALI_POST_SLOTS &&
           (p->nreach == p->nranks || proto != PEALI_CUDA_LL128);
}

static void note_arrivals(loader *l)
{
    const peali_program *p = l->program;
    for (int32_t i = 0; i < p->ninstrs; i++)
        if (p->instrs[i].kind == PEALI_I_RECV)
            l->arrives |= (uint64_t)1 << (-1 - p->locs[p->instrs[i].locs].buf);
}

static void describe_vector(loader *l)
{
    peali_cuda_call *c = l->call;
    const peali_program *p = l->program;
    bool split = l->job->kind == PEAL_ALLGATHER || l->job->kind == PEAL_REDUCE_SCATTER;
    c->me = (uint8_t)p->me;
    c->nranks = (uint8_t)p->nreach;
    c->proto = (uint8_t)l->job->proto;
    c->parts = split ? (uint32_t)p->nranks : 1;
    c->blocks = (uint32_t)p->nblocks / c->parts;
    c->part_of = c->parts > 1 ? (uint32_t)up((uint64_t)1 << 31, c->blocks) / c->blocks : 0;
    c->part_bytes = l->job->count * peal_type_bytes(l->job->type);
    c->in_skip = l->job->kind == PEAL_ALLGATHER ? (uint64_t)p->rank * c->part_bytes : 0;
    c->out_skip = l->job->kind == PEAL_REDUCE_SCATTER ? (uint64_t)p->rank * c->part_bytes : 0;
    l->packs = up(c->part_bytes, PEALI_CUDA_PACK) / PEALI_CUDA_PACK;
    bool all = l->job->kind != PEAL_REDUCE || p->rank == l->job->root, own = l->job->kind == PEAL_REDUCE_SCATTER;
    c->wanted[0] = own ? (uint32_t)p->rank * c->blocks : 0;
    c->wanted[1] = own ? c->wanted[0] + c->blocks : all ? (uint32_t)p->nblocks : 0;
}

/* Where block B of all parts begins in a slice of PACKS packs of a part: as the kernel has it. */
static uint64_t position(const peali_cuda_call *c, uint32_t packs, uint32_t b)
{
    uint32_t part = b / c->blocks, j = b % c->blocks, longer = packs % c->blocks;
    return (uint64_t)part * packs + (uint64_t)j * (packs / c->blocks) + (j < longer ? j : longer);
}

/* Room for blocks [first, end) of a slice of PACKS, in units of 16 bytes. Whole lines of 128 bytes, for speed. */
static uint64_t room(const peali_cuda_call *c, peali_cuda_proto proto, uint32_t packs, uint32_t first, uint32_t end)
{
    uint64_t n = position(c, packs, end) - position(c, packs, first), line = PEALI_CUDA_LINE / PEALI_CUDA_PACK;
    if (proto == PEALI_CUDA_LL128)
        return (2 * n + PEALI_CUDA_LINE_WORDS - 1) / PEALI_CUDA_LINE_WORDS * line;
    return up(proto == PEALI_CUDA_LL ? 2 * n : n, line);
}

/* A slot of [FIRST, END) at *AT, which goes on behind it; where its data is, as any may be a message, which begins with a head. */
static uint32_t take(const loader *l, uint32_t packs, uint32_t first, uint32_t end, uint64_t *at)
{
    uint64_t head = l->program->nreach < l->program->nranks ? PEALI_CUDA_LINE / PEALI_CUDA_PACK : 0, data = *at + head;
    *at = data + room(l->call, l->job->proto, packs, first, end);
    return (uint32_t)data;
}

/* Places what is sent out of reach; false where it does not fit. */
static bool place_sent(loader *l, uint32_t packs)
{
    const peali_program *p = l->program;
    uint64_t at = 0;
    for (int32_t k = 0, sends = 0; k < p->ninstrs; k++) {
        const peali_instr *i = &p->instrs[k];
        if (i->kind == PEALI_I_SEND)
            l->sent_at[sends++] = take(l, packs, (uint32_t)p->cuts[i->first], (uint32_t)p->cuts[i->end], &at);
    }
    return at <= l->layout->area_bytes[l->job->proto] / PEALI_CUDA_PACK;
}

/* Places all landing slots for slices of PACKS; false where they do not fit. */
static bool place_slots(loader *l, uint32_t packs)
{
    const peali_program *p = l->program;
    uint64_t most = l->layout->area_bytes[l->job->proto] / PEALI_CUDA_PACK;
    for (int x = 0; x < p->nreach; x++) {
        uint64_t at = 0;
        for (int32_t s = p->land_start[x]; s < p->land_start[x + 1]; s++) {
            uint32_t first = (uint32_t)p->cuts[p->land_first[s]], end = (uint32_t)p->cuts[p->land_end[s]];
            l->land_at[x][s - p->land_start[x]] = take(l, packs, first, end, &at);
        }
        if (at > most)
            return false;
    }
    return true;
}

/*
 * Instruction K sends what the one before it makes, and no other rank within reach gets: it is stored into the message there and
 * then. Which destination of that instruction it is; -1 where it does not.
 */
static int sent_at_once(const peali_program *p, int32_t k)
{
    const peali_instr *i = &p->instrs[k], *made = i - 1;
    int found = -1;
    if (k == 0 || i->kind != PEALI_I_SEND || made->kind != PEALI_I_REDUCE || made->first != i->first || made->end != i->end ||
        made->nsrc == 0 || made->ndst == PEALI_CUDA_OPERANDS)
        return -1;
    for (int d = 0; d < made->ndst; d++) {
        const peali_loc to = p->locs[made->locs + made->nsrc + d];
        if (to.buf < 0)
            return -1;
        found = peali_loc_same(to, p->locs[i->locs]) ? d : found;
    }
    return found;
}

/* Scratch that one instruction writes, and one reads, which sends it at once, holds nothing. */
static void find_passing(loader *l)
{
    const peali_program *p = l->program;
    int uses[PEALI_CUDA_LOCS] = {0};
    for (int32_t k = 0; k < p->ninstrs; k++) {
        const peali_instr *i = &p->instrs[k];
        for (int n = 0; n < i->nsrc + i->ndst; n++) {
            const int buf = p->locs[i->locs + n].buf - PEAL_BUF_TMP;
            const bool once = n < i->nsrc ? sent_at_once(p, k) >= 0 : k + 1 < p->ninstrs && sent_at_once(p, k + 1) == n - i->nsrc;
            if (buf >= 0)
                uses[buf] += once ? 1 : 3;
        }
    }
    for (int32_t n = 0; n < p->nscratch; n++)
        l->passes[n] = uses[n] == 2;
}

/* A scratch buffer holds any SLOT_BLOCKS blocks: the first of a part are the longest. */
static bool place_scratch(loader *l, uint32_t packs)
{
    uint64_t at = 0;
    for (int32_t i = 0; i < l->program->nscratch; i++) {
        if (l->passes[i])
            continue;
        uint32_t blocks = (uint32_t)l->program->slot_blocks[i];
        l->tmp_at[i] = (uint32_t)at;
        at += room(l->call, PEALI_CUDA_BULK, packs, 0, blocks);
    }
    return at <= l->layout->tmp_bytes / PEALI_CUDA_PACK;
}

static bool place(loader *l, uint32_t packs)
{
    return place_slots(l, packs) && place_sent(l, packs) && place_scratch(l, packs);
}

/* The longest slice that fits, 0 where none does. */
static uint32_t longest_slice(loader *l)
{
    uint64_t area = l->layout->area_bytes[PEALI_CUDA_BULK] / PEALI_CUDA_PACK * PEALI_CUDA_RANKS;
    uint32_t lo = 0, hi = (uint32_t)(l->packs < area ? l->packs : area);
    while (lo < hi) {
        uint32_t mid = hi - (hi - lo) / 2;
        if (place(l, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static bool few_slots(const peali_program *p)
{
    for (int x = 0; x < p->nreach; x++)
        if (p->land_start[x + 1] - p->land_start[x] > PEALI_CUDA_SLOTS)
            return false;
    return p->nscratch <= PEALI_CUDA_LOCS;
}

/* Cuts parts into slices for at most CTAS; false where not even a pack of each part fits. */
static bool cut(loader *l, uint32_t *ctas)
{
    peali_cuda_call *c = l->call;
    uint64_t most = l->job->ctas < l->layout->lanes ? l->job->ctas : l->layout->lanes, slices;
    uint64_t limit = l->job->most_ctas < l->layout->lanes ? l->job->most_ctas : l->layout->lanes;
    *ctas = 1;
    if (l->packs == 0)
        return true;
    uint32_t fits = l->job->longest ? l->job->longest : longest_slice(l);
    if (fits == 0)
        return false;
    uint64_t work = l->packs * c->parts / WORK_PACKS;
    most = most < 1 ? 1 : most > l->packs ? l->packs : most;
    slices = (l->packs + fits - 1) / fits;
    if (slices > most && limit > most) /* rather more CTAs than slices one after the other */
        most = slices < limit ? slices : limit;
    slices = slices > most ? up(slices, most) : slices > work ? slices : work < most ? work : most;
    slices = slices < 1 ? 1 : slices > l->packs ? l->packs : slices;
    if (slices > UINT32_MAX || l->packs / slices >= UINT32_MAX)
        return false;
    c->slices = (uint32_t)slices;
    c->slice_packs = (uint32_t)(l->packs / slices);
    c->long_slices = (uint32_t)(l->packs % slices);
    c->block_packs = c->slice_packs / c->blocks;
    c->long_blocks = c->slice_packs % c->blocks;
    *ctas = (uint32_t)(slices < most ? slices : most);
    return place(l, c->slice_packs + (c->long_slices > 0));
}

static peali_cuda_loc locate(const loader *l, peali_loc from)
{
    const peali_program *p = l->program;
    if (from.buf == PEAL_BUF_IN || from.buf == PEAL_BUF_OUT)
        return (peali_cuda_loc){.where = from.buf == PEAL_BUF_IN ? PEALI_CUDA_IN : PEALI_CUDA_OUT};
    if (from.buf >= PEAL_BUF_TMP)
        return (peali_cuda_loc){PEALI_CUDA_TMP, 0, (uint16_t)p->cuts[from.base], l->tmp_at[from.buf - PEAL_BUF_TMP]};
    int slot = -1 - from.buf;
    bool arrives = from.rank == p->me && l->arrives >> slot & 1;
    return (peali_cuda_loc){(uint8_t)(arrives ? PEALI_CUDA_ARRIVES : PEALI_CUDA_SLOT + from.rank), (uint8_t)slot,
                            (uint16_t)p->cuts[p->land_first[p->land_start[from.rank] + slot]], l->land_at[from.rank][slot]};
}

static void add_loc(loader *l, peali_cuda_op *op, peali_loc loc, unsigned of_slots)
{
    peali_cuda_loc *at = &l->call->locs[l->nlocs++];
    *at = locate(l, loc);
    op->slots |= loc.buf < 0 ? of_slots : 0;
    op->slots |= at->where >= PEALI_CUDA_TMP && at->base != op->first ? PEALI_CUDA_WITHIN : 0;
}

static void add_sources(loader *l, peali_cuda_op *op, const peali_loc *locs)
{
    op->own = op->nsrc;
    for (int k = 0; k < op->nsrc; k++) {
        add_loc(l, op, locs[k], PEALI_CUDA_FROM_SLOTS);
        const uint8_t where = l->call->locs[l->nlocs - 1].where;
        const bool arrives = where == PEALI_CUDA_ARRIVES, bulk = l->call->proto == PEALI_CUDA_BULK;
        if (arrives && !bulk && op->nsrc > 1)
            op->slots |= PEALI_CUDA_MANY_OWN;
        if (where >= PEALI_CUDA_SLOT && !(arrives && bulk))
            continue;
        op->slots |= op->own < op->nsrc ? PEALI_CUDA_MANY_OWN : 0;
        op->own = (uint8_t)k;
        op->slots = (uint8_t)(op->slots % PEALI_CUDA_OWN_WHERE);
        op->slots |= (uint8_t)((where < PEALI_CUDA_SLOT ? where : PEALI_CUDA_SLOT) * PEALI_CUDA_OWN_WHERE);
    }
}

/* Slots first. */
static void add_targets(loader *l, peali_cuda_op *op, const peali_loc *locs)
{
    for (int mine = 0; mine < 2; mine++)
        for (int k = 0; k < op->ndst; k++)
            if ((locs[k].buf >= 0) == mine)
                add_loc(l, op, locs[k], PEALI_CUDA_TO_SLOTS);
    for (int k = 0; k < op->ndst; k++)
        op->nput += locs[k].buf < 0;
}

/* Over these blocks; at the end of all, what has NSRC sources and no destination only waits. */
static bool add(loader *l, const peali_loc *locs, int nsrc, int ndst, uint32_t first, uint32_t end)
{
    peali_cuda_call *c = l->call;
    const int most = nsrc > ndst ? nsrc : ndst;
    if (c->nops == PEALI_CUDA_OPS || l->nlocs + (uint32_t)(nsrc + ndst) > PEALI_CUDA_LOCS || most > PEALI_CUDA_OPERANDS)
        return false;
    peali_cuda_op *op = &c->ops[c->nops++];
    *op = (peali_cuda_op){.nsrc = (uint8_t)nsrc, .ndst = (uint8_t)ndst, .locs = (uint16_t)l->nlocs, .first = (uint16_t)first,
                          .end = (uint16_t)end};
    add_sources(l, op, locs);
    add_targets(l, op, locs + nsrc);
    return true;
}

/* The operation before, whose destination number FOUND is sent, stores into the message too, or in place of scratch that passes. */
static bool join(loader *l, const peali_instr *i, int found)
{
    const peali_loc from = l->program->locs[i->locs];
    peali_cuda_op *op = &l->call->ops[l->call->nops - 1];
    peali_cuda_loc *to = &l->call->locs[op->locs + op->nsrc];
    if (from.buf >= PEAL_BUF_TMP && l->passes[from.buf - PEAL_BUF_TMP]) {
        to[found] = to[0];
        return true;
    }
    if (l->nlocs == PEALI_CUDA_LOCS)
        return false;
    memmove(to + 1, to, op->ndst++ * sizeof *to);
    l->nlocs++;
    return true;
}

/* A send is a copy to where the message lies, the first destination of its operation. */
static bool add_message(loader *l, const peali_instr *i)
{
    const peali_program *p = l->program;
    peali_cuda_call *c = l->call;
    const bool sends = i->kind == PEALI_I_SEND;
    const uint32_t first = (uint32_t)p->cuts[i->first], end = (uint32_t)p->cuts[i->end];
    const int found = sent_at_once(p, (int32_t)(i - p->instrs));
    if (found >= 0 ? !join(l, i, found) : !add(l, p->locs + i->locs, sends, !sends, first, end))
        return false;
    peali_cuda_op *op = &c->ops[c->nops - 1];
    op->peer = (uint16_t)i->peer;
    op->lane = i->lane;
    op->number = c->messages++;
    if (!sends)
        return true;
    if (l->nlocs == PEALI_CUDA_LOCS && found < 0)
        return false;
    c->locs[op->locs + op->nsrc] = (peali_cuda_loc){.where = PEALI_CUDA_LEAVES, .base = op->first, .at = l->sent_at[l->sends++]};
    l->nlocs += found < 0;
    op->ndst += found < 0;
    op->nput = 1;
    op->slots |= PEALI_CUDA_TO_SLOTS;
    return true;
}

static bool add_instr(loader *l, const peali_instr *i)
{
    const peali_program *p = l->program;
    const peali_loc *locs = p->locs + i->locs;
    if (is_message(i))
        return add_message(l, i);
    if (i->kind == PEALI_I_REDUCE)
        return i->nsrc == 0 || add(l, locs, i->nsrc, i->ndst, (uint32_t)p->cuts[i->first], (uint32_t)p->cuts[i->end]);
    for (int k = 0; i->kind == PEALI_I_EXIT && k < i->nsrc + i->ndst; k++) {
        int32_t slot = p->land_start[p->me] - 1 - locs[k].buf;
        if (!add(l, &locs[k], 1, 0, (uint32_t)p->cuts[p->land_first[slot]], (uint32_t)p->cuts[p->land_end[slot]]))
            return false;
    }
    return true;
}

static void note_rare(peali_cuda_call *c)
{
    c->rare |= c->scaled || c->ranks || c->messages;
    for (uint32_t n = 0; n < c->nops; n++)
        c->rare |= c->ops[n].nsrc > PEALI_CUDA_FEW || (c->ops[n].slots & PEALI_CUDA_MANY_OWN);
}

/* Of slices that are not the longer ones; for those it is near enough. */
static void note_touch(peali_cuda_call *c)
{
    const peali_cuda_op *op = &c->ops[0];
    if (op->own >= op->nsrc || c->locs[op->locs + op->own].where != PEALI_CUDA_IN)
        return;
    const uint64_t part = op->first / c->blocks, before = position(c, c->slice_packs, op->first % c->blocks) * PEALI_CUDA_PACK;
    c->touch = part * c->part_bytes + before - c->in_skip;
    c->touch_bytes = before < c->part_bytes ? c->part_bytes - before : 0;
}

/*
 * Who hears whom was found for messages that carry a flag even when they are empty; here an empty one carries none. What the
 * result of a block depends on is heard all the same: of every rank where all are reduced or gathered, and some block is not empty.
 */
static void note_neighbours(loader *l)
{
    peali_cuda_call *c = l->call;
    const peali_program *p = l->program;
    bool all = l->job->kind != PEAL_BROADCAST && l->job->kind != PEAL_REDUCE;
    c->all_hear = (p->all_hear && all) || p->nreach == 1;
    for (int x = 0; x < p->nreach; x++) {
        c->stores_to |= (uint16_t)((x != p->me && p->stores_to[x]) << x);
        c->hears |= (uint16_t)((x != p->me && p->knows[x] && l->packs > 0) << x);
    }
}

uint32_t peali_cuda_longest(const peali_program *program, const peali_cuda_job *job, const peali_cuda_layout *layout)
{
    peali_cuda_call call = {0};
    loader l = {.program = program, .job = job, .layout = layout, .call = &call};
    if (!for_kernels(program, job->proto) || !few_slots(program))
        return 0;
    describe_vector(&l);
    find_passing(&l);
    return longest_slice(&l);
}

peal_status peali_cuda_load(const peali_program *program, const peali_cuda_job *job, const peali_cuda_layout *layout,
                            peali_cuda_call *call, uint32_t *ctas)
{
    loader l = {.program = program, .job = job, .layout = layout, .call = call};
    memset(call, 0, sizeof *call);
    call->layout = *layout;
    if (!for_kernels(program, job->proto) || !few_slots(program) || !choose_arithmetic(&l))
        return PEAL_ERR_UNSUPPORTED;
    describe_vector(&l);
    note_arrivals(&l);
    find_passing(&l);
    if (!cut(&l, ctas))
        return PEAL_ERR_UNSUPPORTED;
    for (int32_t i = 0; i < program->ninstrs && l.packs > 0; i++)
        if (!add_instr(&l, &program->instrs[i]))
            return PEAL_ERR_UNSUPPORTED;
    if (call->nops == 0) /* one that does nothing */
        call->nops = 1;
    note_neighbours(&l);
    call->threads = peali_cuda_threads(call);
    peali_cuda_find_exchange(call, *ctas);
    peali_cuda_order(call, call->threads);
    note_rare(call);
    note_touch(call);
    return PEAL_OK;
}

/* Sums of these types have their own, where nothing is rare, and where something is. */
#define NAMES(proto) \
    {[PEAL_FP8_E4M3] = "peal_" proto "_fp8_e4m3", [PEAL_FP8_E5M2] = "peal_" proto "_fp8_e5m2", \
     [PEAL_FP16] = "peal_" proto "_fp16",         [PEAL_BF16] = "peal_" proto "_bf16", \
     [PEAL_FLOAT] = "peal_" proto "_float",       [PEAL_DOUBLE] = "peal_" proto "_double"}

const char *peali_cuda_kernel(const peali_cuda_call *call)
{
    static const char *const names[2][PEALI_CUDA_PROTOS][PEAL_TYPE_COUNT] = {
        {NAMES("ll"), NAMES("ll128"), NAMES("bulk")}, {NAMES("ll_rare"), NAMES("ll128_rare"), NAMES("bulk")}};
    static const char *const any[PEALI_CUDA_PROTOS] = {"peal_ll_any", "peal_ll128_any", "peal_bulk_any"};
    static const char *const moves[2][PEALI_CUDA_SHAPES] = {
        {[PEALI_CUDA_MOVES] = "peal_exchange_moves",
         [PEALI_CUDA_GIVES] = "peal_exchange_gives",
         [PEALI_CUDA_KEEPS] = "peal_exchange_keeps"},
        {[PEALI_CUDA_MOVES] = "peal_exchange_lines_moves",
         [PEALI_CUDA_GIVES] = "peal_exchange_lines_gives",
         [PEALI_CUDA_KEEPS] = "peal_exchange_lines_keeps"}};
    static const char *const exchanges[2][3][PEAL_TYPE_COUNT] = {
        {NAMES("exchange"), NAMES("exchange_takes")},
        {NAMES("exchange_lines"), NAMES("exchange_lines_takes"), NAMES("exchange_lines_shares")}};
    static const char *const any_exchange[2][3] = {
        {"peal_exchange_any", "peal_exchange_takes_any"},
        {"peal_exchange_lines_any", "peal_exchange_lines_takes_any", "peal_exchange_lines_shares_any"}};
    const bool lines = call->proto == PEALI_CUDA_LL128;
    const int way = call->exchanges == PEALI_CUDA_TAKES ? 1 : lines && call->exchanges == PEALI_CUDA_SHARES ? 2 : 0;
    if (moves[lines][call->exchanges])
        return moves[lines][call->exchanges];
    const char *own = call->exchanges ? exchanges[lines][way][call->type] : names[call->rare][call->proto][call->type];
    if (call->op == PEAL_SUM && own)
        return own;
    return call->exchanges ? any_exchange[lines][way] : any[call->proto];
}
