/* Which calls are exchanges of words, and where these go: what the kernel would have to find out (cuda/exchange.cuh). */
#include "cuda/exchange.h"

static bool whole_in_order(const peali_cuda_call *c, const peali_cuda_op *op)
{
    return op->first == 0 && op->end == c->blocks && !(op->slots & PEALI_CUDA_WITHIN) && op->own < op->nsrc &&
           c->locs[op->locs + op->own].where == PEALI_CUDA_IN;
}

/* Of a slice of a part. */
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
 * Is it an exchange of words: what is IN goes to all others, then is summed with theirs into OUT, few words a thread, and a slice a
 * CTA? Whether it is one may differ between ranks: the lines are the same.
 */
static bool is_exchange(const peali_cuda_call *c, uint32_t ctas)
{
    const peali_cuda_op *give = &c->ops[0], *sum = &c->ops[1];
    const uint32_t most = PEALI_CUDA_WORDS * (PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD);
    const bool fits = c->parts == 1 && c->slices == ctas && c->slice_packs < most / 2 && slice_words(c) <= most;
    const bool common = c->proto == PEALI_CUDA_LL && !c->rare && !c->messages && c->all_hear && c->nranks > 1;
    return fits && common && c->nops == 2 && whole_in_order(c, give) && give->nsrc == 1 && give->nput == give->ndst &&
           give->ndst == c->nranks - 1 && whole_in_order(c, sum) && sum->nsrc == c->nranks && sum->ndst == 1 && sum->nput == 0 &&
           c->locs[sum->locs + sum->nsrc].where == PEALI_CUDA_OUT;
}

/* A thread for each word, or each has as many. */
static uint32_t exchange_threads(const peali_cuda_call *c)
{
    const uint32_t words = slice_words(c), each = words_each(words, PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD);
    return ((words + each - 1) / each + 31) / 32 * 32 + PEALI_CUDA_BOARD;
}

void peali_cuda_find_exchange(peali_cuda_call *call, uint32_t ctas)
{
    call->exchanges = is_exchange(call, ctas);
    if (call->exchanges)
        call->threads = exchange_threads(call);
}

void peali_cuda_place(peali_cuda_call *call)
{
    const peali_cuda_op *give = &call->ops[0], *sum = &call->ops[1];
    const uint64_t area = call->layout.areas[PEALI_CUDA_LL];
    const uint32_t bytes = (uint32_t)call->part_bytes;
    const bool aligned = (((uintptr_t)call->in | (uintptr_t)call->out) & 7) == 0;
    peali_cuda_exchange x = {.area_bytes = (uint32_t)call->layout.area_bytes[PEALI_CUDA_LL], .bytes = bytes,
                             .plain = aligned ? bytes / 8 * 8 : 0, .others = give->nput, .before = sum->own};
    if (!call->exchanges)
        return;
    x.words = words_each(slice_words(call), call->threads - PEALI_CUDA_BOARD);
    for (int k = 0; k < give->nput; k++) {
        const peali_cuda_loc *to = &call->locs[give->locs + give->nsrc + k];
        const peali_cuda_loc *from = &call->locs[sum->locs + k + (k >= sum->own)];
        x.put[k] = (uintptr_t)call->scratch[to->where - PEALI_CUDA_SLOT] + area + to->at * (uint64_t)PEALI_CUDA_PACK;
        x.get[k] = (uintptr_t)call->scratch[call->me] + area + from->at * (uint64_t)PEALI_CUDA_PACK;
    }
    call->exchange = x;
}
