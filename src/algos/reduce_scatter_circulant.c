/*
 * Circulant reduce-scatter: Bruck's allgather run backwards. A rank has partial sums of the blocks of the n ranks from itself on, and
 * in each round gives those of the far half to the rank 2^k after it, k falling to 0, until its own is left.
 *
 *     n = 4, blocks that rank 0 gives (rank r: r more):
 *     round     0    1
 *     to rank   2    1
 *     blocks    2 3  1
 *
 * A slot of scratch is sent whole, so each block is a message by itself.
 *
 * Blocks:         n
 * Rounds:         floor(log2 n): each message carries a block over one bit of its distance, and no distance has more bits set
 * Sent per rank:  n-1 blocks
 * Scratch:        n-P slots for sums, P = 2^(ceil(log2 n)-1), and P/2 for what arrives; none for n = 1
 * Needs:          that many slots; a commutative operation
 * Source:         Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234, 2024
 */
#include <peal/algo.h>

static int far_half(int n)
{
    return n > 1 ? 1 << (peal_log2_ceil(n) - 1) : 0;
}

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

/* The sum of the block of the rank I after this one: in a slot once a message was added to it. */
static peal_range sum_of(const peal_problem *p, int rank, int i)
{
    int n = p->nranks, held = n - far_half(n), block = peal_mod(rank + i, n);
    return i < held && n > 1 ? peal_tmp(i, block) : peal_in(block, 1);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, skip = far_half(n), held = n - skip;

    peal_blocks(s, n);
    for (int i = skip; i < n; i++)
        peal_send(s, peal_mod(rank + skip, n), peal_in(peal_mod(rank + i, n), 1));
    for (int i = 0; i < held && skip > 0; i++) {
        peal_recv(s, peal_mod(rank - skip, n), sum_of(p, rank, i));
        peal_reduce(s, sum_of(p, rank, i), peal_in(peal_mod(rank + i, n), 1));
    }
    for (skip /= 2; skip > 0; skip /= 2) {
    }
    peal_copy(s, peal_out(rank, 1), sum_of(p, rank, 0));
}
