/*
 * What a lane says and waits for before a slice and after it, besides data: who has left which epoch, what is cleaned once in a
 * while, and whether all ranks are in the same call.
 */
#ifndef PEALI_CUDA_LANE_CUH
#define PEALI_CUDA_LANE_CUH

#include "cuda/direct.cuh"

DEVICE uint32_t *left_at(const slice &s, uint32_t home, uint32_t rank)
{
    return (uint32_t *)(s.c.scratch[home] + s.c.layout.left) + s.lane * s.c.nranks + rank;
}

/*
 * Tells all others that this rank has left EPOCH: what its threads read there, they have read by now (meet, then store_release).
 * ENDED: in a launch before this one.
 */
DEVICE void tell_left(const slice &s, uint32_t epoch, bool ended)
{
    if (s.thread >= s.c.nranks || s.thread == s.c.me)
        return;
    uint32_t *at = left_at(s, s.thread, s.c.me);
    if (ended)
        store_behind(at, epoch);
    else
        store_release(at, epoch);
}

/*
 * Waits until the ranks that this slice stores to have left the slice before the last, whose area it takes; where they had begun the
 * last one when this rank left it, they have, and nobody asks. Else not all heard in the last one, and who begins a slice in which
 * not all hear says that it has left the one before: that is what is waited for, and it comes, for to begin the last slice those
 * ranks need nothing of this one. The threads that store begin after the ones that wait (load_acquire, then meet).
 */
DEVICE bool get_credit(const slice &s, bool ok)
{
    const peali_cuda_call &c = s.c;
    wait w(c, s.epoch, PEALI_CUDA_OPS);
    if (!c.stores_to)
        return ok;
    if (s.thread < c.nranks && (c.stores_to >> s.thread & 1))
        while (ok && ahead(load_acquire(left_at(s, c.me, s.thread)), s.epoch - 2) < 0)
            ok = w.on();
    return !meet(s.threads, !ok);
}

/* For thread 0, which alone reads it. */
DEVICE void note_orders(const slice &s)
{
    peali_cuda_lane *lane = &s.c.lane[s.lane];
    store_word((uint64_t *)&lane->orders, (s.orders + s.c.messages) | (uint64_t)s.orders << 32);
    store_relaxed(&lane->posted, s.epoch);
}

/*
 * Flags come again after 2^31 slices of a lane. So of every 1024 of them, two clear some of the lines of the area that they have
 * just read, a KiB for each protocol, and all flags beside it: an area of n KiB is clear of what is older than 1024 (n + 1)
 * slices, and n is far below 2^21. Peers store there no sooner than this rank has left the slice, and so after it is clear
 * (fence_all, meet, then what says that it has left: `left`, or the first store of the next slice).
 */
enum { CLEAN_EVERY = 1024, CLEAN_BYTES = 1024 };

DEVICE void clear(const slice &s, unsigned char *at, uint32_t bytes)
{
    const quad zero = {0, 0, 0, 0};
    for (uint32_t i = s.thread; i < bytes / sizeof zero; i += s.threads)
        store_line(at + i * sizeof zero, zero);
}

/* Of lines PROTO, whose areas begin at LINES: this slice's. */
DEVICE void clear_part(const slice &s, unsigned char *lines, int proto)
{
    const uint64_t bytes = s.c.layout.area_bytes[proto];
    if (bytes == 0)
        return;
    const uint32_t part = s.epoch / CLEAN_EVERY % (uint32_t)(bytes / CLEAN_BYTES);
    clear(s, lines + (2 * s.lane + (s.epoch & 1)) * bytes + part * (uint64_t)CLEAN_BYTES, CLEAN_BYTES);
}

DEVICE void clean(const slice &s)
{
    const peali_cuda_layout &l = s.c.layout;
    unsigned char *scratch = s.c.scratch[s.c.me];
    uint32_t *flags = (uint32_t *)(scratch + l.flags) + (2 * s.lane + (s.epoch & 1)) * PEALI_CUDA_SLOTS;
    for (int proto = PEALI_CUDA_LL; proto <= PEALI_CUDA_LL128 && s.lane < l.lanes; proto++)
        clear_part(s, scratch + l.areas[proto], proto);
    for (uint32_t i = s.thread; i < PEALI_CUDA_SLOTS; i += s.threads)
        store_relaxed(&flags[i], 0);
    clear(s, vote_at(s, s.c.me, 0, 0), s.c.nranks * PEALI_CUDA_VOTE);
    fence_all();
    meet(s.threads, false);
}

/* The same for messages, as a slice begins that may take their areas: no order for these has been given yet. */
DEVICE void clean_mail(const slice &s)
{
    unsigned char *lines = (unsigned char *)(s.c.post + 1);
    clear_part(s, lines, PEALI_CUDA_LL);
    clear_part(s, lines + 2 * s.c.layout.lanes * s.c.layout.area_bytes[PEALI_CUDA_LL], PEALI_CUDA_LL);
    clear(s, (unsigned char *)s.c.post->flags[s.lane][s.epoch & 1], sizeof s.c.post->flags[0][0]);
    fence_all();
    meet(s.threads, false);
}

/*
 * Once in a while all say how far they are, whatever they know of each other: so what is on record is never a round of numbers
 * old. Threads meet, so that none begins the next slice while another one is in this: the LAST one of a launch ends with that, and
 * needs no other end where nothing is said or cleaned.
 */
enum { SAY_EVERY = 64 * CLEAN_EVERY };
DEVICE bool due(const slice &s)
{
    return s.epoch % CLEAN_EVERY <= 1;
}

DEVICE bool leave(const slice &s, bool last, bool ok)
{
    if (last && !s.c.messages && !due(s))
        return ok;
    if (meet(s.threads, !ok))
        return false;
    if (due(s))
        clean(s);
    if (s.epoch % SAY_EVERY == 0)
        tell_left(s, s.epoch, false);
    if (s.c.messages && s.thread == 0)
        note_orders(s);
    return true;
}

/*
 * The call that each rank is in, compared beside the data and by other threads: thread RANK tells rank RANK of this one's, and
 * waits for its where this rank's end depends on it anyway. A rank that is ahead has left this call.
 */
DEVICE void compare_calls(const peali_cuda_call &c, uint32_t rank, const quad &first)
{
    const bool dead = warp_any(first.w); /* behind it all have read the record, of which one of them writes a part */
    if (dead || rank >= c.nranks)
        return;
    const uint32_t call = first.z + 1;
    uint64_t *there = (uint64_t *)(c.scratch[rank] + c.layout.board) + (call & 1) * c.nranks + c.me;
    const uint64_t *here = board_of(c, call) + rank;
    const uint64_t mine = (uint64_t)call << 32 | c.signature;
    wait w(c, call, PEALI_CUDA_OPS + 1);
    store_word(there, mine);
    if (rank == c.me) {
        store_relaxed(&c.lane[0].calls, call);
        store_relaxed(&c.lane[0].noticed, 0);
        return;
    }
    for (bool go_on = true; go_on;) {
        uint64_t its = load_word(here);
        int32_t age = ahead((uint32_t)(its >> 32), call);
        if (age == 0 && its != mine)
            report(c, PEALI_CUDA_DIFFERS, call, PEALI_CUDA_OPS + 1, mine);
        go_on = age < 0 && (c.hears >> rank & 1) && w.on();
    }
}

#endif
