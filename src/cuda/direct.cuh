/*
 * Calls that touch peers' vectors where they lie. Each CTA first tells the same CTA of every rank where that rank's device has this
 * rank's IN and OUT. That is a vote, and news: from now on they may be touched. A rank that cannot be touched by all votes 0. As
 * every rank gets the vote of each, all come to the same answer. At the end each waits for all to have ended, and so nobody touches
 * its vectors any more. Vectors that are touched begin at a multiple of 16 bytes, and so do all parts.
 *
 * Loops over data are compiled for copies, once, and for the sums of up to 8 ranks; what is rare goes pack by pack (slow).
 */
#ifndef PEALI_CUDA_DIRECT_CUH
#define PEALI_CUDA_DIRECT_CUH

#include "cuda/engines.cuh"

/* Slice NUMBER of the call as it is done direct; by copy engines, of what this rank reduces of a chunk. */
DEVICE slice direct_slice(const peali_cuda_call &c, uint32_t number, uint32_t epoch)
{
    const peali_cuda_direct &d = c.direct;
    slice s = {c, thread_here(), threads_here() - PEALI_CUDA_BOARD, cta_here(), epoch, flag_of(epoch), 0, 0, 0, 0, 0,
               c.step == PEALI_CUDA_NO_STEP || c.aligned};
    cut_out(s, number, d.slice_packs, d.long_slices, d.block_packs, d.long_blocks);
    if (number >= d.slices)
        s.packs = 0;
    if (c.step)
        s.at += c.engines.at;
    return s;
}

/* Line LINE of the vote of rank RANK at rank HOME: where IN lies (PEALI_CUDA_IN), where OUT does, and the scalar of its rank. */
enum { VOTE_SCALAR = PEALI_CUDA_OUT + 1, VOTE_LINES };
DEVICE unsigned char *vote_at(const slice &s, uint32_t home, uint32_t rank, uint32_t line)
{
    const uint32_t area = 2 * s.lane + (s.epoch & 1);
    return s.c.scratch[home] + s.c.layout.votes + PEALI_CUDA_VOTE * (uint64_t)(area * s.c.nranks + rank) + line * PEALI_CUDA_PACK;
}

/*
 * Addresses are told with bits of the call's signature in those that an address of memory that can be touched has not, the lowest
 * and the highest: where calls differ, all take the vote for one against it, and nobody stores behind a shorter vector.
 */
DEVICE uint64_t marked(const slice &s, uint32_t line, uint64_t number)
{
    const uint32_t bits = line == PEALI_CUDA_IN ? s.c.signature : s.c.signature >> 11;
    return line == VOTE_SCALAR ? number : number ^ ((uint64_t)bits << 57 | (bits >> 7 & (PEALI_CUDA_PACK - 1)));
}

DEVICE bool can_touch(uint64_t address)
{
    return address && address % PEALI_CUDA_PACK == 0 && address >> 57 == 0;
}

/* A line as in LL: the number in it is there with its flags. */
DEVICE void tell(const slice &s, unsigned char *line, uint64_t number)
{
    quad q = {(uint32_t)number, s.flag, (uint32_t)(number >> 32), s.flag};
    store_line(line, q);
}

DEVICE bool told(const slice &s, const quad &q, uint64_t *number)
{
    *number = q.x | (uint64_t)q.z << 32;
    return q.y == s.flag && q.w == s.flag;
}

/* Line LINE of RANK's vote, which is there. */
DEVICE uint64_t vote_of(const slice &s, uint32_t rank, uint32_t line)
{
    uint64_t number;
    (void)told(s, load_line(vote_at(s, s.c.me, rank, line)), &number);
    return marked(s, line, number);
}

/* Of the parameters, those of the first operation that is done direct: warps that do not vote ask, while others wait for votes. */
DEVICE uint32_t ask_for_operation(const peali_cuda_call &c)
{
    const size_t line = 64, last = offsetof(peali_cuda_call, locs) + sizeof c.locs - 2 * line;
    if (c.direct.first == c.direct.end)
        return 0;
    const size_t locs = offsetof(peali_cuda_call, locs) + load_op(&c.ops[c.direct.first]).locs * sizeof c.locs[0];
    const size_t at = locs < last ? locs : last;
    return ask(&c, at) | ask(&c, at + line);
}

/*
 * Votes, a thread for each line; *AGREED: all ranks' vectors lie where this device sees them. False where a thread has given up.
 * What was stored into a vector before its rank voted, every thread sees after this (fence_all in launch, tell; load_line_acquire,
 * meet).
 */
DEVICE bool agree(const slice &s, bool ok, bool *agreed)
{
    const peali_cuda_call &c = s.c;
    const uint32_t lines = VOTE_LINES * c.nranks;
    if (s.thread >= (lines + 31) / 32 * 32)
        want(ask_for_operation(c));
    bool none = false;
    wait w(c, s.epoch, PEALI_CUDA_OPS + 3);
    for (uint32_t i = s.thread; ok && i < lines; i += s.threads) {
        const peali_cuda_view &view = c.views[i / VOTE_LINES];
        const uint32_t line = i % VOTE_LINES;
        const uint64_t mine = line == PEALI_CUDA_IN ? view.in : line == PEALI_CUDA_OUT ? view.out : c.scalar;
        tell(s, vote_at(s, i / VOTE_LINES, c.me, line), marked(s, line, mine));
    }
    for (uint32_t i = s.thread; ok && i < lines; i += s.threads) {
        uint64_t its = 0;
        while (ok && !told(s, load_line_acquire(vote_at(s, c.me, i / VOTE_LINES, i % VOTE_LINES)), &its))
            ok = w.on();
        none |= i % VOTE_LINES != VOTE_SCALAR && !can_touch(marked(s, i % VOTE_LINES, its));
    }
    *agreed = !meet(s.threads, !ok || none);
    return *agreed || !meet(s.threads, !ok);
}

/* The vector that LOC names, as this device sees it. */
DEVICE unsigned char *vector_at(const slice &s, const peali_cuda_loc &loc)
{
    return s.c.step ? engines_vector(s.c, loc) : (unsigned char *)vote_of(s, loc.where - PEALI_CUDA_SLOT, loc.slot);
}

/* By which RANK multiplies. */
DEVICE uint64_t scalar_of(const slice &s, uint32_t rank)
{
    return s.c.step ? engines_scalar(s.c, rank) : vote_of(s, rank, VOTE_SCALAR);
}

/* The range of an operation, and the vectors of the first K of its sources, and of its destinations. */
template <int K> struct vectors {
    range r;
    uint32_t fast; /* words that loops take by packs */
    const unsigned char *from[K];
    unsigned char *to[K];

    DEVICE_MEMBER vectors(const slice &s, const peali_cuda_op &op) : r(range_of(s, op.first, op.end, false)), fast(r.plain / 2 * 2)
    {
        const peali_cuda_loc *locs = &s.c.locs[op.locs];
        UNROLL
        for (int k = 0; k < K; k++) {
            from[k] = k < op.nsrc ? vector_at(s, locs[k]) + r.at : NULL;
            to[k] = k < op.ndst ? vector_at(s, locs[op.nsrc + k]) + r.at : NULL;
        }
    }
};

/* From word U of the range on, any operation, one pack of a thread after the other. */
template <class A> DEVICE void reduce_slow(const slice &s, const peali_cuda_op &op, const range &r, uint32_t u)
{
    const A arithmetic(s.c);
    const peali_cuda_loc *locs = &s.c.locs[op.locs];
    for (u += 2 * s.thread; u < r.words; u += 2 * s.threads) {
        uint64_t v[2] = {0};
        typename A::state x[2] = {};
        for (uint32_t k = 0; k < op.nsrc; k++) {
            load_memory<2>(s, r, vector_at(s, locs[k]), u, v);
            for (int i = 0; i < 2; i++) {
                if (s.c.scaled)
                    v[i] = scale_any(s.c.type, v[i], scalar_of(s, locs[k].where - PEALI_CUDA_SLOT));
                if (k == 0)
                    x[i] = arithmetic.first(v[i]);
                else
                    arithmetic.add(x[i], v[i]);
            }
        }
        for (int i = 0; i < 2 && op.nsrc > 1; i++)
            v[i] = arithmetic.result(x[i]);
        for (uint32_t k = op.nsrc; k < (uint32_t)op.nsrc + op.ndst; k++)
            store_memory<2>(s, r, vector_at(s, locs[k]), u, v);
    }
}

/* What one source has. As kernel.cu's copy: a thread loads several packs before it stores any. Called: it is alike in all kernels. */
template <int K> DEVICE_SLOW uint32_t copy_fast(const slice &s, const peali_cuda_op &op)
{
    enum { UNITS = 4 };
    const vectors<K> at(s, op);
    const uint32_t step = 2 * s.threads;
    if (K == 1 && at.from[0] == at.to[0])
        return at.r.words;
    for (uint32_t u = 2 * s.thread; u < at.fast; u += UNITS * step) {
        uint64_t v[UNITS][2] = {{0}};
        UNROLL
        for (int i = 0; i < UNITS; i++)
            if (u + i * step < at.fast)
                load_plain<2>(at.from[0] + 8 * (uint64_t)(u + i * step), v[i]);
        UNROLL
        for (int i = 0; i < UNITS; i++)
            UNROLL
            for (int k = 0; k < K; k++)
                if (k < op.ndst && u + i * step < at.fast)
                    store_plain<2>(at.to[k] + 8 * (uint64_t)(u + i * step), v[i]);
    }
    return at.fast;
}

/* Of 2 to K sources: so many words from the start of the range on are done. */
template <class A, int K, int UNITS> DEVICE uint32_t reduce_fast(const slice &s, const peali_cuda_op &op)
{
    const A arithmetic(s.c);
    const vectors<K> at(s, op);
    const uint32_t step = 2 * s.threads;
    for (uint32_t u = 2 * s.thread; u < at.fast; u += UNITS * step) {
        uint64_t v[UNITS][K][2] = {{{0}}};
        UNROLL
        for (int i = 0; i < UNITS; i++)
            UNROLL
            for (int k = 0; k < K; k++)
                if (k < op.nsrc && u + i * step < at.fast)
                    load_plain<2>(at.from[k] + 8 * (uint64_t)(u + i * step), v[i][k]);
        UNROLL
        for (int i = 0; i < UNITS; i++) {
            uint64_t sum[2];
            UNROLL
            for (int j = 0; j < 2; j++) {
                typename A::state x = arithmetic.first(v[i][0][j]);
                UNROLL
                for (int k = 1; k < K; k++)
                    if (k < op.nsrc)
                        arithmetic.add(x, v[i][k][j]);
                sum[j] = arithmetic.result(x);
            }
            UNROLL
            for (int k = 0; k < K; k++)
                if (k < op.ndst && u + i * step < at.fast)
                    store_plain<2>(at.to[k] + 8 * (uint64_t)(u + i * step), sum);
        }
    }
    return at.fast;
}

DEVICE uint32_t *ended_at(const slice &s, uint32_t home, uint32_t rank)
{
    return (uint32_t *)(s.c.scratch[home] + s.c.layout.flags) + (2 * s.lane + (s.epoch & 1)) * PEALI_CUDA_SLOTS + rank;
}

/* Until no rank touches this one's vectors, and all of its OUT is there (meet, store_release; load_acquire, meet). */
DEVICE bool await_all(const slice &s)
{
    bool ok = true;
    wait w(s.c, s.epoch, PEALI_CUDA_OPS + 4);
    meet(s.threads, false);
    if (s.thread < s.c.nranks) {
        store_release(ended_at(s, s.thread, s.c.me), s.flag);
        while (ok && load_acquire(ended_at(s, s.c.me, s.thread)) != s.flag)
            ok = w.on();
    }
    return !meet(s.threads, !ok);
}

/*
 * Destinations come in the order in which the algorithm sends: from rank r to r + 1 first, so that at any moment each is stored to
 * by one. No operation touches what another one of this rank stores (cuda/direct.c), so they need not wait for each other.
 */
template <class A> DEVICE void do_direct(const slice &s)
{
    for (uint32_t i = s.c.direct.first; i < s.c.direct.end; i++) {
        const peali_cuda_op &op = s.c.ops[i];
        uint32_t done = 0;
        const bool rare = s.c.scaled || op.nsrc > 8 || op.ndst > 8;
        if (!rare && op.nsrc == 1)
            done = op.ndst == 1 ? copy_fast<1>(s, op) : copy_fast<8>(s, op);
        else if (!rare && A::OFTEN && op.nsrc <= 4 && op.ndst <= 4)
            done = reduce_fast<A, 4, 2>(s, op);
        else if (!rare && A::OFTEN)
            done = reduce_fast<A, 8, 1>(s, op);
        reduce_slow<A>(s, op, range_of(s, op.first, op.end, false), done);
    }
}

#endif
