/*
 * Short calls of few ranks, of which a launch is little but waiting: each rank gives words to all others, by lines of 16 bytes, and
 * sums or keeps what comes; or one gives to all, or all give to one. That is what its program says, too (kernel.cu, ll); here nothing
 * is left to interpret, as the host has found that a thread has few words, a CTA one slice, and where the words go
 * (cuda/exchange.c). A launch takes as long as its instructions: on H200 a warp does one in about 10 cycles, for nothing is in any
 * cache yet, so there are as few as can be before the first store. SHAPE is the call's (cuda/call.h).
 */
#ifndef PEALI_CUDA_EXCHANGE_CUH
#define PEALI_CUDA_EXCHANGE_CUH

#include "cuda/lane.cuh"
#include "cuda/reduce.cuh"

/* What a rank does of it. COME: so many threads come by beside those that move words. */
template <int SHAPE> struct ways {
    enum {
        PUTS = SHAPE != PEALI_CUDA_TAKES && SHAPE != PEALI_CUDA_KEEPS,
        GETS = SHAPE != PEALI_CUDA_GIVES,
        MOVES = SHAPE == PEALI_CUDA_MOVES || SHAPE == PEALI_CUDA_KEEPS,
        COPIES = SHAPE == PEALI_CUDA_MOVES || SHAPE == PEALI_CUDA_GIVES,
        BOTH = PUTS && GETS,
        COME = BOTH ? 0 : PEALI_CUDA_BOARD
    };
};

/* The words of this thread, one each STEP bytes: those before END are there, those before WHOLE are whole and aligned. */
struct word_place {
    uint32_t at, step, end, whole; /* bytes from the start of the vector */

    /* NONE: 0, when the parameters are there. Else the compiler waits for them one after the other. */
    DEVICE_MEMBER word_place(const peali_cuda_call &c, uint32_t none) : step(8 * (threads_here() - PEALI_CUDA_BOARD))
    {
        const uint32_t slice_packs = ask(&c, offsetof(peali_cuda_call, slice_packs), none);
        const uint32_t long_slices = ask(&c, offsetof(peali_cuda_call, long_slices), none);
        const uint32_t bytes = ask(&c, offsetof(peali_cuda_call, exchange.bytes), none);
        const uint32_t plain_bytes = ask(&c, offsetof(peali_cuda_call, exchange.plain), none);
        const uint32_t cta = cta_here(), longer = cta < long_slices, first = cta * slice_packs + (longer ? cta : long_slices);
        const uint32_t slice_end = (first + slice_packs + longer) * PEALI_CUDA_PACK;
        at = first * PEALI_CUDA_PACK + 8 * thread_here();
        end = bytes < slice_end ? bytes : slice_end;
        whole = plain_bytes < slice_end ? plain_bytes : slice_end;
    }
    DEVICE_MEMBER bool data(uint32_t i) const
    {
        return at + i * step < end;
    }
    DEVICE_MEMBER bool plain(uint32_t i) const
    {
        return at + i * step < whole;
    }
};

/*
 * Words that are not plain: called, for what a call takes would be in the way of the others. These are of one part, so it has more
 * packs than any has.
 */
enum { ONE_PART = 1 << 30 };
DEVICE_SLOW uint64_t load_rest(const peali_cuda_call &c, uint32_t part, uint32_t at)
{
    return load_odd(c, (const unsigned char *)c.in + part, at, ONE_PART, 0);
}

DEVICE_SLOW void store_rest(const peali_cuda_call &c, uint32_t part, uint32_t at, uint64_t word)
{
    store_odd(c, (unsigned char *)c.out + part, at, ONE_PART, 0, word);
}

/* The words of this thread of the part that begins PART bytes from IN. EARLY: the first one, if it is plain, was asked for before. */
template <int WORDS> struct own_words {
    uint64_t word[WORDS];

    DEVICE_MEMBER void ask_for(const peali_cuda_call &c, const word_place &p, uint32_t part, bool early, uint64_t first)
    {
        UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            if (early && i == 0)
                word[i] = first;
            else
                word[i] = p.plain(i) ? load_early((const unsigned char *)c.in + part + p.at + i * p.step) : 0;
    }
    DEVICE_MEMBER void ask_for_rest(const peali_cuda_call &c, const word_place &p, uint32_t part)
    {
        UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            if (p.data(i) && !p.plain(i))
                word[i] = load_rest(c, part, p.at + i * p.step);
    }
};

/* What this rank puts, and what it has itself. */
template <int SHAPE, int OTHERS, int WORDS> struct given {
    own_words<WORDS> mine, its[OTHERS];

    DEVICE_MEMBER given(const peali_cuda_call &c, const word_place &p, uint64_t early)
    {
        const uint32_t own = SHAPE == PEALI_CUDA_SCATTERS ? ask(&c, offsetof(peali_cuda_call, exchange.mine)) : 0;
        UNROLL
        for (uint32_t k = 0; k < OTHERS && SHAPE == PEALI_CUDA_SCATTERS; k++)
            its[k].ask_for(c, p, part(c, k), k == 0, early);
        if (SHAPE == PEALI_CUDA_KEEPS)
            return;
        mine.ask_for(c, p, own, SHAPE != PEALI_CUDA_SCATTERS, early);
        UNROLL
        for (uint32_t k = 0; k < OTHERS && SHAPE == PEALI_CUDA_SCATTERS; k++)
            its[k].ask_for_rest(c, p, part(c, k));
        mine.ask_for_rest(c, p, own);
    }
    /* Of those that are not there: 0, this rank's own or that of the first. */
    static DEVICE_MEMBER uint32_t part(const peali_cuda_call &c, uint32_t k)
    {
        return ask(&c, offsetof(peali_cuda_call, exchange.part) + sizeof(uint32_t) * k);
    }
    DEVICE_MEMBER uint64_t to(uint32_t k, uint32_t i) const
    {
        return SHAPE == PEALI_CUDA_SCATTERS ? its[k].word[i] : mine.word[i];
    }
};

/* Word I of this thread, into the part that begins PART bytes from OUT. */
DEVICE void store_result(const peali_cuda_call &c, const word_place &p, uint32_t part, uint32_t i, uint64_t word)
{
    const uint32_t at = p.at + i * p.step;
    if (p.plain(i))
        *(uint64_t *)((unsigned char *)c.out + part + at) = word;
    else if (p.data(i))
        store_rest(c, part, at, word);
}

/* The lines of this thread, in area 0: found out before the epoch is there. */
template <int OTHERS, int WORDS> struct word_lines {
    enum { MOST = OTHERS, EACH = WORDS };
    const word_place &p;
    uint64_t put[OTHERS], get[OTHERS];
    uint32_t area_bytes, others, before;
    quad line[OTHERS][WORDS];

    explicit DEVICE_MEMBER word_lines(const peali_cuda_call &c, const word_place &place)
        : p(place), area_bytes(ask(&c, offsetof(peali_cuda_call, exchange.area_bytes))),
          others(OTHERS == 1 ? 1 : ask(&c, offsetof(peali_cuda_call, exchange.others))),
          before(ask(&c, offsetof(peali_cuda_call, exchange.before))), line()
    {
        const uint64_t at = (uint64_t)(2 * cta_here()) * area_bytes + sizeof(quad) * thread_here();
        UNROLL
        for (int k = 0; k < OTHERS; k++) {
            put[k] = ask_long(&c, offsetof(peali_cuda_call, exchange.put) + sizeof(uint64_t) * k) + at;
            get[k] = ask_long(&c, offsetof(peali_cuda_call, exchange.get) + sizeof(uint64_t) * k) + at;
        }
    }

    DEVICE_MEMBER bool has(uint32_t k, uint32_t i) const
    {
        return (OTHERS == 1 || k < others) && p.data(i);
    }

    template <class Given> DEVICE_MEMBER void store(uint32_t area, const Given &given, uint32_t flag) const
    {
        UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            UNROLL
            for (uint32_t k = 0; k < OTHERS; k++) {
                const uint64_t word = given.to(k, i);
                const quad q = {(uint32_t)word, flag, (uint32_t)(word >> 32), flag};
                if (has(k, i))
                    store_line((unsigned char *)put[k] + area + 2 * i * p.step, q);
            }
    }

    /* True where one is not there yet, or another thread of the warp lacks one. */
    DEVICE_MEMBER bool missing(uint32_t area, uint32_t flag)
    {
        bool some = false;
        UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            UNROLL
            for (uint32_t k = 0; k < OTHERS; k++)
                if (has(k, i))
                    line[k][i] = load_line((const unsigned char *)get[k] + area + 2 * i * p.step);
        UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            UNROLL
            for (uint32_t k = 0; k < OTHERS; k++)
                some |= has(k, i) && (line[k][i].y != flag || line[k][i].w != flag);
        return warp_any(some);
    }

    DEVICE_MEMBER uint64_t word(uint32_t k, uint32_t i) const
    {
        return line[k][i].x | (uint64_t)line[k][i].z << 32;
    }

    /* Of words I, in the order of ranks: this one's MINE is number BEFORE. */
    template <class A> DEVICE_MEMBER uint64_t sum(const A &arithmetic, uint32_t i, uint64_t mine) const
    {
        if (OTHERS == 1)
            return sum_of_two(arithmetic, mine, word(0, i));
        typename A::state x = arithmetic.first(before == 0 ? mine : word(0, i));
        UNROLL
        for (uint32_t k = 1; k <= OTHERS; k++)
            if (k <= others)
                arithmetic.add(x, before == k ? mine : before > k && k < OTHERS ? word(k % OTHERS, i) : word(k - 1, i));
        return arithmetic.result(x);
    }
};

/*
 * The record of the lane is written beside the wait for the others: whatever becomes of that, no other launch reads it before this
 * one is over, and none goes on where one has given up.
 */
template <int SHAPE, uint32_t COME = ways<SHAPE>::COME> DEVICE void note_epoch(const slice &s)
{
    come_by(s.threads + COME);
    if (s.thread >= 32)
        return;
    see_off(s.threads + COME);
    if (s.thread == 0)
        store_word((uint64_t *)&s.c.lane[s.lane], s.epoch | (uint64_t)ways<SHAPE>::BOTH << 32);
}

DEVICE slice slice_now(const peali_cuda_call &c, uint32_t epoch)
{
    slice s = {c, thread_here(), threads_here() - PEALI_CUDA_BOARD, cta_here(), epoch, flag_of(epoch), 0, 0, 0, 0, 0, false};
    return s;
}

/* What a thread asks for as a launch begins. */
struct asked {
    uint64_t early; /* the first word of this thread, if it is plain */
    quad first;     /* the lane's epoch, whether all were heard, calls, dead */
    uint32_t left;  /* what the rank of this thread's number in its warp has left, */
    bool stores_to; /* if words are stored to that */
};

/*
 * Where words go one way, all that get_credit asks for is asked for with the record, by each warp for itself, and most often it is
 * there; and what this rank has left, the warp tells that compares calls. It comes by, too: the record has not changed when it reads.
 * What is read of lines is read before a launch ends, and lines are stored behind a branch on what is on record as left: as in
 * lines, no fence is needed for that.
 */
template <int SHAPE> DEVICE bool may_store(const asked &a)
{
    if (ways<SHAPE>::BOTH || !ways<SHAPE>::PUTS)
        return a.first.y || !ways<SHAPE>::PUTS;
    return a.first.y || !a.stores_to || ahead(a.left, a.first.x - 1) >= 0;
}

DEVICE void ask_for_left(const peali_cuda_call &c, asked &a, uint32_t none)
{
    const uint32_t rank = thread_here() % 32, nranks = ask(&c, offsetof(peali_cuda_call, me), none) >> 8 & 255;
    const uint64_t at = ask_long(&c, offsetof(peali_cuda_call, exchange.left), none);
    a.stores_to = ask(&c, offsetof(peali_cuda_call, stores_to), none) >> rank & 1 && rank < nranks;
    if (a.stores_to)
        a.left = load_relaxed((const uint32_t *)at + (cta_here() * nranks + rank));
}

DEVICE void say_left(const peali_cuda_call &c, uint32_t rank, const quad &first)
{
    const bool dead = warp_any(first.w);
    slice s = slice_now(c, first.x + 1);
    s.thread = rank;
    come_by(s.threads + PEALI_CUDA_BOARD);
    if (!dead)
        tell_left(s, first.x, true);
}

/* Of a warp. */
DEVICE bool await_credit(const slice &s, bool ok)
{
    const uint32_t rank = s.thread % 32;
    const bool stores_to = s.c.stores_to >> rank & 1;
    wait w(s.c, s.epoch, PEALI_CUDA_OPS);
    while (ok && warp_any(stores_to && ahead(load_relaxed(left_at(s, s.c.me, rank)), s.epoch - 2) < 0))
        ok = !warp_any(!w.on());
    return ok;
}

/* What is rare when a slice begins: this rank has given up before, or has to hear of the others first. False: it gives up. */
DEVICE_SLOW bool begin_late(const peali_cuda_call &c, uint32_t epoch, bool may, bool dead)
{
    const bool ok = !warp_any(dead);
    return warp_any(!may) ? await_credit(slice_now(c, epoch), ok) : ok;
}

/* The same of a slice that is all of a launch: who gives up ends here, and comes to where the other threads wait for it. */
DEVICE_SLOW bool enter_late(const peali_cuda_call &c, uint32_t epoch, uint32_t come, bool may, bool dead)
{
    const slice s = slice_now(c, epoch);
    if (begin_late(c, epoch, may, dead))
        return true;
    come_by(s.threads + come);
    if (due(s))
        (void)leave(s, true, false);
    return false;
}

/* All threads meet as the slice of EPOCH ends. */
DEVICE_SLOW bool leave_met(const peali_cuda_call &c, uint32_t epoch, bool ok)
{
    return leave(slice_now(c, epoch), false, ok);
}

/* What has come goes to OUT: the sums; or all of it, and what is this rank's own. */
template <int SHAPE, class A, class Lines, class Given>
DEVICE void store_results(const peali_cuda_call &c, const A &arithmetic, const Lines &lines, const Given &given)
{
    UNROLL
    for (uint32_t i = 0; i < Lines::EACH; i++)
        if (!ways<SHAPE>::MOVES)
            store_result(c, lines.p, 0, i, lines.sum(arithmetic, i, given.mine.word[i]));
    UNROLL
    for (uint32_t k = 0; k < Lines::MOST && ways<SHAPE>::MOVES; k++)
        if (Lines::MOST == 1 || k < lines.others)
            UNROLL
            for (uint32_t i = 0; i < Lines::EACH; i++)
                store_result(c, lines.p, c.exchange.part[k], i, lines.word(k, i));
}

template <int SHAPE, class A, int OTHERS, int WORDS>
DEVICE void exchange_words(const peali_cuda_call &c, const word_place &p, const asked &a)
{
    typedef ways<SHAPE> way;
    const given<SHAPE, OTHERS, WORDS> own(c, p, a.early);
    word_lines<OTHERS, WORDS> lines(c, p);
    const A arithmetic(c);
    const slice s = slice_now(c, a.first.x + 1);
    if (warp_any(a.first.w || !may_store<SHAPE>(a)) && !enter_late(c, s.epoch, way::COME, may_store<SHAPE>(a), a.first.w))
        return;
    const uint32_t area = s.epoch & 1 ? lines.area_bytes : 0;
    if (way::PUTS)
        lines.store(area, own, s.flag);
    note_epoch<SHAPE>(s);
    UNROLL
    for (uint32_t i = 0; i < WORDS && way::COPIES; i++)
        if (c.exchange.copies)
            store_result(c, p, c.exchange.mine, i, own.mine.word[i]);
    wait w(c, s.epoch, way::PUTS);
    bool ok = true;
    while (way::GETS && ok && lines.missing(area, s.flag))
        ok = !warp_any(!w.on());
    if (way::GETS && ok)
        store_results<SHAPE>(c, arithmetic, lines, own);
    if (due(s))
        (void)leave_met(c, s.epoch, ok);
}

template <int SHAPE, class A, int WORDS>
DEVICE void exchange_with(const peali_cuda_call &c, const word_place &p, const asked &a)
{
    if (c.exchange.others > 1)
        exchange_words<SHAPE, A, PEALI_CUDA_FEW - 1, WORDS>(c, p, a);
    else
        exchange_words<SHAPE, A, 1, WORDS>(c, p, a);
}

template <int SHAPE, class A>
DEVICE void exchange_as(const peali_cuda_call &c, const word_place &p, const asked &a)
{
    if (c.exchange.words == 1)
        exchange_with<SHAPE, A, 1>(c, p, a);
    else if (c.exchange.words == 2)
        exchange_with<SHAPE, A, 2>(c, p, a);
    else
        exchange_with<SHAPE, A, PEALI_CUDA_WORDS>(c, p, a);
}

/* As ask_for_parameters, of those that this needs. */
DEVICE uint32_t ask_for_exchange(const peali_cuda_call &c)
{
    enum { LINE = 64, HEAD = offsetof(peali_cuda_call, exchange.put_share) };
    uint32_t words = ask(&c, offsetof(peali_cuda_call, scratch)) | ask(&c, offsetof(peali_cuda_call, layout.board));
    UNROLL
    for (uint32_t at = 0; at < HEAD; at += LINE)
        words |= ask(&c, at);
    return words;
}

/* Kernels of one shape, or of two. */
template <int SHAPE, int OTHER = SHAPE> struct shapes {
};
typedef shapes<PEALI_CUDA_SUMS, PEALI_CUDA_SCATTERS> exchange;
typedef shapes<PEALI_CUDA_MOVES> exchange_moves;
typedef shapes<PEALI_CUDA_GIVES> exchange_gives;
typedef shapes<PEALI_CUDA_TAKES> exchange_takes;
typedef shapes<PEALI_CUDA_KEEPS> exchange_keeps;

template <class A, int SHAPE, int OTHER> DEVICE void launch(shapes<SHAPE, OTHER>, const peali_cuda_call &c)
{
    typedef ways<SHAPE> way;
    const uint32_t threads = threads_here() - PEALI_CUDA_BOARD, thread = thread_here(), none = got(ask_for_exchange(c));
    const uint64_t lanes = ask_long(&c, offsetof(peali_cuda_call, lane));
    asked a;
    await_stream();
    a.first = load_line((const unsigned char *)lanes + (sizeof(peali_cuda_lane) * cta_here() + none));
    if (way::PUTS && !way::BOTH)
        ask_for_left(c, a, none);
    const word_place p(c, none);
    const unsigned char *in = (const unsigned char *)ask_long(&c, offsetof(peali_cuda_call, in), none);
    a.early = 0;
    if (SHAPE != PEALI_CUDA_KEEPS && thread < threads && p.plain(0))
        a.early = load_early(in + ask(&c, offsetof(peali_cuda_call, exchange.early), none) + p.at);
    if (thread >= threads) {
        if (!way::BOTH)
            say_left(c, thread - threads, a.first);
        if (cta_here() == 0)
            compare_calls(c, thread - threads, a.first);
    } else if (SHAPE == OTHER || c.exchanges == SHAPE) {
        exchange_as<SHAPE, A>(c, p, a);
    } else {
        exchange_as<OTHER, A>(c, p, a);
    }
}

#endif
