/*
 * The three ways in which a slot's data and the news of it cross. Each has
 *   PROTO   its number,
 *   WORDS   8-byte words of a unit, what a thread moves at a time,
 *   AHEAD   whether what a thread needs of its rank's own memory is loaded before it waits for peers and for what the CTA's lane
 *           has on record,
 *   RARE    whether a kernel has what few calls need: sums of more than 4 sources or of several that are own, scaling, averages,
 *   DIRECT  whether its calls are so long that they are done where vectors lie, if they can be,
 *   place   of a thread in an operation: the units that it takes, one after the other, and where they lie in a slot,
 *   offset  bytes from the start of a slot to its word W, and
 *   skewed  whether that is no place at which a range can begin,
 *   begin   before an operation: where other threads of the CTA are waited for; false where one has given up,
 *   copy_plain, reduce_plain  does what is quick of an operation, and moves the place to the rest,
 *   gather  waits for the unit of all sources together, and loads them into V[k], this rank's own (if not AHEAD) into OWN; false
 *           where it gave up,
 *   put     stores a unit to its place in a slot,
 *   end     after an operation; false where a thread has given up.
 * The thread that takes a unit depends on its number in the operation's range alone, whatever lies before the range in a slot.
 */
#ifndef PEALI_CUDA_PROTOCOL_CUH
#define PEALI_CUDA_PROTOCOL_CUH

#include "cuda/reduce.cuh"
#include "cuda/slice.cuh"

/* An operation in a slice. */
struct task {
    const slice &s;
    const peali_cuda_op &op;
    uint32_t number; /* of the operation */
    uint32_t thread, threads; /* of those that have it */
    range r;
};

DEVICE uint32_t run_of(const peali_cuda_op &op)
{
    return op.order / PEALI_CUDA_RUN;
}

/* From the start of LOC, a slot or scratch, to word 0 of the range. */
DEVICE uint32_t words_before(const task &t, const peali_cuda_loc &loc)
{
    return t.op.slots & PEALI_CUDA_WITHIN ? t.r.first - 2 * position(t.s, loc.base) : 0;
}

/* The one source of an operation that is in this rank's own memory. */
struct own_source {
    bool any;
    bool scratch;             /* in scratch, and not in IN or OUT */
    bool scaled;              /* IN, of a premultiplied sum */
    const unsigned char *at;  /* scratch: word 0 of its range; else the vector */
};

/* Sources of an operation, K at most: one of them, at most, is own, the others are in slots. */
template <int K> struct sources : own_source {
    uint32_t locs;            /* of source 0, in the call */
    uint32_t slots;           /* bits */
    uint32_t skewed;          /* bits, LL128: the range begins within a line */
    int own;                  /* none: as many as there are sources */
    const unsigned char *area;
    bool letter;              /* of the one source of ll_rare: a message fills it */
    uint32_t slot[K];         /* bytes from there to word 0 of the range, or (skewed) of the slot */
};

template <int K> DEVICE bool is_slot(const sources<K> &from, int k)
{
    return from.slots >> k & 1;
}

/* N words from word U of the range on, of the one source that is this rank's own. */
template <int N> DEVICE void load_own(const task &t, const own_source &from, uint32_t u, uint64_t *v)
{
    if (!from.any)
        return;
    if (from.scratch)
        load_plain<N>(from.at + 8 * (uint64_t)u, v);
    else
        load_memory<N>(t.s, t.r, from.at, u, v);
    for (int i = 0; i < N && from.scaled; i++)
        v[i] = scale_any(t.s.c.type, v[i], t.s.c.scalar);
}

/* Where a flag is in each line, threads need nothing of each other but what the program has them share. */
DEVICE bool begin_lines(const task &t, bool ok)
{
    return t.op.order & PEALI_CUDA_SYNC ? !meet(t.s.threads, !ok) : ok;
}

/* What both kinds of lines do alike: little. */
struct lines {
    enum { RARE = 0, RUNS = 0, DIRECT = 0, AHEAD = 1 };

    static DEVICE_MEMBER bool begin(const task &t, bool ok)
    {
        return begin_lines(t, ok);
    }

    template <class Place> static DEVICE_MEMBER void copy_plain(const task &, const sources<1> &, Place &)
    {
    }

    template <class A, int K, class Place>
    static DEVICE_MEMBER void reduce_plain(const task &, const sources<K> &, const A &, Place &)
    {
    }

    static DEVICE_MEMBER bool end(const task &, bool ok)
    {
        return ok;
    }
};

/*
 * Lines of 16 bytes: two halves of data and flag, each of which arrives whole, so that a flag of this epoch says that the data
 * beside it is of this epoch too (store_line in put pairs with load_line in gather). No order is needed between halves or lines.
 */
struct ll : lines {
    enum { PROTO = PEALI_CUDA_LL, WORDS = 1 };

    struct place {
        uint32_t u;
        explicit DEVICE_MEMBER place(const task &t) : u(t.thread)
        {
        }
        /* A warp goes on together. */
        DEVICE_MEMBER bool more(const task &t) const
        {
            return (u & ~31U) < t.r.words;
        }
        DEVICE_MEMBER bool data(const task &t) const
        {
            return u < t.r.words;
        }
        DEVICE_MEMBER uint64_t offset() const
        {
            return 16 * (uint64_t)u;
        }
        DEVICE_MEMBER void next(const task &t)
        {
            u += t.threads;
        }
    };

    static DEVICE_MEMBER uint32_t offset(uint32_t word)
    {
        return 16 * word;
    }

    static DEVICE_MEMBER bool skewed(uint32_t)
    {
        return false;
    }

    template <int K>
    static DEVICE_MEMBER bool gather(const task &t, const sources<K> &from, const place &p, uint64_t (*v)[WORDS], uint64_t *)
    {
        const uint32_t flag = t.s.flag;
        const bool data = p.data(t);
        wait w(t.s.c, t.s.epoch, t.number);
        quad line[K] = {};
        for (;;) {
            bool missing = false;
            UNROLL
            for (int k = 0; k < K; k++)
                if (is_slot(from, k) && data)
                    line[k] = load_line(from.area + from.slot[k] + p.offset());
            UNROLL
            for (int k = 0; k < K; k++)
                missing |= is_slot(from, k) && data && (line[k].y != flag || line[k].w != flag);
            if (!warp_any(missing))
                break;
            if (warp_any(!w.on()))
                return false;
        }
        UNROLL
        for (int k = 0; k < K; k++)
            if (is_slot(from, k))
                v[k][0] = line[k].x | (uint64_t)line[k].z << 32;
        return true;
    }

    static DEVICE_MEMBER void put(const task &t, const place &p, unsigned char *at, const uint64_t *v)
    {
        quad line = {(uint32_t)v[0], t.s.flag, (uint32_t)(v[0] >> 32), t.s.flag};
        if (p.data(t))
            store_line(at, line);
    }
};

/*
 * Lines of 128 bytes: 16 threads of a warp load or store one in a single instruction, which moves it whole, so that the flag in
 * its last word, if it is of this epoch, says that all words which came with it are (store_warp in put pairs with load_warp in
 * gather). All threads of a warp stay together. A source that does not begin with a line, because a part of its slot is read, has
 * other lines than the threads have: then each waits for the flag of its word's line (load_word_acquire), which is there no
 * sooner than the word is, and only then loads it.
 */
struct ll128 : lines {
    enum { PROTO = PEALI_CUDA_LL128, RUNS = 1, WORDS = 1, THREADS = 16 };

    struct place {
        uint32_t line, column, u;
        explicit DEVICE_MEMBER place(const task &t)
            : line(t.thread / THREADS), column(t.thread % THREADS), u(line * PEALI_CUDA_LINE_WORDS + column)
        {
        }
        /* Both lines of a warp go on as long as the first one does. */
        DEVICE_MEMBER bool more(const task &t) const
        {
            return (line & ~1U) * PEALI_CUDA_LINE_WORDS < t.r.words;
        }
        DEVICE_MEMBER bool used(const task &t) const
        {
            return line * PEALI_CUDA_LINE_WORDS < t.r.words;
        }
        DEVICE_MEMBER bool flag() const
        {
            return column == PEALI_CUDA_LINE_WORDS;
        }
        DEVICE_MEMBER bool data(const task &t) const
        {
            return !flag() && u < t.r.words;
        }
        DEVICE_MEMBER uint64_t offset() const
        {
            return line * (uint64_t)PEALI_CUDA_LINE + 8 * column;
        }
        DEVICE_MEMBER void next(const task &t)
        {
            line += t.threads / THREADS;
            u += t.threads / THREADS * PEALI_CUDA_LINE_WORDS;
        }
    };

    static DEVICE_MEMBER uint64_t flag_of(const task &t)
    {
        return t.s.flag | (uint64_t)t.s.flag << 32;
    }

    /* Of its line. */
    static DEVICE_MEMBER uint32_t offset(uint32_t word)
    {
        return word / PEALI_CUDA_LINE_WORDS * PEALI_CUDA_LINE;
    }

    static DEVICE_MEMBER bool skewed(uint32_t word)
    {
        return word % PEALI_CUDA_LINE_WORDS != 0;
    }

    /* Word WORD of SLOT; false where it is not there yet. */
    static DEVICE_MEMBER bool load_skewed(const unsigned char *slot, uint32_t word, uint64_t flag, uint64_t *v)
    {
        const unsigned char *line = slot + offset(word);
        if (load_word_acquire(line + 8 * PEALI_CUDA_LINE_WORDS) != flag)
            return false;
        *v = load_word((const uint64_t *)line + word % PEALI_CUDA_LINE_WORDS);
        return true;
    }

    template <int K>
    static DEVICE_MEMBER bool gather(const task &t, const sources<K> &from, const place &p, uint64_t (*v)[WORDS], uint64_t *)
    {
        const bool data = p.data(t), used = p.used(t);
        wait w(t.s.c, t.s.epoch, t.number);
        for (;;) {
            bool missing = false;
            UNROLL
            for (int k = 0; k < K; k++)
                if (is_slot(from, k) && !(from.skewed >> k & 1))
                    v[k][0] = load_warp(from.area + from.slot[k] + p.offset(), used);
            UNROLL
            for (int k = 0; k < K; k++)
                if (is_slot(from, k) && !(from.skewed >> k & 1))
                    missing |= used && p.flag() && v[k][0] != flag_of(t);
                else if (is_slot(from, k) && data)
                    missing |= !load_skewed(from.area + from.slot[k], words_before(t, t.s.c.locs[from.locs + k]) + p.u,
                                            flag_of(t), &v[k][0]);
            if (!warp_any(missing))
                return true;
            if (warp_any(!w.on()))
                return false;
        }
    }

    static DEVICE_MEMBER void put(const task &t, const place &p, unsigned char *at, const uint64_t *v)
    {
        store_warp(at, p.flag() ? flag_of(t) : v[0], p.used(t));
    }
};

/*
 * For thread 0: the message of an operation becomes the proxy's, which takes the order when all of it is there. What an area held
 * before has been read: the threads that did have met since.
 */
DEVICE void give_order(const task &t, const peali_cuda_loc &loc, peali_cuda_proto proto)
{
    const peali_cuda_call &c = t.s.c;
    const bool lines = proto == PEALI_CUDA_LL;
    const uint32_t number = t.s.orders + t.op.number + 1;
    const uint32_t unit = (uint32_t)((uint64_t)(slot_at(t.s, loc) - messages_of(c, proto)) / PEALI_POST_UNIT);
    peali_post_order order = {};
    order.signature = c.signature;
    order.epoch = t.s.epoch;
    order.at = lines ? unit : unit - 1;
    order.units = lines ? t.r.words : t.r.words / 2 + 1;
    order.flag = t.s.flag;
    order.peer = t.op.peer;
    order.slot = loc.slot;
    order.lane = t.op.lane;
    order.sends = loc.where == PEALI_CUDA_LEAVES;
    order.lines = lines;
    uint32_t word[PEALI_POST_HALVES];
    memcpy(word, &order, sizeof order);
    unsigned char *at = (unsigned char *)c.post->orders[t.s.lane][number % PEALI_POST_ORDERS];
    UNROLL
    for (int i = 0; i < PEALI_POST_HALVES; i += 2) {
        const quad halves = {word[i], number, word[i + 1], number};
        store_line(at + i * sizeof(peali_post_half), halves);
    }
}

/*
 * Notes how many orders of S's lane are over, so that the next slice need not look: that takes a microsecond, in which who waits
 * for a message has nothing else to do.
 */
DEVICE uint32_t note_over(const slice &s, const quad &over)
{
    store_relaxed(&s.c.lane[s.lane].over, over.x);
    return over.x;
}

DEVICE quad look_over(const slice &s)
{
    return load_line((const unsigned char *)&s.c.post->over[s.lane]);
}

/* The same, for whatever comes, also in lines of messages. */
struct ll_rare : ll {
    enum { RARE = 1, RUNS = 1 };

    template <int K>
    static DEVICE_MEMBER bool gather(const task &t, const sources<K> &from, const place &p, uint64_t (*v)[WORDS], uint64_t *own)
    {
        const bool looks = K == 1 && from.letter && t.thread == 0;
        quad over = {};
        if (looks)
            over = look_over(t.s);
        const bool ok = ll::gather<K>(t, from, p, v, own);
        if (looks)
            (void)note_over(t.s, over);
        return ok;
    }

    static DEVICE_MEMBER bool end(const task &t, bool ok)
    {
        const peali_cuda_loc &loc = t.s.c.locs[t.op.locs + t.op.nsrc];
        if (ok && t.thread == 0 && t.op.nput > 0 && loc.where >= PEALI_CUDA_ARRIVES)
            give_order(t, loc, PEALI_CUDA_LL);
        return ok;
    }
};
struct ll128_rare : ll128 {
    enum { RARE = 1 };
};

/*
 * Data without flags, and one flag a slot. A thread for each source waits for its flag (load_acquire, which pairs with
 * store_release in end at the sender), then all threads meet: so what any thread of the sender stored before those met is loaded
 * by any thread here.
 */
struct bulk {
    enum { PROTO = PEALI_CUDA_BULK, WORDS = 2, RARE = 1, RUNS = 0, DIRECT = 1, AHEAD = 0, FULL = PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD };

    struct place {
        uint32_t u; /* words */
        explicit DEVICE_MEMBER place(const task &t) : u(WORDS * t.thread)
        {
        }
        DEVICE_MEMBER bool more(const task &t) const
        {
            return u < t.r.words;
        }
        DEVICE_MEMBER bool data(const task &) const
        {
            return true;
        }
        DEVICE_MEMBER uint64_t offset() const
        {
            return 8 * (uint64_t)u;
        }
        DEVICE_MEMBER void next(const task &t)
        {
            u += WORDS * t.threads;
        }
    };

    static DEVICE_MEMBER uint32_t offset(uint32_t word)
    {
        return 8 * word;
    }

    static DEVICE_MEMBER bool skewed(uint32_t)
    {
        return false;
    }

    /* The flag of LOC, at its rank, or of its message. */
    static DEVICE_MEMBER uint32_t *flag_at(const task &t, const peali_cuda_loc &loc)
    {
        const peali_cuda_call &c = t.s.c;
        if (loc.where == PEALI_CUDA_ARRIVES)
            return &c.post->flags[t.s.lane][t.s.epoch & 1][loc.slot];
        uint32_t *flags = (uint32_t *)(c.scratch[loc.where - PEALI_CUDA_SLOT] + c.layout.flags);
        return flags + (2 * t.s.lane + (t.s.epoch & 1)) * PEALI_CUDA_SLOTS + loc.slot;
    }

    static DEVICE_MEMBER bool begin(const task &t, bool ok)
    {
        const peali_cuda_call &c = t.s.c;
        if (!(t.op.slots & PEALI_CUDA_FROM_SLOTS) || run_of(t.op) == 0)
            return begin_lines(t, ok);
        for (uint32_t i = t.thread / 32; i < run_of(t.op); i += t.threads / 32) {
            const peali_cuda_op &op = c.ops[t.number + i];
            wait w(c, t.s.epoch, t.number + i);
            if (t.thread % 32 >= op.nsrc)
                continue;
            const peali_cuda_loc &loc = c.locs[op.locs + t.thread % 32];
            if (loc.where == PEALI_CUDA_ARRIVES)
                (void)note_over(t.s, look_over(t.s));
            while (ok && loc.where >= PEALI_CUDA_SLOT && load_acquire(flag_at(t, loc)) != t.s.flag)
                ok = w.on();
        }
        return !meet(t.s.threads, !ok);
    }

    /* Of what is only copied. */
    struct nothing {
        typedef uint64_t state;
        DEVICE_MEMBER state first(uint64_t word) const
        {
            return word;
        }
        DEVICE_MEMBER void add(state &, uint64_t) const
        {
        }
        DEVICE_MEMBER uint64_t result(state s) const
        {
            return s;
        }
    };

    /* Word 0 of the range at a destination. */
    static DEVICE_MEMBER unsigned char *to(const task &t, const peali_cuda_loc &loc)
    {
        if (loc.where >= PEALI_CUDA_SLOT)
            return slot_at(t.s, loc);
        if (loc.where == PEALI_CUDA_TMP)
            return scratch_at(t.s, loc) + 8 * (uint64_t)words_before(t, loc);
        return (loc.where == PEALI_CUDA_IN ? in_of(t.s.c) : out_of(t.s.c)) + t.r.at;
    }

    /*
     * UNITS of each thread at once, as far as they are plain: no branch is between their loads, so that all of them are on their
     * way before the first one is used. Full blocks only, so that distances are constants. ALL: there are K sources, and not fewer.
     */
    template <class A, int K, int UNITS, bool ALL, int N>
    static DEVICE_MEMBER void stream(const task &t, const sources<N> &from, const A &arithmetic, place &p)
    {
        const uint32_t step = WORDS * FULL, nsrc = t.op.nsrc, end = t.r.plain / WORDS * WORDS;
        const unsigned char *at[K];
        UNROLL
        for (int k = 0; k < K; k++)
            at[k] = is_slot(from, k) ? from.area + from.slot[k] : from.scratch ? from.at : from.at + t.r.at;
        while (p.u < end) {
            quad q[UNITS][K] = {};
            UNROLL
            for (uint32_t i = 0; i < UNITS; i++)
                UNROLL
                for (uint32_t k = 0; k < K; k++)
                    if (p.u + i * step < end && (ALL || k < nsrc))
                        q[i][k] = load_pack(at[k] + 8 * (uint64_t)p.u + 8 * i * step);
            UNROLL
            for (uint32_t i = 0; i < UNITS; i++) {
                typename A::state x = arithmetic.first(q[i][0].x | (uint64_t)q[i][0].y << 32);
                typename A::state y = arithmetic.first(q[i][0].z | (uint64_t)q[i][0].w << 32);
                UNROLL
                for (uint32_t k = 1; k < K; k++)
                    if (ALL || k < nsrc) {
                        arithmetic.add(x, q[i][k].x | (uint64_t)q[i][k].y << 32);
                        arithmetic.add(y, q[i][k].z | (uint64_t)q[i][k].w << 32);
                    }
                q[i][0] = quad_of(arithmetic.result(x), arithmetic.result(y));
            }
            for (uint32_t k = nsrc; k < nsrc + t.op.ndst; k++) {
                unsigned char *const there = to(t, t.s.c.locs[t.op.locs + k]) + 8 * (uint64_t)p.u;
                UNROLL
                for (uint32_t i = 0; i < UNITS; i++)
                    if (p.u + i * step < end)
                        store_pack(there + 8 * i * step, q[i][0]);
            }
            const uint32_t left = (end - p.u + step - 1) / step; /* of this thread's units */
            p.u += (left < UNITS ? left : UNITS) * step;
        }
    }

    static DEVICE_MEMBER bool quick(const task &t, bool scaled)
    {
        return !scaled && t.s.threads == FULL;
    }

    static DEVICE_MEMBER void copy_plain(const task &t, const sources<1> &from, place &p)
    {
        if (quick(t, from.scaled))
            stream<nothing, 1, 8, true>(t, from, nothing(), p);
    }

    template <class A, int K>
    static DEVICE_MEMBER void reduce_plain(const task &t, const sources<K> &from, const A &arithmetic, place &p)
    {
        if (!quick(t, from.scaled))
            return;
        if (K == 8)
            stream<A, K, 1, false>(t, from, arithmetic, p);
        else if (t.op.nsrc == 2)
            stream<A, 2, 4, true>(t, from, arithmetic, p);
        else
            stream<A, K, 2, false>(t, from, arithmetic, p);
    }

    template <int K>
    static DEVICE_MEMBER bool gather(const task &t, const sources<K> &from, const place &p, uint64_t (*v)[WORDS], uint64_t *own)
    {
        load_own<WORDS>(t, from, p.u, own);
        UNROLL
        for (int k = 0; k < K; k++)
            if (is_slot(from, k)) {
                quad q = load_pack(from.area + from.slot[k] + 8 * (uint64_t)p.u);
                v[k][0] = q.x | (uint64_t)q.y << 32;
                v[k][1] = q.z | (uint64_t)q.w << 32;
            }
        return true;
    }

    static DEVICE_MEMBER void put(const task &, const place &, unsigned char *at, const uint64_t *v)
    {
        store_pack(at, quad_of(v[0], v[1]));
    }

    static DEVICE_MEMBER bool end(const task &t, bool ok)
    {
        const peali_cuda_call &c = t.s.c;
        if (!(t.op.slots & PEALI_CUDA_TO_SLOTS) || run_of(t.op) == 0)
            return ok;
        if (meet(t.s.threads, !ok))
            return false;
        for (uint32_t i = t.thread / 32; i < run_of(t.op); i += t.threads / 32) {
            const peali_cuda_op &op = c.ops[t.number - i];
            if (t.thread % 32 >= op.ndst)
                continue;
            const peali_cuda_loc &loc = c.locs[op.locs + op.nsrc + t.thread % 32];
            if (loc.where == PEALI_CUDA_LEAVES)
                fence_all();
            if (loc.where >= PEALI_CUDA_ARRIVES)
                give_order(t, loc, PEALI_CUDA_BULK);
            else if (loc.where >= PEALI_CUDA_SLOT)
                store_release(flag_at(t, loc), t.s.flag);
        }
        return true;
    }
};

#endif
