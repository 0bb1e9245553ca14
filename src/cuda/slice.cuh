/* One slice of a call as a thread of a CTA sees it: what lies where, who waits how long, and what it says when it gives up. */
#ifndef PEALI_CUDA_SLICE_CUH
#define PEALI_CUDA_SLICE_CUH

#include "cuda/memory.cuh"

struct slice {
    const peali_cuda_call &c;
    uint32_t thread, threads; /* of those that move data */
    uint32_t lane, epoch;
    uint32_t flag;   /* of this epoch */
    uint32_t packs, block_packs, long_blocks; /* as in the call, of this slice */
    uint64_t at;     /* bytes from the start of a part to this slice */
    uint64_t area;   /* bytes from the start of a rank's scratch to this slice's landing area */
    bool aligned;    /* as in the call, of all vectors that this slice touches */
    uint32_t orders = 0; /* for thread 0: before those of this slice */
};

/*
 * Flags are 31 bits of the epoch and one that is always set, so that none is 0. They are compared for equality and never reset;
 * clean() sees to it that none lies in an area for so long that its number comes again.
 */
DEVICE uint32_t flag_of(uint32_t epoch)
{
    return epoch | 0x80000000U;
}

/* Fills in what S is of a part that is cut into slices like this, of which LONG_SLICES, the first ones, are a pack longer. */
DEVICE void cut_out(slice &s, uint32_t number, uint32_t slice_packs, uint32_t long_slices, uint32_t block_packs,
                    uint32_t long_blocks)
{
    bool longer = number < long_slices;
    s.packs = slice_packs + longer;
    s.block_packs = block_packs;
    s.long_blocks = long_blocks + longer;
    if (s.long_blocks == s.c.blocks) {
        s.block_packs++;
        s.long_blocks = 0;
    }
    s.at = ((uint64_t)number * slice_packs + (longer ? number : long_slices)) * PEALI_CUDA_PACK;
}

/* Its epoch is still open: a CTA has to ask for that, and what does not depend on it is got ready meanwhile. */
DEVICE slice slice_of(const peali_cuda_call &c, uint32_t number)
{
    slice s = {c, thread_here(), threads_here() - PEALI_CUDA_BOARD, cta_here(), 0, 0, 0, 0, 0, 0, 0, c.aligned != 0};
    cut_out(s, number, c.slice_packs, c.long_slices, c.block_packs, c.long_blocks);
    return s;
}

DEVICE void set_epoch(slice &s, int proto, uint32_t epoch)
{
    s.epoch = epoch;
    s.flag = flag_of(epoch);
    s.area = s.c.layout.areas[proto] + (2 * s.lane + (epoch & 1)) * s.c.layout.area_bytes[proto];
}

/* Where block B of all parts begins: packs from the start of the slice. */
DEVICE uint32_t part_of(const slice &s, uint32_t b)
{
    return (uint32_t)((uint64_t)b * s.c.part_of >> 31);
}

DEVICE uint32_t position(const slice &s, uint32_t b)
{
    uint32_t part = part_of(s, b);
    uint32_t j = b - part * s.c.blocks;
    return part * s.packs + j * s.block_packs + (j < s.long_blocks ? j : s.long_blocks);
}

DEVICE unsigned char *in_of(const peali_cuda_call &c)
{
    return (unsigned char *)c.in - c.in_skip;
}

DEVICE unsigned char *out_of(const peali_cuda_call &c)
{
    return (unsigned char *)c.out - c.out_skip;
}

/* A range of blocks, in words of 8 bytes. */
struct range {
    uint32_t first, words; /* from the start of the slice, over all parts */
    uint32_t plain;        /* so many at its start lie in one piece, whole and aligned */
    uint64_t at;           /* bytes from the start of the vector, where there are plain ones */
};

/* CLIPPED: without the word, if any, of which nothing is there in the last pack of a part, where that is all of a range's end. */
DEVICE range range_of(const slice &s, uint32_t first, uint32_t end, bool clipped)
{
    const peali_cuda_call &c = s.c;
    uint32_t from = position(s, first), to = position(s, end), part = part_of(s, first);
    range r = {2 * from, 2 * (to - from), 0, 0};
    uint64_t in_part = s.at + (uint64_t)(from - part * s.packs) * PEALI_CUDA_PACK;
    r.at = part * c.part_bytes + in_part;
    if (to > (part + 1) * s.packs || in_part >= c.part_bytes)
        return r;
    const uint64_t there = (c.part_bytes - in_part) / 8, begun = (c.part_bytes - in_part + 7) / 8;
    if (clipped)
        r.words = begun < r.words ? (uint32_t)begun : r.words;
    if (s.aligned)
        r.plain = there < r.words ? (uint32_t)there : r.words;
    return r;
}

/* N words, aligned to all of them. */
template <int N> DEVICE void load_plain(const unsigned char *from, uint64_t *v)
{
    if (N == 2) {
        quad q = *(const quad *)from;
        v[0] = q.x | (uint64_t)q.y << 32;
        v[N - 1] = q.z | (uint64_t)q.w << 32;
    } else {
        v[0] = *(const uint64_t *)from;
    }
}

DEVICE quad quad_of(uint64_t a, uint64_t b)
{
    quad q = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
    return q;
}

template <int N> DEVICE void store_plain(unsigned char *to, const uint64_t *v)
{
    if (N == 2)
        *(quad *)to = quad_of(v[0], v[N - 1]);
    else
        *(uint64_t *)to = v[0];
}

/* Bytes of a part that are there from AT on, as far as a word goes. */
DEVICE uint32_t bytes_at(const peali_cuda_call &c, uint64_t at)
{
    uint64_t left = at < c.part_bytes ? c.part_bytes - at : 0;
    return left < 8 ? (uint32_t)left : 8;
}

/*
 * Word WORD of the slice at AT of PACKS packs a part, over all parts of VECTOR: what is not there is 0, or not stored. Where words
 * are not aligned, or not whole. Called, so that all of this is no burden on the loops.
 */
DEVICE_SLOW uint64_t load_odd(const peali_cuda_call &c, const unsigned char *vector, uint64_t at, uint32_t packs, uint32_t word)
{
    uint32_t part = c.parts > 1 ? word / (2 * packs) : 0;
    at += (uint64_t)(word - part * 2 * packs) * 8;
    uint32_t bytes = bytes_at(c, at);
    const unsigned char *from = vector + part * c.part_bytes + at;
    uint64_t value = 0;
    uint32_t i = 0;
    if (bytes == 8 && (uintptr_t)from % 8 == 0)
        return *(const uint64_t *)from;
    for (; (uintptr_t)from % 4 == 0 && i + 4 <= bytes; i += 4)
        value |= (uint64_t)*(const uint32_t *)(from + i) << 8 * i;
    for (; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

DEVICE_SLOW void store_odd(const peali_cuda_call &c, unsigned char *vector, uint64_t at, uint32_t packs, uint32_t word,
                           uint64_t value)
{
    uint32_t part = c.parts > 1 ? word / (2 * packs) : 0;
    at += (uint64_t)(word - part * 2 * packs) * 8;
    uint32_t bytes = bytes_at(c, at);
    unsigned char *to = vector + part * c.part_bytes + at;
    uint32_t i = 0;
    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        *(uint64_t *)to = value;
        return;
    }
    for (; (uintptr_t)to % 4 == 0 && i + 4 <= bytes; i += 4)
        *(uint32_t *)(to + i) = (uint32_t)(value >> 8 * i);
    for (; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* N words from word U of range R of VECTOR on. */
template <int N> DEVICE void load_memory(const slice &s, const range &r, const unsigned char *vector, uint32_t u, uint64_t *v)
{
    if (u + N <= r.plain)
        load_plain<N>(vector + r.at + 8 * (uint64_t)u, v);
    else
        for (int i = 0; i < N; i++)
            v[i] = load_odd(s.c, vector, s.at, s.packs, r.first + u + i);
}

template <int N> DEVICE void store_memory(const slice &s, const range &r, unsigned char *vector, uint32_t u, const uint64_t *v)
{
    if (u + N <= r.plain)
        store_plain<N>(vector + r.at + 8 * (uint64_t)u, v);
    else
        for (int i = 0; i < N; i++)
            store_odd(s.c, vector, s.at, s.packs, r.first + u + i, v[i]);
}

/* Landing slot LOC, and scratch buffer LOC. */
DEVICE unsigned char *slot_at(const slice &s, const peali_cuda_loc &loc)
{
    return s.c.scratch[loc.where - PEALI_CUDA_SLOT] + s.area + loc.at * (uint64_t)PEALI_CUDA_PACK;
}

DEVICE unsigned char *scratch_at(const slice &s, const peali_cuda_loc &loc)
{
    const peali_cuda_layout &l = s.c.layout;
    return s.c.scratch[s.c.me] + l.tmp + s.lane * l.tmp_bytes + loc.at * (uint64_t)PEALI_CUDA_PACK;
}

/* Where all messages begin, or their lines: with the areas of those that arrive. */
DEVICE const unsigned char *messages_of(const peali_cuda_call &c, int proto)
{
    return c.scratch[PEALI_CUDA_ARRIVES - PEALI_CUDA_SLOT] + c.layout.areas[proto];
}

DEVICE const uint64_t *board_of(const peali_cuda_call &c, uint32_t call)
{
    return (const uint64_t *)(c.scratch[c.me] + c.layout.board) + (call & 1) * c.nranks;
}

/* A number that goes round: how far A is ahead of B. */
DEVICE int32_t ahead(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* Who calls otherwise than this rank in its call OWN, or has not called: into *R. Of several, one that calls otherwise. */
DEVICE void blame(const peali_cuda_call &c, uint64_t own, peali_cuda_report *r)
{
    const uint64_t *board = board_of(c, (uint32_t)(own >> 32));
    r->rank = PEALI_CUDA_RANKS;
    r->mine = c.signature;
    r->its = 0;
    for (uint32_t i = 0; i < c.nranks; i++) {
        uint64_t its = load_word(board + i);
        int32_t age = ahead((uint32_t)(its >> 32), (uint32_t)(own >> 32));
        bool differs = age == 0 && its != own;
        if (!differs && (age >= 0 || r->rank != PEALI_CUDA_RANKS))
            continue;
        r->rank = i;
        r->its = differs ? (uint32_t)its : 0;
        if (differs)
            return;
    }
}

/* Of those that operation OP waits for; an exchange has none, nor operations. */
DEVICE uint32_t first_slot(const peali_cuda_call &c, uint32_t op)
{
    for (uint32_t k = 0; !c.exchanges && op < PEALI_CUDA_OPS && op < c.nops && k < c.ops[op].nsrc; k++)
        if (c.locs[c.ops[op].locs + k].where >= PEALI_CUDA_SLOT)
            return c.locs[c.ops[op].locs + k].slot;
    return PEALI_CUDA_SLOTS;
}

/* The newest that this rank has put on the board. */
DEVICE uint64_t own_call(const peali_cuda_call &c)
{
    uint64_t even = load_word(board_of(c, 0) + c.me), odd = load_word(board_of(c, 1) + c.me);
    return ahead((uint32_t)(odd >> 32), (uint32_t)(even >> 32)) > 0 ? odd : even;
}

/* The call OWN of this rank, in which it waits in EPOCH and OP, and for whom. */
DEVICE peali_cuda_report look_around(const peali_cuda_call &c, uint32_t epoch, uint32_t op, uint64_t own)
{
    peali_cuda_report r = {};
    blame(c, own, &r);
    r.epoch = epoch;
    r.lane = cta_here();
    r.op = op;
    r.slot = first_slot(c, op);
    return r;
}

/* The fields are there before the kind is (store_release; the host acquires). */
DEVICE void tell_host(peali_cuda_report *to, const peali_cuda_report &r, uint32_t kind)
{
    store_relaxed(&to->rank, r.rank);
    store_relaxed(&to->mine, r.mine);
    store_relaxed(&to->its, r.its);
    store_relaxed(&to->epoch, r.epoch);
    store_relaxed(&to->lane, r.lane);
    store_relaxed(&to->op, r.op);
    store_relaxed(&to->slot, r.slot);
    store_release(&to->kind, kind);
}

/*
 * The first thread of a launch that gives up says why, and makes the others of this launch and of all later ones leave: they look
 * at DEAD, on the device, for a look at the host's memory takes a microsecond. OWN is what this rank calls, as on the board.
 */
DEVICE_SLOW void report(const peali_cuda_call &c, uint32_t kind, uint32_t epoch, uint32_t op, uint64_t own)
{
    if (!take_first(&c.lane[0].dead))
        return;
    const peali_cuda_report r = look_around(c, epoch, op, own);
    tell_host(c.report, r, kind == PEALI_CUDA_LATE && r.its ? (uint32_t)PEALI_CUDA_DIFFERS : kind);
    for (uint32_t i = 1; i < c.layout.direct_lanes; i++)
        store_relaxed(&c.lane[i].dead, 1);
}

/* A wait that is long: false where calls differ, so that it is in vain. One that is for data alone is nobody's fault. */
DEVICE_SLOW bool notice(const peali_cuda_call &c, uint32_t epoch, uint32_t op)
{
    const uint64_t own = own_call(c);
    const peali_cuda_report r = look_around(c, epoch, op, own);
    if (r.its)
        report(c, PEALI_CUDA_DIFFERS, epoch, op, own);
    else if (r.rank != PEALI_CUDA_RANKS && load_relaxed(&c.report[1].kind) == PEALI_CUDA_FINE && take_first(&c.lane[0].noticed))
        tell_host(&c.report[1], r, PEALI_CUDA_LATE);
    return !r.its;
}

/*
 * Looks at clocks and hosts, for who has waited for long, as are LOOKS at landing memory. SINCE: when this wait first came here, or 0.
 * Returns that; 0: there is no use in waiting on.
 */
DEVICE_SLOW uint64_t wait_on(const peali_cuda_call &c, uint32_t epoch, uint32_t op, uint64_t since)
{
    if (load_relaxed(&c.lane[cta_here()].dead))
        return 0;
    if (c.abort && load_relaxed(c.abort)) {
        report(c, PEALI_CUDA_ABORTED, epoch, op, own_call(c));
        return 0;
    }
    uint64_t now = now_ns();
    if (since && c.notice_ns && now - since > c.notice_ns && !notice(c, epoch, op))
        return 0;
    if (!since || !c.deadline_ns || now - since <= c.deadline_ns)
        return since ? since : now;
    report(c, PEALI_CUDA_LATE, epoch, op, own_call(c));
    return 0;
}

/* One wait of operation OP in EPOCH. */
struct wait {
    const peali_cuda_call &c;
    uint32_t epoch, op, looks;
    uint64_t since;

    DEVICE_MEMBER wait(const peali_cuda_call &call, uint32_t in_epoch, uint32_t for_op)
        : c(call), epoch(in_epoch), op(for_op), looks(0), since(0)
    {
    }
    /* After a look in vain: false where there is no use in another. */
    DEVICE_MEMBER bool on()
    {
        look_away();
        if (++looks % LOOKS)
            return true;
        since = wait_on(c, epoch, op, since);
        return since != 0;
    }
};

#endif
