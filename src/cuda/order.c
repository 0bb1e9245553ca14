/*
 * Which operations of a call the threads of a block do together, which wait for those before them, and how many threads that takes.
 */
#include "cuda/load.h"

/* IN and OUT may be the same memory; scratch buffers are apart. */
static bool same_memory(peali_cuda_loc a, peali_cuda_loc b)
{
    if (a.where <= PEALI_CUDA_OUT)
        return b.where <= PEALI_CUDA_OUT;
    return a.where == PEALI_CUDA_TMP && b.where == PEALI_CUDA_TMP && a.at == b.at;
}

/*
 * Does one of these operations write what the other touches? Threads take the units of an operation by their number in its range:
 * where those that have the one have the other (ALIKE), each meets only itself over the same range. Scratch is one piece.
 */
static bool conflict(const peali_cuda_call *c, const peali_cuda_op *a, const peali_cuda_op *b, bool alike)
{
    bool same = alike && a->first == b->first && a->end == b->end;
    for (int i = 0; i < a->nsrc + a->ndst; i++)
        for (int k = 0; k < b->nsrc + b->ndst; k++) {
            peali_cuda_loc x = c->locs[a->locs + i], y = c->locs[b->locs + k];
            bool writes = i >= a->nsrc || k >= b->nsrc, tmp = x.where == PEALI_CUDA_TMP;
            bool meets = tmp || (a->first < b->end && b->first < a->end);
            if (writes && same_memory(x, y) && meets && !(same && (!tmp || x.base == y.base)))
                return true;
        }
    return false;
}

typedef struct runs {
    uint8_t run[PEALI_CUDA_OPS], at[PEALI_CUDA_OPS]; /* of how many it is one, and which */
} runs;

/* So many operations from number N on do alike, and need nothing of each other. */
static uint32_t run_from(const peali_cuda_call *c, uint32_t n)
{
    const peali_cuda_op *a = &c->ops[n];
    const unsigned kinds = PEALI_CUDA_FROM_SLOTS | PEALI_CUDA_TO_SLOTS, how = a->slots & kinds;
    if (how == kinds || how == 0 || c->messages)
        return 1;
    for (uint32_t run = 1;; run++) {
        const peali_cuda_op *b = a + run;
        if (n + run == c->nops || run == PEALI_CUDA_LONGEST_RUN || (b->slots & kinds) != how || b->nsrc != a->nsrc ||
            b->ndst != a->ndst)
            return run;
        for (uint32_t i = 0; i < run; i++)
            if (conflict(c, a + i, b, false))
                return run;
    }
}

uint32_t peali_cuda_threads(const peali_cuda_call *c)
{
    uint64_t packs = (uint64_t)c->parts * (c->slice_packs + (c->long_slices > 0)), most = PEALI_CUDA_BLOCK - PEALI_CUDA_BOARD;
    uint64_t units = c->proto == PEALI_CUDA_BULK ? packs : 2 * packs;
    uint64_t threads = (units + units / PEALI_CUDA_LINE_WORDS + 32) / 32 * 32;
    for (uint32_t n = 0, run; n < c->nops && c->proto != PEALI_CUDA_BULK; n += run) {
        run = run_from(c, n);
        threads = threads < 32 * run ? 32 * run : threads;
    }
    return (uint32_t)(threads < most ? threads : most) + PEALI_CUDA_BOARD;
}

static void find_runs(const peali_cuda_call *c, uint32_t warps, runs *r)
{
    for (uint32_t n = 0, run; n < c->nops; n += run) {
        run = run_from(c, n);
        run = c->proto == PEALI_CUDA_BULK || run <= warps ? run : 1;
        for (uint32_t i = 0; i < run; i++) {
            r->run[n + i] = (uint8_t)run;
            r->at[n + i] = (uint8_t)i;
        }
    }
}

/* The operations of one run begin together; those of bulk, one after the other. */
static void synchronise(peali_cuda_call *c, const runs *r)
{
    const bool bulk = c->proto == PEALI_CUDA_BULK;
    for (uint32_t n = 0, since = 0, together; n < c->nops; n += together) {
        bool sync = false;
        together = bulk ? 1 : r->run[n];
        for (uint32_t i = 0; i < together; i++)
            for (uint32_t k = since; k < n && !sync; k++)
                sync = conflict(c, &c->ops[k], &c->ops[n + i], bulk || (r->run[k] == r->run[n] && r->at[k] == i));
        for (uint32_t i = 0; i < together; i++)
            c->ops[n + i].order = sync ? PEALI_CUDA_SYNC : 0;
        since = sync ? n : since;
    }
}

void peali_cuda_order(peali_cuda_call *call, uint32_t threads)
{
    const bool bulk = call->proto == PEALI_CUDA_BULK;
    const uint32_t warps = (threads - PEALI_CUDA_BOARD) / 32;
    runs r;
    find_runs(call, warps, &r);
    synchronise(call, &r);
    for (uint32_t n = 0; n < call->nops; n++) {
        peali_cuda_op *op = &call->ops[n];
        const bool last = r.at[n] + 1 == r.run[n], first = r.at[n] == 0;
        if (!bulk && r.run[n] > 1) {
            op->lane = (uint8_t)(warps / r.run[n]);
            op->peer = (uint16_t)((255 + op->lane) / op->lane);
            call->rare |= call->proto == PEALI_CUDA_LL;
        }
        if (!bulk)
            op->order |= (uint8_t)((r.run[n] - r.at[n]) * PEALI_CUDA_RUN);
        else if (op->slots & PEALI_CUDA_TO_SLOTS ? last : first)
            op->order |= (uint8_t)(r.run[n] * PEALI_CUDA_RUN);
    }
}
