/* Which calls are exchanges of words, and where these go: what the kernel would have to find out (cuda/exchange.cuh). */
#include "cuda/exchange.h"

/* An exchange as it is found operation by operation: what is put and got, and of which part of the vector it is. */
typedef struct finding {
    const peali_cuda_call *call;
    int puts, gets, sums; /* so many */
    const peali_cuda_loc *put[PEALI_CUDA_FEW], *get[PEALI_CUDA_FEW];
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

/* Its shape, or that it is none. All is put that is to be, and one thing is done with what is got. */
static uint8_t find(finding *f)
{
    const int others = f->call->nranks - 1;
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

/* By words: few for each thread, and a slice a CTA. By lines: the kernel counts bytes of the vector by 32 bits. */
static bool fits(const peali_cuda_call *c, uint32_t ctas)
{
    const uint32_t most = PEALI_CUDA_WORDS * (PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD);
    if (c->proto == PEALI_CUDA_LL)
        return c->slices == ctas && c->slice_packs < most / 2 && slice_words(c) <= most;
    return c->proto == PEALI_CUDA_LL128 && c->slices > 0 && c->parts * c->part_bytes < 1U << 31;
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
    return c->all_hear || shape > PEALI_CUDA_MOVES ? shape : PEALI_CUDA_NO_EXCHANGE;
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
    const uint64_t bytes = 8 * PEALI_CUDA_LINE_WORDS, longest = 8 * (uint64_t)slice_words(c);
    const uint64_t shortest = c->part_bytes - ((c->slices - 1) * (uint64_t)c->slice_packs + c->long_slices) * PEALI_CUDA_PACK;
    return (longest + bytes - 1) / bytes != (shortest + bytes - 1) / bytes;
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
}
