/* Which calls are exchanges of words, and where these go: what the kernel would have to find out (cuda/exchange.cuh). */
#include "cuda/exchange.h"

#include <stddef.h>

/* An exchange as it is found operation by operation: what is put and got, and of which part of the vector it is. */
typedef struct finding {
    const peali_cuda_call *call;
    int puts, gets, sums; /* so many */
    const peali_cuda_loc *put[PEALI_CUDA_FEW], *get[PEALI_CUDA_FEW], *put_share[PEALI_CUDA_FEW], *get_share[PEALI_CUDA_FEW];
    uint32_t put_part[PEALI_CUDA_FEW], get_part[PEALI_CUDA_FEW], mine;
    uint32_t before;
    bool copies;
} finding;

static bool is_slot(const peali_cuda_loc *loc)
{
    return loc->where >= PEALI_CUDA_SLOT && loc->where < PEALI_CUDA_ARRIVES;
}

/* What is IN goes to slots, and to OUT. */
static bool find_puts(finding *f, const peali_cuda_op *op, uint32_t part)
{
    const peali_cuda_loc *to = &f->call->locs[op->locs + 1];
    for (int k = 0; k < op->ndst; k++) {
        if (is_slot(&to[k]) && f->puts < PEALI_CUDA_FEW) {
            f->put[f->puts] = &to[k];
            f->put_part[f->puts++] = part;
        } else if (to[k].where == PEALI_CUDA_OUT) {
            f->copies = true;
            f->mine = part;
        } else {
            return false;
        }
    }
    return true;
}

/* Slots are summed with what is IN, or are one, into OUT. */
static bool find_gets(finding *f, const peali_cuda_op *op, uint32_t part)
{
    const peali_cuda_loc *from = &f->call->locs[op->locs];
    if (op->ndst != 1 || from[op->nsrc].where != PEALI_CUDA_OUT || (op->nsrc > 1 && op->own == op->nsrc))
        return false;
    for (int k = 0; k < op->nsrc; k++) {
        if (k == op->own && from[k].where == PEALI_CUDA_IN)
            continue;
        if (!is_slot(&from[k]) || f->gets == PEALI_CUDA_FEW)
            return false;
        f->get[f->gets] = &from[k];
        f->get_part[f->gets++] = part;
    }
    if (op->nsrc > 1) {
        f->sums++;
        f->mine = part;
        f->before = op->own;
    }
    return true;
}

/* Do BYTES and OTHERS take as many units of UNIT bytes? */
static bool take_as_many(uint64_t bytes, uint64_t others, uint64_t unit)
{
    return (bytes + unit - 1) / unit == (others + unit - 1) / unit;
}

enum { WARP_LINES = 4, LINE_BYTES = 8 * PEALI_CUDA_LINE_WORDS };

/*
 * Of blocks that differ by a pack: do those warps that have lines of one have lines of each? The last block of the last slice is
 * the shortest, and may end within a pack.
 */
static bool has_even_lines(const peali_cuda_call *c)
{
    const uint64_t packs = c->slice_packs + (c->long_slices > 0), longest = (packs + c->blocks - 1) / c->blocks * PEALI_CUDA_PACK;
    const uint64_t shortest = c->slice_packs / c->blocks * PEALI_CUDA_PACK, lacks = -c->part_bytes % PEALI_CUDA_PACK;
    return shortest > 0 && take_as_many(longest, shortest - lacks, WARP_LINES * LINE_BYTES);
}

static bool find_op(finding *f, const peali_cuda_op *op)
{
    const peali_cuda_call *c = f->call;
    const uint32_t part = op->first / c->blocks;
    if (op->first % c->blocks > 0 || op->end - op->first != (int)c->blocks || (op->slots & PEALI_CUDA_WITHIN))
        return false;
    if (op->nsrc == 1 && c->locs[op->locs].where == PEALI_CUDA_IN)
        return find_puts(f, op, part);
    return op->nsrc > 0 && find_gets(f, op, part);
}

/* Likewise of one in which nothing is put, or got. */
static uint8_t find_way(const finding *f)
{
    bool same = !f->copies || f->mine == f->put_part[0];
    for (int k = 0; k < f->puts; k++)
        same &= f->put_part[k] == f->put_part[0];
    for (int k = 0; k < f->gets && f->sums; k++)
        same &= f->get_part[k] == f->mine;
    if (!same || f->puts >= PEALI_CUDA_FEW || f->gets >= PEALI_CUDA_FEW || f->sums > 1 || f->puts + f->gets == 0)
        return PEALI_CUDA_NO_EXCHANGE;
    return f->puts ? PEALI_CUDA_GIVES : f->copies ? PEALI_CUDA_NO_EXCHANGE : f->sums ? PEALI_CUDA_TAKES : PEALI_CUDA_KEEPS;
}

/* The one of the N in LOCS that is in scratch of the same rank as LOC is; N: none. */
static int of_same_rank(const peali_cuda_loc *locs, int n, const peali_cuda_loc *loc)
{
    int k = 0;
    while (k < n && locs[k].where != loc->where)
        k++;
    return k;
}

/* The operation that keeps block BLOCK as it comes; NULL: none. */
static const peali_cuda_op *find_share(const peali_cuda_call *c, uint32_t from, uint32_t block)
{
    for (uint32_t n = from; n < c->nops; n++) {
        const peali_cuda_op *op = &c->ops[n];
        const peali_cuda_loc *locs = &c->locs[op->locs];
        if (op->nsrc == 1 && op->ndst == 1 && op->first == block && op->end == block + 1 && is_slot(&locs[0]) &&
            locs[1].where == PEALI_CUDA_OUT && !(op->slots & PEALI_CUDA_WITHIN))
            return op;
    }
    return NULL;
}

/* Of the puts, one of each other block to another rank; then a sum that goes to all; then what comes of each of these. */
static bool find_shares(finding *f)
{
    const peali_cuda_call *c = f->call;
    const int others = c->nranks - 1;
    const peali_cuda_op *sum = &c->ops[others];
    const peali_cuda_loc *locs = &c->locs[sum->locs];
    if (c->parts != 1 || c->blocks != c->nranks || others >= PEALI_CUDA_FEW || c->nops != 2 * (uint32_t)others + 1 || c->in_skip ||
        c->out_skip || sum->nsrc != c->nranks || sum->ndst != c->nranks || sum->end != sum->first + 1 ||
        sum->own == sum->nsrc || locs[sum->own].where != PEALI_CUDA_IN || locs[2 * others + 1].where != PEALI_CUDA_OUT)
        return false;
    for (int k = 0, r = 0; k < others; k++, r++) {
        const peali_cuda_op *put = &c->ops[k];
        const peali_cuda_loc *to = &c->locs[put->locs + 1];
        const int share = put->ndst == 1 ? of_same_rank(&locs[sum->nsrc], others, to) : others;
        const peali_cuda_op *comes = find_share(c, (uint32_t)others + 1, put->first);
        r += r == sum->own;
        if (put->nsrc != 1 || put->end != put->first + 1 || c->locs[put->locs].where != PEALI_CUDA_IN || !is_slot(to) ||
            share == others || !comes || !is_slot(&locs[r]) || ((put->slots | sum->slots) & PEALI_CUDA_WITHIN))
            return false;
        f->put[k] = to;
        f->put_part[k] = put->first;
        f->get[k] = &locs[r];
        f->put_share[k] = &locs[sum->nsrc + share];
        f->get_share[k] = &c->locs[comes->locs];
    }
    f->mine = sum->first;
    f->before = sum->own;
    f->puts = f->gets = others;
    f->sums = 1;
    return true;
}

/* Its shape, or that it is none. All is put that is to be, and one thing is done with what is got. */
static uint8_t find(finding *f)
{
    const int others = f->call->nranks - 1;
    if (f->call->proto == PEALI_CUDA_LL128 && has_even_lines(f->call) && find_shares(f))
        return PEALI_CUDA_SHARES;
    for (uint32_t n = 0; n < f->call->nops; n++)
        if (!find_op(f, &f->call->ops[n]))
            return PEALI_CUDA_NO_EXCHANGE;
    if (!f->puts || !f->gets)
        return find_way(f);
    if (f->puts != others || f->gets != others || f->puts == PEALI_CUDA_FEW || (f->sums ? f->sums > 1 || f->copies : !f->copies))
        return PEALI_CUDA_NO_EXCHANGE;
    for (int k = 0; k < others && f->sums; k++)
        if (f->get_part[k] != f->mine)
            return PEALI_CUDA_NO_EXCHANGE;
    bool same = true;
    for (int k = 0; k < others; k++)
        same &= f->put_part[k] == f->mine;
    return !same ? (f->sums ? PEALI_CUDA_SCATTERS : PEALI_CUDA_NO_EXCHANGE) : f->sums ? PEALI_CUDA_SUMS : PEALI_CUDA_MOVES;
}

/* Of the longest slice of a part. */
static uint32_t slice_words(const peali_cuda_call *c)
{
    return 2 * (c->slice_packs + (c->long_slices > 0));
}

static uint32_t words_each(uint32_t words, uint32_t threads)
{
    uint32_t each = 1;
    while (each * threads < words)
        each *= 2;
    return each;
}

/*
 * By words: few for each thread, and a slice a CTA. By lines: the kernel counts bytes by 31 bits, to the end of the last lines that
 * a block of threads could have, and are not there.
 */
static bool fits(const peali_cuda_call *c, uint32_t ctas)
{
    const uint32_t most = PEALI_CUDA_WORDS * (PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD);
    if (c->proto == PEALI_CUDA_LL)
        return c->slices == ctas && c->slice_packs < most / 2 && slice_words(c) <= most;
    return c->proto == PEALI_CUDA_LL128 && c->slices > 0 && c->parts * c->part_bytes + PEALI_CUDA_BLOCK * LINE_BYTES <= 1U << 31;
}

/*
 * Whether a call is an exchange may differ between ranks: the lines are the same. One that has words of all needs no credit of
 * them; one that gives asks for it.
 */
static uint8_t shape_of(finding *f, uint32_t ctas)
{
    const peali_cuda_call *c = f->call;
    const bool common = !c->scaled && !c->ranks && !c->messages && c->nranks > 1;
    const uint8_t shape = common && fits(c, ctas) ? find(f) : PEALI_CUDA_NO_EXCHANGE;
    return c->all_hear || shape >= PEALI_CUDA_GIVES ? shape : PEALI_CUDA_NO_EXCHANGE;
}

/* A thread for each word, or each has as many; by lines, all. */
static uint32_t exchange_threads(const peali_cuda_call *c)
{
    const uint32_t words = slice_words(c), each = words_each(words, PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD);
    return c->proto == PEALI_CUDA_LL ? ((words + each - 1) / each + 31) / 32 * 32 + PEALI_CUDA_BOARD : PEALI_CUDA_BLOCK;
}

/* By lines, do not all slices have as many? The last one is the shortest. */
static bool is_uneven(const peali_cuda_call *c)
{
    const uint64_t longest = 8 * (uint64_t)slice_words(c);
    const uint64_t shortest = c->part_bytes - ((c->slices - 1) * (uint64_t)c->slice_packs + c->long_slices) * PEALI_CUDA_PACK;
    return !take_as_many(longest, shortest, LINE_BYTES);
}

static void describe_shares(const finding *f, peali_cuda_exchange *x)
{
    const uint64_t area = f->call->layout.areas[f->call->proto];
    x->mine = f->mine;
    x->early = 0;
    x->uneven = 0;
    for (uint32_t k = 0; k < x->others; k++) {
        x->part[k] = f->put_part[k];
        x->put_share[k] = area + f->put_share[k]->at * (uint64_t)PEALI_CUDA_PACK;
        x->get_share[k] = area + f->get_share[k]->at * (uint64_t)PEALI_CUDA_PACK;
    }
}

/* All but what depends on a call's buffers and scratch. */
static peali_cuda_exchange describe(const finding *f)
{
    const peali_cuda_call *call = f->call;
    const uint64_t area = call->layout.areas[call->proto], part = call->part_bytes;
    const uint64_t skip = f->sums ? call->in_skip : call->out_skip;
    peali_cuda_exchange x = {.area_bytes = (uint32_t)call->layout.area_bytes[call->proto], .bytes = (uint32_t)part};
    x.words = words_each(slice_words(call), call->threads - PEALI_CUDA_BOARD);
    x.uneven = is_uneven(call);
    x.others = (uint32_t)(f->puts ? f->puts : f->gets);
    x.before = f->before;
    x.early = (uint32_t)(f->put_part[0] * part - call->in_skip);
    x.mine = (uint32_t)(f->mine * part - skip);
    x.copies = f->copies;
    x.left = call->layout.left;
    for (int k = 0; k < f->puts; k++) {
        x.to[k] = (uint8_t)(f->put[k]->where - PEALI_CUDA_SLOT);
        x.put[k] = area + f->put[k]->at * (uint64_t)PEALI_CUDA_PACK;
    }
    for (int k = 0; k < f->gets; k++)
        x.get[k] = area + f->get[k]->at * (uint64_t)PEALI_CUDA_PACK;
    for (uint32_t k = 0; k < x.others; k++)
        x.part[k] = (uint32_t)((f->sums ? f->put_part[k] : f->get_part[k]) * part - skip);
    if (call->exchanges == PEALI_CUDA_SHARES)
        describe_shares(f, &x);
    return x;
}

void peali_cuda_find_exchange(peali_cuda_call *call, uint32_t ctas)
{
    finding f = {.call = call};
    call->exchanges = shape_of(&f, ctas);
    if (!call->exchanges)
        return;
    call->threads = exchange_threads(call);
    call->exchange = describe(&f);
}

void peali_cuda_place(peali_cuda_call *call)
{
    peali_cuda_exchange *x = &call->exchange;
    const bool reads = call->exchanges != PEALI_CUDA_KEEPS, writes = call->exchanges != PEALI_CUDA_GIVES || x->copies;
    const uint64_t in = (uintptr_t)call->in, out = (uintptr_t)call->out, mine = (uintptr_t)call->scratch[call->me];
    const uint64_t starts = (reads ? in : 0) | (writes ? out : 0) | (call->parts > 1 ? call->part_bytes : 0);
    if (!call->exchanges)
        return;
    x->plain = starts % 8 == 0 ? x->bytes / 8 * 8 : 0;
    x->copies = x->copies && in + call->out_skip != out + call->in_skip;
    x->left += mine;
    for (uint32_t k = 0; k < x->others; k++) {
        x->put[k] += (uintptr_t)call->scratch[x->to[k]];
        x->get[k] += mine;
    }
    for (uint32_t k = 0; k < x->others && call->exchanges == PEALI_CUDA_SHARES; k++) {
        x->put_share[k] += (uintptr_t)call->scratch[x->to[k]];
        x->get_share[k] += mine;
    }
}
