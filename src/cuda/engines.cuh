/*
 * Calls by copy engines, which move more than what CTAs store: two-shot, chunk by chunk, each round of which is a permutation (the
 * idea of NVIDIA's copy-engine collectives; cuda/engines.c has the rounds). The host gives copies between steps that are launches of
 * their own:
 *
 *     MEET    all ranks have come, and call alike; so nobody is in the call before any more
 *     ALIGN   all ranks have come to this point, and done the copies and reductions before it
 *     REDUCE  beside copies, on a stream of its own: what came of a chunk becomes this rank's result of it
 *
 * Addresses of copies are fixed before anybody knows what peers pass. So contributions are pushed into the areas of those who
 * reduce them, and results are pulled from there: only a rank's own copies and its own kernels touch its vectors.
 */
#ifndef PEALI_CUDA_ENGINES_CUH
#define PEALI_CUDA_ENGINES_CUH

#include "cuda/slice.cuh"

DEVICE peali_cuda_head *head_of(const peali_cuda_call &c, uint32_t rank)
{
    return (peali_cuda_head *)c.engines.areas[rank];
}

DEVICE peali_cuda_head *own_head(const peali_cuda_call &c)
{
    return head_of(c, c.me);
}

/* The piece of RANK that lies here, as if it were the vector that it is of. */
DEVICE unsigned char *engines_piece(const peali_cuda_call &c, uint32_t rank)
{
    const peali_cuda_engines &e = c.engines;
    return (unsigned char *)e.areas[c.me] + PEALI_CUDA_HEAD + ((e.chunk & 1) * c.nranks + rank) * e.room_bytes - e.at;
}

/* IN of any rank, OUT of this one, or (TMP of this one) what it has reduced. */
DEVICE unsigned char *engines_vector(const peali_cuda_call &c, const peali_cuda_loc &loc)
{
    const uint32_t rank = loc.where - PEALI_CUDA_SLOT;
    if (loc.slot == PEALI_CUDA_OUT)
        return out_of(c);
    return rank == c.me && loc.slot == PEALI_CUDA_IN ? in_of(c) : engines_piece(c, rank);
}

DEVICE uint64_t engines_scalar(const peali_cuda_call &c, uint32_t rank)
{
    return load_word(&own_head(c)->scalars[rank]);
}

/* What a rank did before, on its device or on others, all see behind this (its launches end, store_release; load_acquire). */
DEVICE void align(const slice &s, bool ok)
{
    peali_cuda_head *own = own_head(s.c);
    const uint32_t number = own->alignments + 1;
    wait w(s.c, number, PEALI_CUDA_OPS + 5);
    if (ok && s.thread < s.c.nranks) {
        peali_cuda_head *its = head_of(s.c, s.thread);
        if (s.c.step == PEALI_CUDA_MEET)
            store_word(&its->scalars[s.c.me], s.c.scalar);
        store_release(&its->aligned[s.c.me], number);
        while (ok && ahead(load_acquire(&own->aligned[s.thread]), number) < 0)
            ok = w.on();
    }
    if (!meet(s.threads, !ok) && s.thread == 0)
        own->alignments = number;
}

#endif
