/*
 * Short sums of few ranks, of which a launch is little but waiting: each rank gives its vector to all others, by lines of 16 bytes,
 * and sums what comes. That is what its program says, too (kernel.cu, ll); here nothing is left to interpret, as the host has found
 * that a thread has one word, a CTA one slice, and where the word goes (cuda/load.c). A launch takes as long as its instructions:
 * on H200 a warp does one in about 10 cycles, for nothing is in any cache yet, so there are as few as can be before the first store.
 */
#ifndef PEALI_CUDA_EXCHANGE_CUH
#define PEALI_CUDA_EXCHANGE_CUH

#include "cuda/lane.cuh"
#include "cuda/reduce.cuh"

/* The word of this thread: all of it is there, some of it, or nothing. */
struct word_place {
    uint32_t start, at; /* bytes from the start of the vector: of the slice, of the word */
    bool data, plain;

    /* NONE: 0, when the parameters are there. Else the compiler waits for them one after the other. */
    DEVICE_MEMBER word_place(const peali_cuda_call &c, uint32_t none)
    {
        const uint32_t slice_packs = ask(&c, offsetof(peali_cuda_call, slice_packs), none);
        const uint32_t long_slices = ask(&c, offsetof(peali_cuda_call, long_slices), none);
        const uint32_t bytes = ask(&c, offsetof(peali_cuda_call, exchange.bytes), none);
        const uint32_t plain_bytes = ask(&c, offsetof(peali_cuda_call, exchange.plain), none);
        const uint32_t cta = cta_here(), longer = cta < long_slices, first = cta * slice_packs + (longer ? cta : long_slices);
        const uint32_t end = (first + slice_packs + longer) * PEALI_CUDA_PACK;
        start = first * PEALI_CUDA_PACK;
        at = start + 8 * thread_here();
        data = at < bytes && at < end;
        plain = at < plain_bytes && at < end;
    }
};

/* Words that are not plain: called, for what a call takes would be in the way of the others. */
DEVICE_SLOW uint64_t load_rest(const peali_cuda_call &c)
{
    return load_odd(c, (const unsigned char *)c.in, word_place(c, 0).start, 0, thread_here());
}

DEVICE_SLOW void store_rest(const peali_cuda_call &c, uint64_t sum)
{
    store_odd(c, (unsigned char *)c.out, word_place(c, 0).start, 0, thread_here(), sum);
}

DEVICE void store_sum(const peali_cuda_call &c, const word_place &p, uint64_t sum)
{
    if (p.plain)
        *(uint64_t *)((unsigned char *)c.out + p.at) = sum;
    else if (p.data)
        store_rest(c, sum);
}

/* The lines of this thread, in area 0: found out before the epoch is there. */
template <int OTHERS> struct word_lines {
    uint64_t put[OTHERS], get[OTHERS];
    uint32_t area_bytes, others, before; /* others: 0 where this thread has no word */
    quad line[OTHERS];

    explicit DEVICE_MEMBER word_lines(const peali_cuda_call &c, bool data)
        : area_bytes(ask(&c, offsetof(peali_cuda_call, exchange.area_bytes))),
          others(!data ? 0 : OTHERS == 1 ? 1 : ask(&c, offsetof(peali_cuda_call, exchange.others))),
          before(ask(&c, offsetof(peali_cuda_call, exchange.before))), line()
    {
        const uint64_t at = (uint64_t)(2 * cta_here()) * area_bytes + sizeof(quad) * thread_here();
        UNROLL
        for (int k = 0; k < OTHERS; k++) {
            put[k] = ask_long(&c, offsetof(peali_cuda_call, exchange.put) + sizeof(uint64_t) * k) + at;
            get[k] = ask_long(&c, offsetof(peali_cuda_call, exchange.get) + sizeof(uint64_t) * k) + at;
        }
    }

    DEVICE_MEMBER void store(uint32_t area, uint64_t word, uint32_t flag) const
    {
        const quad q = {(uint32_t)word, flag, (uint32_t)(word >> 32), flag};
        UNROLL
        for (uint32_t k = 0; k < OTHERS; k++)
            if (k < others)
                store_line((unsigned char *)put[k] + area, q);
    }

    /* True where one is not there yet, or another thread of the warp lacks one. */
    DEVICE_MEMBER bool missing(uint32_t area, uint32_t flag)
    {
        bool some = false;
        UNROLL
        for (uint32_t k = 0; k < OTHERS; k++)
            if (k < others)
                line[k] = load_line((const unsigned char *)get[k] + area);
        UNROLL
        for (uint32_t k = 0; k < OTHERS; k++)
            some |= k < others && (line[k].y != flag || line[k].w != flag);
        return warp_any(some);
    }

    DEVICE_MEMBER uint64_t word(uint32_t k) const
    {
        return line[k].x | (uint64_t)line[k].z << 32;
    }

    /* In the order of ranks: this one's MINE is number BEFORE. */
    template <class A> DEVICE_MEMBER uint64_t sum(const A &arithmetic, uint64_t mine) const
    {
        typename A::state x = arithmetic.first(before == 0 ? mine : word(0));
        UNROLL
        for (uint32_t k = 1; k <= OTHERS; k++)
            if (OTHERS == 1 || k <= others)
                arithmetic.add(x, before == k ? mine : before > k && k < OTHERS ? word(k % OTHERS) : word(k - 1));
        return arithmetic.result(x);
    }
};

/*
 * The record of the lane is written beside the wait for the others: whatever becomes of that, no other launch reads it before this
 * one is over, and none goes on where one has given up.
 */
DEVICE void note_epoch(const slice &s)
{
    come_by(s.threads);
    if (s.thread >= 32)
        return;
    see_off(s.threads);
    if (s.thread == 0)
        store_word((uint64_t *)&s.c.lane[s.lane], s.epoch | (uint64_t)1 << 32);
}

DEVICE slice slice_now(const peali_cuda_call &c, uint32_t epoch)
{
    slice s = {c, thread_here(), threads_here() - PEALI_CUDA_BOARD, cta_here(), epoch, flag_of(epoch), 0, 0, 0, 0, 0, false};
    return s;
}

/* What is rare when a slice begins: this rank has given up before, or has to hear of the others first. False: it gives up. */
DEVICE_SLOW bool enter_late(const peali_cuda_call &c, uint32_t epoch, bool heard, bool dead)
{
    const slice s = slice_now(c, epoch);
    const bool ok = !warp_any(dead);
    if (heard ? ok : get_credit(s, 0, ok))
        return true;
    come_by(s.threads);
    if (due(s))
        (void)leave(s, true, true, false);
    return false;
}

DEVICE_SLOW void leave_due(const peali_cuda_call &c, uint32_t epoch, bool ok)
{
    (void)leave(slice_now(c, epoch), true, true, ok);
}

/* MINE: the word of this thread, if it is plain. FIRST: the lane's epoch, whether all were heard, calls, dead. */
template <class A, int OTHERS>
DEVICE void exchange_words(const peali_cuda_call &c, const word_place &p, uint64_t mine, const quad &first)
{
    if (p.data && !p.plain)
        mine = load_rest(c);
    word_lines<OTHERS> lines(c, p.data);
    const A arithmetic(c);
    const slice s = slice_now(c, first.x + 1);
    if (warp_any(first.w || !first.y) && !enter_late(c, s.epoch, first.y, first.w))
        return;
    const uint32_t area = s.epoch & 1 ? lines.area_bytes : 0;
    lines.store(area, mine, s.flag);
    note_epoch(s);
    wait w(c, s.epoch, 1);
    bool ok = true;
    while (ok && lines.missing(area, s.flag))
        ok = !warp_any(!w.on());
    if (ok)
        store_sum(c, p, lines.sum(arithmetic, mine));
    if (due(s))
        leave_due(c, s.epoch, ok);
}

/* As ask_for_parameters, of those that this needs. */
DEVICE uint32_t ask_for_exchange(const peali_cuda_call &c)
{
    enum { LINE = 64, HEAD = offsetof(peali_cuda_call, exchange) + sizeof(peali_cuda_exchange) };
    uint32_t words = ask(&c, offsetof(peali_cuda_call, scratch)) | ask(&c, offsetof(peali_cuda_call, layout.board));
    UNROLL
    for (uint32_t at = 0; at < HEAD; at += LINE)
        words |= ask(&c, at);
    return words;
}

struct exchange {
};
template <class A> DEVICE void launch(exchange, const peali_cuda_call &c)
{
    const uint32_t threads = threads_here() - PEALI_CUDA_BOARD, thread = thread_here(), none = got(ask_for_exchange(c));
    const uint64_t lanes = ask_long(&c, offsetof(peali_cuda_call, lane));
    const quad first = load_line((const unsigned char *)lanes + (sizeof(peali_cuda_lane) * cta_here() + none));
    const word_place p(c, none);
    uint64_t mine = 0;
    if (p.plain) /* no thread of the board has one */
        mine = load_early((const unsigned char *)ask_long(&c, offsetof(peali_cuda_call, in), none) + p.at);
    if (thread < threads && c.exchange.others > 1)
        exchange_words<A, PEALI_CUDA_FEW - 1>(c, p, mine, first);
    else if (thread < threads)
        exchange_words<A, 1>(c, p, mine, first);
    else if (cta_here() == 0)
        compare_calls(c, thread - threads, first);
}

#endif
