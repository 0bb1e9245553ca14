/*
 * The kernels: one for each protocol, and for each of the common sums one of its own, of lines also one without what is rare. A
 * kernel interprets the program that it has as its parameter; what is inside the loops over data, it compiles for the number of
 * sources (cuda/call.h has the rest).
 */
#include "cuda/protocol.cuh"
#include "cuda/exchange_lines.cuh"

/* LOC of operation T, which is in this rank's own memory: WHERE of it. */
template <class P> DEVICE own_source own_of(const task &t, const peali_cuda_loc &loc, uint32_t where)
{
    const slice &s = t.s;
    const bool scratch = where >= PEALI_CUDA_TMP;
    own_source own = {true, scratch, P::RARE && s.c.scaled && where == PEALI_CUDA_IN, 0};
    if (scratch)
        own.at = (P::AHEAD || where == PEALI_CUDA_TMP ? scratch_at(s, loc) : slot_at(s, loc)) + 8 * (uint64_t)words_before(t, loc);
    else
        own.at = where == PEALI_CUDA_IN ? in_of(s.c) : out_of(s.c);
    return own;
}

/* Source K of operation T, which is in a slot, becomes number I of FROM. */
template <class P, int K> DEVICE void add_slot(const task &t, uint32_t k, int i, sources<K> &from)
{
    const peali_cuda_loc &loc = t.s.c.locs[t.op.locs + k];
    const uint32_t before = words_before(t, loc);
    from.locs = t.op.locs + k - i;
    from.slots |= 1U << i;
    if (P::RARE && K == 1 && loc.where == PEALI_CUDA_ARRIVES) {
        from.area = t.s.c.scratch[PEALI_CUDA_ARRIVES - PEALI_CUDA_SLOT] + t.s.area;
        from.letter = true;
    }
    from.slot[i] = loc.at * PEALI_CUDA_PACK;
    if (P::skewed(before))
        from.skewed |= 1U << i;
    else
        from.slot[i] += P::offset(before);
}

template <int K> DEVICE sources<K> no_sources(const task &t)
{
    sources<K> from = {{false, false, false, 0}, t.op.locs, 0, 0, K, t.s.c.scratch[t.s.c.me] + t.s.area, false, {0}};
    return from;
}

/* What an operation needs of neither peers nor the epoch: of a slice's first one it is got ready while that is asked for. */
enum { PUTS = 4 };
template <class P> struct ready {
    const task &t;
    own_source own;
    uint64_t ahead[P::WORDS]; /* its unit of this thread's first place, if P::AHEAD */
    unsigned char *put[PUTS]; /* the first slots that it stores to, as if areas began at 0 */
    unsigned char *keep;      /* word 0 of the range in the IN or OUT that it stores to first, or NULL */
    bool more;                /* it stores to others, too */

    explicit DEVICE_MEMBER ready(const task &of) : t(of), own(), ahead(), put(), keep(NULL), more(of.op.nput > PUTS)
    {
        const slice &s = t.s;
        if (t.op.own < t.op.nsrc)
            own = own_of<P>(t, s.c.locs[t.op.locs + t.op.own], t.op.slots / PEALI_CUDA_OWN_WHERE);
        load_ahead(typename P::place(t), ahead);
        UNROLL
        for (uint32_t k = 0; k < PUTS; k++)
            if (k < t.op.nput)
                put[k] = slot_at(s, s.c.locs[t.op.locs + t.op.nsrc + k]) - s.area;
        if (t.op.nput == t.op.ndst)
            return;
        const uint32_t where = s.c.locs[t.op.locs + t.op.nsrc + t.op.nput].where;
        if (where <= PEALI_CUDA_OUT)
            keep = (where == PEALI_CUDA_IN ? in_of(s.c) : out_of(s.c)) + t.r.at;
        more = more || !keep || t.op.ndst - t.op.nput > 1;
    }

    DEVICE_MEMBER void load_ahead(const typename P::place &p, uint64_t *v) const
    {
        if (P::AHEAD && p.data(t))
            load_own<P::WORDS>(t, own, p.u, v);
    }

    template <int K> DEVICE_MEMBER sources<K> all() const
    {
        sources<K> from = no_sources<K>(t);
        static_cast<own_source &>(from) = own;
        from.own = t.op.own;
        UNROLL
        for (uint32_t k = 0; k < K; k++)
            if (k < t.op.nsrc && k != t.op.own)
                add_slot<P>(t, k, (int)k, from);
        return from;
    }
};

/* Stores unit V of the operation's result into this rank's own memory. */
template <int N> DEVICE void keep(const task &t, const peali_cuda_loc &loc, uint32_t u, const uint64_t *v)
{
    const slice &s = t.s;
    if (loc.where == PEALI_CUDA_TMP)
        store_plain<N>(scratch_at(s, loc) + 8 * (uint64_t)(words_before(t, loc) + u), v);
    else
        store_memory<N>(s, t.r, loc.where == PEALI_CUDA_IN ? in_of(s.c) : out_of(s.c), u, v);
}

/* Where a unit goes: found out before it is there. */
template <class P> struct targets {
    unsigned char *put[PUTS];
    unsigned char *keep; /* of one destination in IN or OUT, or NULL */
    bool more;           /* and to others */

    DEVICE_MEMBER targets(const ready<P> &o, const typename P::place &p) : keep(NULL), more(o.more)
    {
        const task &t = o.t;
        UNROLL
        for (uint32_t k = 0; k < PUTS; k++)
            put[k] = o.put[k] + t.s.area + p.offset();
        if (o.keep && p.u + P::WORDS <= t.r.plain)
            keep = o.keep + 8 * (uint64_t)p.u;
        else if (o.keep)
            more = true;
    }
};

template <class P> DEVICE void scatter(const ready<P> &o, const targets<P> &to, const typename P::place &p, const uint64_t *v)
{
    const task &t = o.t;
    UNROLL
    for (uint32_t k = 0; k < PUTS; k++)
        if (k < t.op.nput)
            P::put(t, p, to.put[k], v);
    if (to.keep && p.data(t))
        store_plain<P::WORDS>(to.keep, v);
    if (!to.more)
        return;
    const peali_cuda_loc *locs = &t.s.c.locs[t.op.locs + t.op.nsrc];
    for (uint32_t k = PUTS; k < t.op.nput; k++)
        P::put(t, p, slot_at(t.s, locs[k]) + p.offset(), v);
    for (uint32_t k = t.op.nput + (to.keep != NULL); k < t.op.ndst; k++)
        if (p.data(t))
            keep<P::WORDS>(t, locs[k], p.u, v);
}

/* The unit of P's place of 2 to K sources, of which one at most is OWN: waits for all of them together. */
template <class P, class A, int K>
DEVICE bool sum_unit(const task &t, const sources<K> &from, const A &arithmetic, const typename P::place &p, uint64_t *own,
                     uint64_t *sum)
{
    uint64_t v[K][P::WORDS] = {{0}};
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

template <class P, class A, int K> DEVICE bool reduce(ready<P> &o)
{
    const task &t = o.t;
    const A arithmetic(t.s.c);
    const sources<K> from = o.template all<K>();
    typename P::place p(t);
    P::template reduce_plain<A, K>(t, from, arithmetic, p);
    while (p.more(t)) {
        const typename P::place here = p;
        const targets<P> to(o, here);
        uint64_t sum[P::WORDS];
        if (!sum_unit<P, A, K>(t, from, arithmetic, here, o.ahead, sum))
            return false;
        p.next(t);
        o.load_ahead(p, o.ahead);
        scatter<P>(o, to, here, sum);
    }
    return true;
}

/* The unit of one source. */
template <class P> DEVICE bool fetch(const task &t, const sources<1> &from, const typename P::place &p, uint64_t *own, uint64_t *v)
{
    uint64_t slot[1][P::WORDS] = {{0}};
    if (!P::template gather<1>(t, from, p, slot, own))
        return false;
    for (int i = 0; i < P::WORDS; i++)
        v[i] = from.any ? own[i] : slot[0][i];
    return true;
}

template <class P> DEVICE bool copy(ready<P> &o)
{
    const task &t = o.t;
    const sources<1> from = o.template all<1>();
    typename P::place p(t);
    P::copy_plain(t, from, p);
    while (p.more(t)) {
        const typename P::place here = p;
        const targets<P> to(o, here);
        uint64_t v[P::WORDS];
        if (!fetch<P>(t, from, here, o.ahead, v))
            return false;
        p.next(t);
        o.load_ahead(p, o.ahead);
        scatter<P>(o, to, here, v);
    }
    return true;
}

/* Whatever is rare: any number of sources, wherever they are, one after the other. */
template <class P, class A> DEVICE bool reduce_each(ready<P> &o)
{
    const task &t = o.t;
    const A arithmetic(t.s.c);
    for (typename P::place p(t); p.more(t); p.next(t)) {
        uint64_t v[P::WORDS] = {0};
        typename A::state x[P::WORDS] = {};
        for (uint32_t k = 0; k < t.op.nsrc; k++) {
            const peali_cuda_loc &loc = t.s.c.locs[t.op.locs + k];
            sources<1> from = no_sources<1>(t);
            if (loc.where < PEALI_CUDA_SLOT || (!P::AHEAD && loc.where == PEALI_CUDA_ARRIVES)) {
                o.own = static_cast<own_source &>(from) = own_of<P>(t, loc, loc.where);
                o.load_ahead(p, o.ahead);
            } else {
                add_slot<P>(t, k, 0, from);
            }
            if (!fetch<P>(t, from, p, o.ahead, v))
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
        scatter<P>(o, targets<P>(o, p), p, v);
    }
    return true;
}

template <class P, class A> DEVICE bool operate(ready<P> &o, bool ok)
{
    const peali_cuda_op &op = o.t.op;
    if (!ok || op.nsrc == 0)
        return P::end(o.t, ok);
    if (op.nsrc == 1)
        ok = copy<P>(o);
    else if (P::RARE && (op.nsrc > 8 || (op.slots & PEALI_CUDA_MANY_OWN)))
        ok = reduce_each<P, A>(o);
    else if (P::RARE && op.nsrc > PEALI_CUDA_FEW)
        ok = reduce<P, A, 8>(o);
    else
        ok = reduce<P, A, PEALI_CUDA_FEW>(o);
    return P::end(o.t, ok);
}

/* The sums of the wanted blocks become averages. They were stored by whichever thread had them. */
DEVICE bool average(const slice &s, bool ok)
{
    const peali_cuda_call &c = s.c;
    if (meet(s.threads, !ok))
        return false;
    const range r = range_of(s, c.wanted[0], c.wanted[1], false);
    for (uint32_t u = s.thread; u < r.words; u += s.threads) {
        uint64_t word;
        load_memory<1>(s, r, out_of(c), u, &word);
        word = divide_any(c.type, word, c.ranks);
        store_memory<1>(s, r, out_of(c), u, &word);
        if (c.step)
            store_memory<1>(s, r, engines_piece(c, c.me), u, &word);
    }
    return true;
}

/*
 * What a CTA's lane has on record as a slice begins. FRESH: this launch has not told that this thread has read it. Mail is for
 * thread 0: orders, before, posted and over.
 */
struct record {
    uint32_t epoch, heard, dead;
    bool fresh;
    quad mail;
};

/*
 * The messages of the slice before the last are over, whose areas this one takes: then those of two slices, at most, are under way.
 * As a rule that has been seen while the last one waited (bulk::begin, ll_rare::gather).
 */
DEVICE bool get_areas(slice &s, const record &r, bool ok)
{
    const uint32_t orders = s.epoch - r.mail.z == 1 ? r.mail.y : r.mail.x;
    wait w(s.c, s.epoch, PEALI_CUDA_OPS + 2);
    uint32_t over = r.mail.w;
    s.orders = r.mail.x;
    while (ok && s.thread == 0 && ahead(over, orders) < 0) {
        over = note_over(s, look_over(s));
        ok = ahead(over, orders) >= 0 || w.on();
    }
    if (meet(s.threads, !ok))
        return false;
    if (due(s))
        clean_mail(s);
    return true;
}

/* From here on S is of the epoch after that of R, and peers may be stored to. */
template <class P> DEVICE bool enter(slice &s, const record &r)
{
    set_epoch(s, P::PROTO, r.epoch + 1);
    bool ok = !warp_any(r.dead); /* threads of a warp stay together in lines */
    if (ok && !s.c.all_hear)
        tell_left(s, r.epoch, r.fresh);
    if (!r.heard)
        ok = get_credit(s, ok);
    return P::RARE && s.c.messages ? get_areas(s, r, ok) : ok;
}

/* Of a run of operations each takes as many warps: what this thread does of it. Warps that are left over do nothing. */
template <class P> DEVICE void take_share(task &t, peali_cuda_op &op)
{
    const slice &s = t.s;
    const uint32_t run = run_of(op), share = s.thread / 32 * op.peer >> 8;
    t.threads = 32 * op.lane;
    t.thread -= share * t.threads;
    t.number += share < run ? share : 0;
    op = load_op(&s.c.ops[t.number]);
    t.r = range_of(s, op.first, op.end, P::AHEAD);
    t.r.words = share < run ? t.r.words : 0;
}

/* Every thread of the CTA comes to every operation, also one that has given up: others wait for it. */
template <class P, class A> DEVICE bool run_slice(slice &s, const record &r, bool last)
{
    bool ok = P::AHEAD || enter<P>(s, r);
    uint32_t i = 0;
    do {
        peali_cuda_op op = load_op(&s.c.ops[i]);
        const uint32_t run = P::RUNS ? run_of(op) : 1;
        task t = {s, op, i, s.thread, s.threads, range()};
        if (run > 1)
            take_share<P>(t, op);
        else
            t.r = range_of(s, op.first, op.end, P::AHEAD);
        if (i > 0 || !P::AHEAD)
            ok = P::begin(t, ok);
        ready<P> o(t);
        if (i == 0 && P::AHEAD)
            ok = enter<P>(s, r);
        ok = operate<P, A>(o, ok);
        if (i == 0 && r.fresh)
            come_by(s.threads);
        i += run;
    } while (i < s.c.nops);
    if (P::RARE && s.c.ranks)
        ok = average(s, ok);
    return leave(s, last, ok);
}

/*
 * A slice of its own, in which the ranks agree whether the call is done where vectors lie, and in which it then is: AGREED. By its
 * end this rank has heard of all others. So it tells nobody that it has left: who has to know hears it as the next slice begins.
 */
template <class A> DEVICE bool run_direct(const slice &s, const record &r, bool *agreed)
{
    const bool alive = !warp_any(r.dead);
    bool ok = agree(s, r.heard ? alive : get_credit(s, alive), agreed);
    if (ok && *agreed) {
        do_direct<A>(s);
        ok = await_all(s);
    }
    if (ok && *agreed && s.c.ranks)
        ok = average(s, ok);
    return leave(s, *agreed, ok);
}

/* One step of a call by copy engines. */
template <class A> DEVICE void run_step(const peali_cuda_call &c, bool ok)
{
    const slice s = direct_slice(c, cta_here(), 0);
    if (c.step != PEALI_CUDA_REDUCE) {
        align(s, ok);
        return;
    }
    if (ok)
        do_direct<A>(s);
    if (c.ranks)
        (void)average(s, ok);
}

/*
 * Asks for what each call reads of its parameters. Every launch has them at an address of its own, of which no cache knows: to
 * wait for all at once made short calls on 2 H200 about 0.1 us quicker.
 */
DEVICE uint32_t ask_for_parameters(const peali_cuda_call &c)
{
    enum { LINE = 64, HEAD = offsetof(peali_cuda_call, exchange), OPS = offsetof(peali_cuda_call, ops) + 2 * LINE };
    uint32_t words = ask(&c, 0) | ask(&c, HEAD - sizeof words);
    UNROLL
    for (uint32_t at = offsetof(peali_cuda_call, in_skip); at < OPS; at += LINE)
        words |= ask(&c, at);
    UNROLL
    for (uint32_t at = 0; at < 2 * LINE; at += LINE)
        words |= ask(&c, offsetof(peali_cuda_call, locs) + at);
    return words;
}

/* The same for what the first operation loads of IN: it is on its way while it is found out what that is. */
DEVICE uint32_t touch_first(const peali_cuda_call &c, uint32_t thread)
{
    const uint64_t at = (uint64_t)cta_here() * c.slice_packs * PEALI_CUDA_PACK + 8 * thread;
    return at < c.touch_bytes ? touch((const unsigned char *)c.in + c.touch + at) : 0;
}

/* Those whose lanes have areas share the slices. */
template <class P> DEVICE uint32_t working_ctas(const peali_cuda_call &c)
{
    return P::DIRECT && c.layout.lanes < ctas_here() ? c.layout.lanes : ctas_here();
}

template <class A, class P> DEVICE void launch(P, const peali_cuda_call &c)
{
    const uint32_t threads = threads_here() - PEALI_CUDA_BOARD, thread = thread_here(), asked = ask_for_parameters(c);
    await_stream();
    peali_cuda_lane *lane = &c.lane[cta_here()];
    const quad first = load_line((const unsigned char *)lane + got(asked)); /* epoch, heard, calls, dead */
    quad mail = {};
    if (P::RARE && c.messages)
        mail = load_line((const unsigned char *)&lane->orders);
    if (P::DIRECT && c.direct.slices > 0 && thread < VOTE_LINES * c.nranks)
        fence_all(); /* for what it says in agree; a microsecond, beside that of the record */
    if (thread >= threads) {
        if (cta_here() == 0 && c.step <= PEALI_CUDA_MEET)
            compare_calls(c, thread - threads, first);
        return;
    }
    if (P::DIRECT && c.step) {
        run_step<A>(c, !warp_any(first.w));
        return;
    }
    const uint32_t touched = P::AHEAD ? touch_first(c, thread) : 0;
    record r = {first.x, first.y, first.w, true, mail};
    const bool direct = P::DIRECT && c.direct.slices > 0;
    bool agreed = false;
    if (direct) {
        if (!run_direct<A>(direct_slice(c, cta_here(), r.epoch + 1), r, &agreed))
            return;
        come_by(threads);
        r = {r.epoch + 1, 1, r.dead, false, quad()};
    }
    const uint32_t ctas = working_ctas<P>(c);
    for (uint32_t number = agreed || cta_here() >= ctas ? c.slices : cta_here(); number < c.slices; number += ctas) {
        slice s = slice_of(c, number);
        if (P::RARE && c.messages && !r.fresh)
            r.mail = load_line((const unsigned char *)&lane->orders);
        if (!run_slice<P, A>(s, r, c.slices - number <= ctas))
            return;
        r = {r.epoch + 1, c.all_hear, r.dead, false, quad()};
    }
    if (thread >= 32 || (!direct && cta_here() >= c.slices))
        return;
    see_off(threads);
    if (thread == 0)
        store_word((uint64_t *)((unsigned char *)lane + got(touched)), r.epoch | (uint64_t)r.heard << 32);
}

#define KERNEL(proto, name, how, arithmetic) \
    extern "C" __global__ void __launch_bounds__(PEALI_CUDA_BLOCK, 1) peal_##proto##_##name(PARAMETER c) \
    { \
        launch<arithmetic>(how(), c); \
    }
#define EXCHANGE(proto, name, how, arithmetic) \
    extern "C" __global__ void __launch_bounds__(PEALI_CUDA_BLOCK, 1) peal_##proto##_##name(FRAME_PARAMETER f) \
    { \
        launch<arithmetic>(how(), call_of(f)); \
    }
#define SUMS(KIND, proto) \
    KIND(proto, float, proto, sum_real<float>) \
    KIND(proto, fp8_e4m3, proto, sum_narrow<fp8_e4m3>) \
    KIND(proto, fp8_e5m2, proto, sum_narrow<fp8_e5m2>) \
    KIND(proto, fp16, proto, sum_narrow<fp16>) \
    KIND(proto, bf16, proto, sum_narrow<bf16>) \
    KIND(proto, double, proto, sum_real<double>)
#define EXCHANGES(proto) \
    SUMS(EXCHANGE, proto) \
    EXCHANGE(proto, any, proto, reduce_any) \
    EXCHANGE(proto, moves, proto##_moves, sum_real<float>) \
    EXCHANGE(proto, gives, proto##_gives, sum_real<float>) \
    EXCHANGE(proto, keeps, proto##_keeps, sum_real<float>) \
    SUMS(EXCHANGE, proto##_takes) \
    EXCHANGE(proto##_takes, any, proto##_takes, reduce_any)
EXCHANGES(exchange)
EXCHANGES(exchange_lines)
SUMS(EXCHANGE, exchange_lines_shares)
EXCHANGE(exchange_lines_shares, any, exchange_lines_shares, reduce_any)
SUMS(KERNEL, ll)
SUMS(KERNEL, ll_rare)
KERNEL(ll, any, ll_rare, reduce_any)
SUMS(KERNEL, ll128)
SUMS(KERNEL, ll128_rare)
KERNEL(ll128, any, ll128_rare, reduce_any)
SUMS(KERNEL, bulk)
KERNEL(bulk, any, bulk, reduce_any)
