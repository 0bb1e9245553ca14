/*
 * Exchanges (cuda/exchange.cuh) of more: by lines of 128 bytes, 8 threads to a line, each with two words, or one and the flag.
 *
 * Slices follow each other without the threads of a CTA meeting: where a warp has got its lines of one slice, it gives those of the
 * next, which go to the area of the slice before. The same warp of the other rank has read them there: it gave what has been got
 * after it had. Where the other's program is interpreted, its CTA meets between slices, and that is known all the more. Slices do
 * not become longer, so that what is given has its line in the slice that is got. A slice that is due ends before the next begins.
 * So does, of a call whose slices have not all as many lines, the one before a CTA's last one: of lines that the last one has not,
 * nothing is got that tells that they were read, and the launch behind it gives as many again.
 *
 * Where words go one way, who gives waits for credit slice by slice, and who gets meets between them, to say what it has left: what
 * it read there has come, or it would not be here, so no fence is needed (as in `asked`).
 */
#ifndef PEALI_CUDA_EXCHANGE_LINES_CUH
#define PEALI_CUDA_EXCHANGE_LINES_CUH

#include "cuda/exchange.cuh"

/* Blocks are full, so that the distances between the lines of a thread are constants. */
enum {
    LINE_THREADS = 8,
    LINE_BYTES = 8 * PEALI_CUDA_LINE_WORDS,
    STEP = (PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD) / LINE_THREADS, /* lines of a row: one of each thread */
};

/* Bytes of a part from START to END, which are LINES; the words before WHOLE are whole, and aligned. */
struct line_range {
    uint32_t start, end, whole, lines;

    DEVICE_MEMBER line_range() : start(0), end(0), whole(0), lines(0)
    {
    }
    /* Slice NUMBER of the part, if there is ANY. */
    DEVICE_MEMBER line_range(const peali_cuda_call &c, uint32_t number, bool any) : line_range()
    {
        const uint32_t longer = number < c.long_slices, from = number * c.slice_packs + (longer ? number : c.long_slices);
        if (any)
            cut(c, from, from + c.slice_packs + longer);
    }
    /* Of it, block BLOCK. */
    DEVICE_MEMBER line_range(const peali_cuda_call &c, uint32_t number, bool any, uint32_t block) : line_range()
    {
        const uint32_t longer = number < c.long_slices, from = number * c.slice_packs + (longer ? number : c.long_slices);
        const uint32_t packs = c.block_packs, more = c.long_blocks + longer;
        const uint32_t first = from + block * packs + (block < more ? block : more);
        if (any)
            cut(c, first, first + packs + (block < more));
    }

  private:
    DEVICE_MEMBER void cut(const peali_cuda_call &c, uint32_t from, uint32_t to)
    {
        const uint32_t last = to * PEALI_CUDA_PACK;
        start = from * PEALI_CUDA_PACK;
        end = c.exchange.bytes < last ? c.exchange.bytes : last;
        whole = c.exchange.plain < last ? c.exchange.plain : last;
        lines = (end - start + LINE_BYTES - 1) / LINE_BYTES;
    }
};

/* One range for all others; an array of ranges has one for each. */
struct same_range {
    const line_range &r;

    explicit DEVICE_MEMBER same_range(const line_range &range) : r(range)
    {
    }
    DEVICE_MEMBER const line_range &operator[](int) const
    {
        return r;
    }
};

/* A thread's words of ROWS lines: 16 bytes of each, or 8 and the flag. */
template <int ROWS> struct rows {
    quad of[ROWS];
};
DEVICE bool has_flag()
{
    return thread_here() % LINE_THREADS == LINE_THREADS - 1;
}

/* The lines of this thread from row ROW on. */
struct line_place {
    int32_t line;

    explicit DEVICE_MEMBER line_place(uint32_t row) : line((int32_t)(row * STEP + thread_here() / LINE_THREADS))
    {
    }
    /* Bytes from the start of the part. */
    DEVICE_MEMBER uint32_t at(const line_range &r) const
    {
        return r.start + (uint32_t)line * LINE_BYTES + 16 * (thread_here() % LINE_THREADS);
    }
    /* Is there line I of this thread, and is its first word plain, or its second one? */
    DEVICE_MEMBER bool there(const line_range &r, int32_t i) const
    {
        return (int32_t)r.lines - line > i * STEP;
    }
    DEVICE_MEMBER bool first(const line_range &r, int32_t i) const
    {
        return (int32_t)(r.whole - at(r)) >= i * STEP * LINE_BYTES + 8;
    }
    DEVICE_MEMBER bool second(const line_range &r, int32_t i) const
    {
        return (has_flag() ? -1 : (int32_t)(r.whole - at(r))) >= i * STEP * LINE_BYTES + 16;
    }
    /* Of ROWS of them, has one words that are not plain? */
    DEVICE_MEMBER bool rest(const line_range &r, int32_t nrows) const
    {
        return r.whole < r.end && (int32_t)(r.whole - at(r)) < (nrows - 1) * STEP * LINE_BYTES + 16;
    }
};

/* Words that are not plain, of the lines whose first one of this thread is AT bytes from the start of the part. */
template <int ROWS>
DEVICE_SLOW rows<ROWS> load_rest_of(const peali_cuda_call &c, uint32_t part, uint32_t at, line_range r, rows<ROWS> q)
{
    for (int i = 0; i < ROWS; i++, at += STEP * LINE_BYTES) {
        uint64_t v[2] = {q.of[i].x | (uint64_t)q.of[i].y << 32, q.of[i].z | (uint64_t)q.of[i].w << 32};
        for (uint32_t k = 0; k < (has_flag() ? 1 : 2); k++)
            if ((int32_t)(r.whole - at) < 8 * (int32_t)k + 8 && at + 8 * k < r.end)
                v[k] = load_rest(c, part, at + 8 * k);
        q.of[i] = quad_of(v[0], v[1]);
    }
    return q;
}

template <int ROWS>
DEVICE_SLOW void store_rest_of(const peali_cuda_call &c, uint32_t part, uint32_t at, line_range r, rows<ROWS> q)
{
    for (int i = 0; i < ROWS; i++, at += STEP * LINE_BYTES) {
        const uint64_t v[2] = {q.of[i].x | (uint64_t)q.of[i].y << 32, q.of[i].z | (uint64_t)q.of[i].w << 32};
        for (uint32_t k = 0; k < (has_flag() ? 1 : 2); k++)
            if ((int32_t)(r.whole - at) < 8 * (int32_t)k + 8 && at + 8 * k < r.end)
                store_rest(c, part, at + 8 * k, v[k]);
    }
}

/* Of the part that begins PART bytes from IN. */
template <int ROWS> DEVICE rows<ROWS> load_rows(const peali_cuda_call &c, uint32_t part, const line_range &r, const line_place &p)
{
    const unsigned char *const in = (const unsigned char *)c.in + part + p.at(r);
    rows<ROWS> q;
    UNROLL
    for (int i = 0; i < ROWS; i++)
        q.of[i] = quad_of(load_if(in + i * STEP * LINE_BYTES, p.first(r, i)), load_if(in + i * STEP * LINE_BYTES + 8, p.second(r, i)));
    return p.rest(r, ROWS) ? load_rest_of<ROWS>(c, part, p.at(r), r, q) : q;
}

/* Into the part that begins PART bytes from OUT. */
template <int ROWS>
DEVICE void store_rows(const peali_cuda_call &c, uint32_t part, const line_range &r, const line_place &p, const rows<ROWS> &q)
{
    unsigned char *const out = (unsigned char *)c.out + part + p.at(r);
    UNROLL
    for (int i = 0; i < ROWS; i++) {
        if (p.first(r, i))
            *(uint64_t *)(out + i * STEP * LINE_BYTES) = q.of[i].x | (uint64_t)q.of[i].y << 32;
        if (p.second(r, i))
            *(uint64_t *)(out + i * STEP * LINE_BYTES + 8) = q.of[i].z | (uint64_t)q.of[i].w << 32;
    }
    if (p.rest(r, ROWS))
        store_rest_of<ROWS>(c, part, p.at(r), r, q);
}

/* What a thread of an exchange with OTHERS at most does of a slice. */
template <int SHAPE, class A, int OTHERS> struct line_exchange {
    typedef ways<SHAPE> way;
    enum { ROWS = SHAPE == PEALI_CUDA_SHARES ? 1 : OTHERS == 1 ? 4 : 2, GIVEN = SHAPE == PEALI_CUDA_SCATTERS ? OTHERS : 1 };
    const peali_cuda_call &c;
    const A arithmetic;

    explicit DEVICE_MEMBER line_exchange(const peali_cuda_call &call) : c(call), arithmetic(call)
    {
    }
    DEVICE_MEMBER bool has(int k) const
    {
        return OTHERS == 1 || k < (int)c.exchange.others;
    }
    /* From what the host has found to this thread's words of its line at P. */
    DEVICE_MEMBER uint64_t offset(uint32_t epoch, const line_place &p) const
    {
        const uint64_t area = (2 * cta_here() + (epoch & 1)) * (uint64_t)c.exchange.area_bytes;
        return area + (uint32_t)p.line * PEALI_CUDA_LINE + sizeof(quad) * (thread_here() % LINE_THREADS);
    }

    /* To TO[k] what is GIVEN[k] (N of them: one for all, or for each): lines of range R[k]. */
    template <int N, class Ranges>
    DEVICE_MEMBER void put_to(const uint64_t *to, const Ranges &r, uint32_t epoch, const line_place &p,
                              const rows<ROWS> *given) const
    {
        const uint32_t flag = flag_of(epoch);
        UNROLL
        for (int k = 0; k < OTHERS; k++) {
            unsigned char *const at = (unsigned char *)to[k] + offset(epoch, p);
            UNROLL
            for (int i = 0; i < ROWS; i++) {
                quad q = given[k % N].of[i];
                q.z = has_flag() ? flag : q.z;
                q.w = has_flag() ? flag : q.w;
                store_row(at + i * STEP * PEALI_CUDA_LINE, q, has(k) && p.there(r[k], i));
            }
        }
    }
    DEVICE_MEMBER void put(const line_range &r, uint32_t epoch, const line_place &p, const rows<ROWS> *given) const
    {
        put_to<GIVEN>(c.exchange.put, same_range(r), epoch, p, given);
        if (way::COPIES && c.exchange.copies)
            store_rows<ROWS>(c, c.exchange.mine, r, p, given[0]);
    }

    /* Likewise. True where one is not there yet, or another thread of the warp lacks one. */
    template <class Ranges>
    DEVICE_MEMBER bool missing(const uint64_t *from, const Ranges &r, uint32_t epoch, const line_place &p, rows<ROWS> *got) const
    {
        const uint32_t flag = flag_of(epoch);
        bool some = false;
        UNROLL
        for (int k = 0; k < OTHERS; k++) {
            const unsigned char *const at = (const unsigned char *)from[k] + offset(epoch, p);
            UNROLL
            for (int i = 0; i < ROWS; i++)
                got[k].of[i] = load_row(at + i * STEP * PEALI_CUDA_LINE, has(k) && p.there(r[k], i));
        }
        UNROLL
        for (int k = 0; k < OTHERS; k++)
            UNROLL
            for (int i = 0; i < ROWS; i++)
                some |= has_flag() && has(k) && p.there(r[k], i) && (got[k].of[i].z != flag || got[k].of[i].w != flag);
        return warp_any(some);
    }
    template <class Ranges>
    DEVICE_MEMBER bool await(wait &w, const uint64_t *from, const Ranges &r, uint32_t epoch, const line_place &p,
                             rows<ROWS> *got) const
    {
        bool ok = true;
        while (ok && missing(from, r, epoch, p, got))
            ok = !warp_any(!w.on());
        return ok;
    }
    /* Of words that come one each from all, in the order of ranks. */
    DEVICE_MEMBER uint64_t sum(uint64_t mine, const uint64_t *its) const
    {
        if (OTHERS == 1)
            return sum_of_two(arithmetic, mine, its[0]);
        const int before = (int)c.exchange.before;
        typename A::state x = arithmetic.first(before == 0 ? mine : its[0]);
        UNROLL
        for (int k = 1; k <= OTHERS; k++)
            if (has(k - 1))
                arithmetic.add(x, before == k ? mine : before > k && k < OTHERS ? its[k % OTHERS] : its[k - 1]);
        return arithmetic.result(x);
    }
    DEVICE_MEMBER void sum_rows(const rows<ROWS> &mine, rows<ROWS> *got) const
    {
        UNROLL
        for (int i = 0; i < ROWS; i++) {
            uint64_t low[OTHERS], high[OTHERS];
            UNROLL
            for (int k = 0; k < OTHERS; k++) {
                low[k] = got[k].of[i].x | (uint64_t)got[k].of[i].y << 32;
                high[k] = got[k].of[i].z | (uint64_t)got[k].of[i].w << 32;
            }
            got[0].of[i] = quad_of(sum(mine.of[i].x | (uint64_t)mine.of[i].y << 32, low),
                                   sum(mine.of[i].z | (uint64_t)mine.of[i].w << 32, high));
        }
    }
    DEVICE_MEMBER void keep(const line_range &r, const line_place &p, const rows<ROWS> &mine, rows<ROWS> *got) const
    {
        if (!way::MOVES) {
            sum_rows(mine, got);
            store_rows<ROWS>(c, 0, r, p, got[0]);
        }
        UNROLL
        for (int k = 0; k < OTHERS && way::MOVES; k++)
            if (has(k))
                store_rows<ROWS>(c, c.exchange.part[k], r, p, got[k]);
    }

    /*
     * Gets slice GOT, of EPOCH, and gives the next one, GIVEN, as far as there are any. What is needed of IN is asked for first. ASKS:
     * what is given needs credit.
     */
    DEVICE_MEMBER bool pass(const line_range &got, const line_range &given, uint32_t epoch, bool asks) const
    {
        const uint32_t lines = got.lines > given.lines ? got.lines : given.lines;
        wait w(c, epoch, way::PUTS);
        for (uint32_t row = 0; row * STEP < lines; row += ROWS) {
            const line_place p(row);
            rows<ROWS> next[GIVEN], mine, its[OTHERS];
            UNROLL
            for (int k = 0; k < GIVEN && way::PUTS; k++)
                next[k] = load_rows<ROWS>(c, SHAPE == PEALI_CUDA_SCATTERS ? c.exchange.part[k] : 0, given, p);
            if (way::GETS && got.lines > 0) {
                if (!way::MOVES)
                    mine = load_rows<ROWS>(c, SHAPE == PEALI_CUDA_SCATTERS ? c.exchange.mine : 0, got, p);
                if (!await(w, c.exchange.get, same_range(got), epoch, p, its))
                    return false;
                keep(got, p, mine, its);
            }
            if (asks && row == 0 && !await_credit(slice_now(c, epoch + 1), true))
                return false;
            if (way::PUTS)
                put(given, epoch + 1, p, next);
        }
        return true;
    }
};

/* The same of slices by their numbers. */
template <int SHAPE, class A, int OTHERS> struct slice_exchange : line_exchange<SHAPE, A, OTHERS> {
    explicit DEVICE_MEMBER slice_exchange(const peali_cuda_call &call) : line_exchange<SHAPE, A, OTHERS>(call)
    {
    }
    DEVICE_MEMBER bool pass_slices(uint32_t got, bool gets, uint32_t given, bool gives, uint32_t epoch) const
    {
        return this->pass(line_range(this->c, got, gets), line_range(this->c, given, gives), epoch, false);
    }
};

/*
 * In two stages: each rank sums a block of a slice, its share, and gives that to all. So that lines of one stage are on their way
 * while those of the other are awaited, a warp gives words of the next slice after its sums of this one, before it has got the
 * others'. They go where the words of the slice before this one were: who has given sums of that had read them. And sums go where
 * those of two slices before were: who has given words of this slice had read them. A warp that has lines of any block has lines of
 * each, in all slices (cuda/exchange.c), or it would not know.
 */
template <class A, int OTHERS> struct slice_exchange<PEALI_CUDA_SHARES, A, OTHERS> : line_exchange<PEALI_CUDA_SHARES, A, OTHERS> {
    typedef line_exchange<PEALI_CUDA_SHARES, A, OTHERS> lines;
    enum { ROWS = lines::ROWS };

    explicit DEVICE_MEMBER slice_exchange(const peali_cuda_call &call) : lines(call)
    {
    }
    DEVICE_MEMBER bool pass_slices(uint32_t got, bool gets, uint32_t given, bool gives, uint32_t epoch) const
    {
        const peali_cuda_call &c = this->c;
        const line_range own(c, got, gets, c.exchange.mine);
        line_range theirs[OTHERS], next[OTHERS];
        uint32_t most = own.lines;
        UNROLL
        for (int k = 0; k < OTHERS; k++) {
            theirs[k] = line_range(c, got, gets, c.exchange.part[k]);
            next[k] = line_range(c, given, gives, c.exchange.part[k]);
            most = theirs[k].lines > most ? theirs[k].lines : most;
            most = next[k].lines > most ? next[k].lines : most;
        }
        wait w(c, epoch, true);
        for (uint32_t row = 0; row * STEP < most; row += ROWS) {
            const line_place p(row);
            rows<ROWS> words[OTHERS], its[OTHERS];
            UNROLL
            for (int k = 0; k < OTHERS; k++)
                words[k] = load_rows<ROWS>(c, 0, next[k], p);
            if (gets) {
                const rows<ROWS> mine = load_rows<ROWS>(c, 0, own, p);
                if (!this->await(w, c.exchange.get, same_range(own), epoch, p, its))
                    return false;
                this->sum_rows(mine, its);
                this->template put_to<1>(c.exchange.put_share, same_range(own), epoch, p, its);
                store_rows<ROWS>(c, 0, own, p, its[0]);
            }
            this->template put_to<OTHERS>(c.exchange.put, next, epoch + 1, p, words);
            if (!gets)
                continue;
            if (!this->await(w, c.exchange.get_share, theirs, epoch, p, its))
                return false;
            UNROLL
            for (int k = 0; k < OTHERS; k++)
                if (this->has(k))
                    store_rows<ROWS>(c, 0, theirs[k], p, its[k]);
        }
        return true;
    }
};

/*
 * All threads come to the end of a slice at which they meet, also those that have given up: not OK. EPOCH: of the slice before the
 * first one.
 */
template <int SHAPE, class A, int OTHERS>
DEVICE void exchange_both_ways(const peali_cuda_call &c, const slice_exchange<SHAPE, A, OTHERS> &exchange, uint32_t epoch, bool ok)
{
    bool gets = false;
    for (uint32_t number = cta_here();;) {
        const bool more = number < c.slices, last = more && c.slices - number <= ctas_here();
        const bool ends = gets && ((last && c.exchange.uneven) || due(slice_now(c, epoch))), gives = more && !ends;
        ok = ok && exchange.pass_slices(number - ctas_here(), gets, number, gives, epoch);
        if (ends)
            ok = leave_met(c, epoch, ok);
        else if (!more)
            return;
        gets = gives;
        if (!gives)
            continue;
        number += ctas_here();
        epoch++;
        if (number >= c.slices)
            note_epoch<SHAPE, 0>(slice_now(c, epoch));
    }
}

template <int SHAPE, class A, int OTHERS>
DEVICE void exchange_one_way(const peali_cuda_call &c, const line_exchange<SHAPE, A, OTHERS> &exchange, uint32_t epoch, bool ok)
{
    typedef ways<SHAPE> way;
    for (uint32_t number = cta_here(); number < c.slices; number += ctas_here()) {
        const line_range r(c, number, true), none(c, 0, false);
        const slice s = slice_now(c, ++epoch);
        const bool first = number == cta_here();
        if (way::GETS && !first)
            ok = !meet(s.threads, !ok);
        if (ok)
            tell_left(s, epoch - 1, true);
        ok = ok && exchange.pass(way::GETS ? r : none, way::PUTS ? r : none, epoch - way::PUTS, way::PUTS && !first);
        if (due(s))
            ok = leave_met(c, epoch, ok);
    }
    note_epoch<SHAPE, 0>(slice_now(c, epoch));
}

template <int SHAPE, class A, int OTHERS> DEVICE void exchange_slices(const peali_cuda_call &c, const asked &a)
{
    const slice_exchange<SHAPE, A, OTHERS> exchange(c);
    const bool may = may_store<SHAPE>(a);
    const bool ok = !warp_any(a.first.w || !may) || begin_late(c, a.first.x + 1, may, a.first.w);
    if (ways<SHAPE>::BOTH)
        exchange_both_ways<SHAPE, A, OTHERS>(c, exchange, a.first.x, ok);
    else
        exchange_one_way<SHAPE, A, OTHERS>(c, exchange, a.first.x, ok);
}

template <int SHAPE, class A> DEVICE void exchange_lines_as(const peali_cuda_call &c, const asked &a)
{
    if (c.exchange.others > 1)
        exchange_slices<SHAPE, A, PEALI_CUDA_FEW - 1>(c, a);
    else
        exchange_slices<SHAPE, A, 1>(c, a);
}

/* Kernels of one shape, or of two. */
template <int SHAPE, int OTHER = SHAPE> struct line_shapes {
};
typedef line_shapes<PEALI_CUDA_SUMS, PEALI_CUDA_SCATTERS> exchange_lines;
typedef line_shapes<PEALI_CUDA_SHARES> exchange_lines_shares;
typedef line_shapes<PEALI_CUDA_MOVES> exchange_lines_moves;
typedef line_shapes<PEALI_CUDA_GIVES> exchange_lines_gives;
typedef line_shapes<PEALI_CUDA_TAKES> exchange_lines_takes;
typedef line_shapes<PEALI_CUDA_KEEPS> exchange_lines_keeps;

template <class A, int SHAPE, int OTHER> DEVICE void launch(line_shapes<SHAPE, OTHER>, const peali_cuda_call &c)
{
    typedef ways<SHAPE> way;
    const uint32_t threads = threads_here() - PEALI_CUDA_BOARD, none = got(ask_for_exchange(c));
    asked a;
    await_stream();
    a.first = load_line((const unsigned char *)&c.lane[cta_here()] + none);
    if (way::PUTS && !way::BOTH)
        ask_for_left(c, a, none);
    if (thread_here() >= threads) {
        if (cta_here() == 0)
            compare_calls(c, thread_here() - threads, a.first);
    } else if (SHAPE == OTHER || c.exchanges == SHAPE) {
        exchange_lines_as<SHAPE, A>(c, a);
    } else {
        exchange_lines_as<OTHER, A>(c, a);
    }
}

#endif
