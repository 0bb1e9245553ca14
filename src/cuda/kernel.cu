/*
 * The kernels: one for each protocol, and for each of the common sums one of its own. A kernel interprets the program that it has
 * as its parameter; what is inside the loops over data, it compiles for the number of sources (cuda/call.h has the rest).
 */
#include "cuda/protocol.cuh"
#include "cuda/direct.cuh"

/* Source K of operation T becomes number I of FROM. */
template <class P, int K> DEVICE void add_source(const task &t, uint32_t k, int i, sources<K> &from)
{
    const slice &s = t.s;
    const peali_cuda_loc &loc = s.c.locs[t.op.locs + k];
    from.locs = t.op.locs + k - i;
    uint32_t before = loc.where >= PEALI_CUDA_TMP ? words_before(t, loc) : 0;
    if (loc.where < PEALI_CUDA_SLOT || loc.where == PEALI_CUDA_ARRIVES) {
        from.own = i;
        from.scratch = loc.where >= PEALI_CUDA_TMP;
        from.scaled = s.c.scaled && loc.where == PEALI_CUDA_IN;
        from.at = loc.where == PEALI_CUDA_IN ? in_of(s.c) : loc.where == PEALI_CUDA_OUT ? out_of(s.c) :
                  (loc.where == PEALI_CUDA_TMP ? scratch_at(s, loc) : slot_at(s, loc)) + 8 * (uint64_t)before;
        return;
    }
    from.slots |= 1U << i;
    from.slot[i] = loc.at * PEALI_CUDA_PACK;
    if (P::skewed(before))
        from.skewed |= 1U << i;
    else
        from.slot[i] += P::offset(before);
}

template <class P, int K> DEVICE sources<K> no_sources(const task &t)
{
    sources<K> from = {t.op.locs, 0, 0, K, false, false, 0, t.s.c.scratch[t.s.c.me] + t.s.area, {0}};
    return from;
}

/* Stores unit V of the operation's result into this rank's own memory. */
template <int N> DEVICE void keep(const task &t, const peali_cuda_loc &loc, uint32_t u, const uint64_t *v)
{
    const slice &s = t.s;
    if (loc.where == PEALI_CUDA_TMP)
        store_plain<N>(scratch_at(s, loc) + 8 * (uint64_t)(words_before(t, loc) + u), v);
    else
        store_memory<N>(s, t.r, loc.where == PEALI_CUDA_IN ? in_of(s.c) : out_of(s.c), u, v);
}

template <class P> DEVICE void scatter(const task &t, const typename P::place &p, const uint64_t *v)
{
    for (uint32_t k = t.op.nsrc; k < t.op.nsrc + t.op.ndst; k++) {
        const peali_cuda_loc &loc = t.s.c.locs[t.op.locs + k];
        if (loc.where >= PEALI_CUDA_SLOT)
            P::put(t, p, slot_at(t.s, loc), v);
        else if (p.data(t))
            keep<P::WORDS>(t, loc, p.u, v);
    }
}

/* The unit of P's place of 2 to K sources, of which one at most is this rank's own: waits for all of them together. */
template <class P, class A, int K>
DEVICE bool sum_unit(const task &t, const sources<K> &from, const A &arithmetic, const typename P::place &p, uint64_t *sum)
{
    uint64_t v[K][P::WORDS] = {{0}}, own[P::WORDS] = {0};
    if (!P::template gather<K>(t, from, p, v, own))
        return false;
    UNROLL
    for (int i = 0; i < P::WORDS; i++) {
        typename A::state x = arithmetic.first(from.own == 0 ? own[i] : v[0][i]);
        UNROLL
        for (int k = 1; k < K; k++)
            if (k < t.op.nsrc)
                arithmetic.add(x, from.own == k ? own[i] : v[k][i]);
        sum[i] = arithmetic.result(x);
    }
    return true;
}

template <class P, class A, int K> DEVICE bool reduce(const task &t)
{
    const A arithmetic(t.s.c);
    sources<K> from = no_sources<P, K>(t);
    UNROLL
    for (int k = 0; k < K; k++)
        if (k < t.op.nsrc)
            add_source<P>(t, k, k, from);
    typename P::place p(t);
    P::template reduce_plain<A, K>(t, from, arithmetic, p);
    for (; p.more(t); p.next(t)) {
        uint64_t sum[P::WORDS];
        if (!sum_unit<P, A, K>(t, from, arithmetic, p, sum))
            return false;
        scatter<P>(t, p, sum);
    }
    return true;
}

/* The unit of one source. */
template <class P> DEVICE bool fetch(const task &t, const sources<1> &from, const typename P::place &p, uint64_t *v)
{
    uint64_t slot[1][P::WORDS] = {{0}};
    if (!P::template gather<1>(t, from, p, slot, v))
        return false;
    for (int i = 0; i < P::WORDS && from.own == 1; i++)
        v[i] = slot[0][i];
    return true;
}

template <class P> DEVICE bool copy(const task &t)
{
    sources<1> from = no_sources<P, 1>(t);
    add_source<P>(t, 0, 0, from);
    typename P::place p(t);
    P::copy_plain(t, from, p);
    for (; p.more(t); p.next(t)) {
        uint64_t v[P::WORDS];
        if (!fetch<P>(t, from, p, v))
            return false;
        scatter<P>(t, p, v);
    }
    return true;
}

/* Whatever is rare: any number of sources, wherever they are, one after the other. */
template <class P, class A> DEVICE bool reduce_each(const task &t)
{
    const A arithmetic(t.s.c);
    for (typename P::place p(t); p.more(t); p.next(t)) {
        uint64_t v[P::WORDS] = {0};
        typename A::state x[P::WORDS] = {};
        for (uint32_t k = 0; k < t.op.nsrc; k++) {
            sources<1> from = no_sources<P, 1>(t);
            add_source<P>(t, k, 0, from);
            if (!fetch<P>(t, from, p, v))
                return false;
            UNROLL
            for (int i = 0; i < P::WORDS; i++)
                if (k == 0)
                    x[i] = arithmetic.first(v[i]);
                else
                    arithmetic.add(x[i], v[i]);
        }
        UNROLL
        for (int i = 0; i < P::WORDS; i++)
            v[i] = arithmetic.result(x[i]);
        scatter<P>(t, p, v);
    }
    return true;
}

/* Every thread of the CTA comes here, also one that has given up: others wait for it. */
template <class P, class A> DEVICE bool operate(const slice &s, uint32_t number, bool ok)
{
    const peali_cuda_op &op = s.c.ops[number];
    const task t = {s, op, number, range_of(s, op.first, op.end)};
    ok = P::begin(t, ok);
    if (op.nsrc == 0)
        return P::end(t, ok);
    if (ok && op.nsrc == 1)
        ok = copy<P>(t);
    else if (ok && (op.nsrc > 8 || (op.slots & PEALI_CUDA_MANY_OWN)))
        ok = reduce_each<P, A>(t);
    else if (ok && op.nsrc <= 4)
        ok = reduce<P, A, 4>(t);
    else if (ok)
        ok = reduce<P, A, 8>(t);
    return P::end(t, ok);
}

DEVICE uint32_t *left_at(const slice &s, uint32_t home, uint32_t rank)
{
    return (uint32_t *)(s.c.scratch[home] + s.c.layout.left) + s.lane * s.c.nranks + rank;
}

/* Tells all others that this rank has left EPOCH: what its threads read there, they have read by now (meet, then store_release). */
DEVICE void tell_left(const slice &s, uint32_t epoch)
{
    if (s.thread < s.c.nranks && s.thread != s.c.me)
        store_release(left_at(s, s.thread, s.c.me), epoch);
}

/*
 * Waits until the ranks that this slice stores to have left the slice before the last, whose area it takes. HEARD: they had begun
 * the last one when this rank left it, so they have. Who then begins a slice by whose end that is not known, says how far it is,
 * and says so again when it leaves the slice. The threads that store begin after the ones that wait (load_acquire, then meet).
 */
DEVICE bool get_credit(const slice &s, bool heard, bool ok)
{
    const peali_cuda_call &c = s.c;
    wait w(c, s.epoch, PEALI_CUDA_OPS);
    if (heard && !c.all_hear)
        tell_left(s, s.epoch - 1);
    if (heard || !c.stores_to)
        return ok;
    if (s.thread < c.nranks && (c.stores_to >> s.thread & 1))
        while (ok && ahead(load_acquire(left_at(s, c.me, s.thread)), s.epoch - 2) < 0)
            ok = w.on();
    return !meet(s.threads, !ok);
}

/*
 * The messages of the slice before the last are over, whose areas this one takes: then those of two slices, at most, are under way.
 */
DEVICE bool get_areas(const slice &s, bool ok)
{
    const peali_cuda_lane *lane = &s.c.lane[s.lane];
    wait w(s.c, s.epoch, PEALI_CUDA_OPS + 2);
    if (s.thread == 0) {
        const uint32_t orders = s.epoch - lane->posted == 1 ? lane->before : lane->orders;
        while (ok && ahead(load_acquire(&s.c.post->over[s.lane].number), orders) < 0)
            ok = w.on();
    }
    return !meet(s.threads, !ok);
}

/* For thread 0, which alone reads it. */
DEVICE void note_orders(const slice &s)
{
    peali_cuda_lane *lane = &s.c.lane[s.lane];
    lane->before = lane->orders;
    lane->orders += s.c.messages;
    lane->posted = s.epoch;
}

/* The sums of the wanted blocks become averages. They were stored by whichever thread had them. */
DEVICE bool average(const slice &s, bool ok)
{
    const peali_cuda_call &c = s.c;
    if (meet(s.threads, !ok))
        return false;
    const range r = range_of(s, c.wanted[0], c.wanted[1]);
    for (uint32_t u = s.thread; u < r.words; u += s.threads) {
        uint64_t word;
        load_memory<1>(s, r, out_of(c), u, &word);
        word = divide_any(c.type, word, c.ranks);
        store_memory<1>(s, r, out_of(c), u, &word);
    }
    return true;
}

/*
 * Flags come again after 2^31 slices of a lane. So of every 1024 of them, two clear some of the lines of the area that they have
 * just read, a KiB for each protocol, and all flags beside it: an area of n KiB is clear of what is older than 1024 (n + 1)
 * slices, and n is far below 2^21. Peers store there no sooner than this rank has left the slice, and so after it is clear
 * (fence_all, meet, then what says that it has left: `left`, or the first store of the next slice).
 */
enum { CLEAN_EVERY = 1024, CLEAN_BYTES = 1024 };
DEVICE void clean(const slice &s)
{
    const peali_cuda_layout &l = s.c.layout;
    unsigned char *scratch = s.c.scratch[s.c.me];
    uint64_t area = 2 * s.lane + (s.epoch & 1);
    const quad zero = {0, 0, 0, 0};
    for (int proto = PEALI_CUDA_LL; proto <= PEALI_CUDA_LL128; proto++) {
        uint32_t part = s.epoch / CLEAN_EVERY % (uint32_t)(l.area_bytes[proto] / CLEAN_BYTES);
        unsigned char *at = scratch + l.areas[proto] + area * l.area_bytes[proto] + part * (uint64_t)CLEAN_BYTES;
        for (uint32_t i = s.thread; i < CLEAN_BYTES / sizeof zero; i += s.threads)
            store_line(at + i * sizeof zero, zero);
    }
    uint32_t *flags = (uint32_t *)(scratch + l.flags) + area * PEALI_CUDA_SLOTS;
    for (uint32_t i = s.thread; i < PEALI_CUDA_SLOTS; i += s.threads)
        store_relaxed(&flags[i], 0);
    for (uint32_t i = s.thread; i < s.c.nranks * PEALI_CUDA_VOTE / sizeof zero; i += s.threads)
        store_line(vote_at(s, s.c.me, 0, 0) + i * sizeof zero, zero);
    fence_all();
    meet(s.threads, false);
}

/*
 * Once in a while all say how far they are, whatever they know of each other: so what is on record is never a round of numbers
 * old.
 */
enum { SAY_EVERY = 65536 };
DEVICE void leave(const slice &s)
{
    if (s.epoch % CLEAN_EVERY <= 1)
        clean(s);
    if (!s.c.all_hear || s.epoch % SAY_EVERY == 0)
        tell_left(s, s.epoch);
}

template <class P, class A> DEVICE bool run_slice(const slice &s, bool heard, bool ok)
{
    ok = get_credit(s, heard, ok);
    if (s.c.messages)
        ok = get_areas(s, ok);
    for (uint32_t i = 0; i < s.c.nops; i++)
        ok = operate<P, A>(s, i, ok);
    if (s.c.ranks)
        ok = average(s, ok);
    if (meet(s.threads, !ok))
        return false;
    leave(s);
    if (s.c.messages && s.thread == 0)
        note_orders(s);
    return true;
}

/*
 * A slice of its own, in which the ranks agree whether the call is done where vectors lie, and in which it then is: AGREED. By its
 * end this rank has heard of all others.
 */
template <class A> DEVICE bool run_direct(const slice &s, bool heard, bool ok, bool *agreed)
{
    ok = agree(s, get_credit(s, heard, ok), agreed);
    if (ok && *agreed)
        ok = do_direct<A>(s);
    if (ok && *agreed && s.c.ranks)
        ok = average(s, ok);
    if (meet(s.threads, !ok))
        return false;
    leave(s);
    return true;
}

/*
 * The call that each rank is in, compared beside the data and by other threads: thread RANK tells rank RANK of this one's, and
 * waits for its where this rank's end depends on it anyway. A rank that is ahead has left this call.
 */
DEVICE void compare_calls(const peali_cuda_call &c, uint32_t rank)
{
    const uint32_t call = c.lane[0].calls + 1;
    const uint64_t mine = (uint64_t)call << 32 | c.signature;
    wait w(c, call, PEALI_CUDA_OPS + 1);
    if (warp_any(load_relaxed(&c.lane[0].dead)) || rank >= c.nranks)
        return;
    store_word((uint64_t *)(c.scratch[rank] + c.layout.board) + (call & 1) * c.nranks + c.me, mine);
    if (rank == c.me) {
        c.lane[0].calls = call;
        store_relaxed(&c.lane[0].noticed, 0);
        return;
    }
    for (bool go_on = true; go_on;) {
        uint64_t its = load_word(board_of(c, call) + rank);
        int32_t age = ahead((uint32_t)(its >> 32), call);
        if (age == 0 && its != mine)
            report(c, PEALI_CUDA_DIFFERS, call, PEALI_CUDA_OPS + 1, mine);
        go_on = age < 0 && (c.hears >> rank & 1) && w.on();
    }
}

/*
 * Asks for what each call reads of its parameters. Every launch has them at an address of its own, of which no cache knows: to
 * wait for all at once made short calls on 2 H200 about 0.1 us quicker.
 */
DEVICE void ask_for_parameters(const peali_cuda_call &c)
{
    enum { LINE = 64, HEAD = offsetof(peali_cuda_call, ops), OPS = 2 * LINE, LOCS = 2 * LINE };
    uint32_t words = 0;
    UNROLL
    for (uint32_t at = 0; at < HEAD + OPS; at += LINE)
        words |= ask(&c, at);
    UNROLL
    for (uint32_t at = 0; at < LOCS; at += LINE)
        words |= ask(&c, offsetof(peali_cuda_call, locs) + at);
    got(words);
}

template <class P, class A> DEVICE void launch(const peali_cuda_call &c)
{
    ask_for_parameters(c);
    const uint32_t threads = threads_here() - PEALI_CUDA_BOARD, thread = thread_here();
    peali_cuda_lane *lane = &c.lane[cta_here()];
    if (thread >= threads) {
        if (cta_here() == 0)
            compare_calls(c, thread - threads);
        return;
    }
    uint32_t epoch = lane->epoch;
    bool heard = lane->heard, ok = !warp_any(load_relaxed(&lane->dead)); /* threads of a warp stay together in LL128 */
    bool direct = P::DIRECT && c.direct.slices > 0, agreed = false;
    if (direct) {
        if (!run_direct<A>(direct_slice(c, cta_here(), ++epoch), heard, ok, &agreed))
            return;
        heard = true;
    }
    for (uint32_t number = agreed ? c.slices : cta_here(); number < c.slices; number += ctas_here()) {
        const slice s = slice_of(c, number, ++epoch);
        if (!run_slice<P, A>(s, heard, ok))
            return;
        heard = c.all_hear;
    }
    if (thread == 0 && (direct || cta_here() < c.slices)) { /* all have read it: they have met */
        lane->epoch = epoch;
        lane->heard = heard;
    }
}

#define KERNEL(proto, name, arithmetic) \
    extern "C" __global__ void __launch_bounds__(PEALI_CUDA_BLOCK, 1) peal_##proto##_##name(PARAMETER c) \
    { \
        launch<proto, arithmetic>(c); \
    }
#define KERNELS(proto) \
    KERNEL(proto, float, sum_real<float>) \
    KERNEL(proto, fp8_e4m3, sum_narrow<fp8_e4m3>) \
    KERNEL(proto, fp8_e5m2, sum_narrow<fp8_e5m2>) \
    KERNEL(proto, fp16, sum_narrow<fp16>) \
    KERNEL(proto, bf16, sum_narrow<bf16>) \
    KERNEL(proto, double, sum_real<double>) \
    KERNEL(proto, any, reduce_any)
KERNELS(ll)
KERNELS(ll128)
KERNELS(bulk)
