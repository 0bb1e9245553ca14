/*
 * Circulant reduce-scatter: Bruck's allgather run backwards. A rank has partial sums of the blocks of the n ranks from itself on,
 * and in each round gives those of the far half to the rank 2^k after it, k falling to 0, until its own is left.
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
 * Scratch:        with P = 2^(ceil(log2 n)-1), the greater of n-P and P/2 for sums; for what is added to them the lesser, or P/4 if
 *                 that is more
 * Needs:          that many slots; a commutative operation
 * Source:         Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234, 2024
 */
#include <peal/algo.h>

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

static int greater(int a, int b)
{
    return a > b ? a : b;
}

/* The skip of the first round. */
static int far_half(int n)
{
    return n > 1 ? 1 << (peal_log2_ceil(n) - 1) : 0;
}

/* Of the ranks from this one on, the first HELD have a slot with the sum for them; for the others there is IN alone. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, skip = far_half(n), held = 0, landing = greater(n - skip, skip / 2);

    peal_blocks(s, n);
    for (; skip > 0; skip /= 2) {
        int give = skip < n - skip ? skip : n - skip;
        for (int i = skip; i < skip + give; i++) {
            int block = peal_mod(rank + i, n);
            peal_send(s, peal_mod(rank + skip, n), i < held ? peal_tmp(i, block) : peal_in(block, 1));
        }
        for (int i = 0; i < give; i++) {
            int block = peal_mod(rank + i, n);
            peal_range got = peal_tmp(i < held ? landing + i : i, block);
            peal_recv(s, peal_mod(rank - skip, n), got);
            peal_reduce_into(s, peal_tmp(i, block), i < held ? got : peal_in(block, 1));
        }
        held = greater(held, give);
    }
    peal_copy(s, peal_out(rank, 1), n > 1 ? peal_tmp(0, rank) : peal_in(rank, 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, far = far_half(n), near = n - far, half = far / 2;
    int sums = greater(near, half), added = greater(near < half ? near : half, half / 2);
    return (peal_bill){.blocks = n, .rounds = peal_log2_floor(n), .sent = n - 1, .slots = n > 1 ? sums + added : 0};
}

const peal_algo peal_algo_reduce_scatter_circulant = {"circulant", PEAL_REDUCE_SCATTER, 0, fits, build, bill};
