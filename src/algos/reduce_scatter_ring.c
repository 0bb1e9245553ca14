/*
 * Ring reduce-scatter: the partial sum of a block travels once around the ring and ends at the rank that the block is for.
 *
 *     n = 4, one block a rank and round, to the next rank:
 *     round     0  1  2
 *     rank 0    3  2  1
 *     rank 1    0  3  2
 *     rank 2    1  0  3
 *     rank 3    2  1  0
 *
 * Blocks:         n
 * Rounds:         n-1
 * Sent per rank:  n-1 blocks
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69, 2009
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);
    peal_range sum = peal_in(prev, 1);

    peal_blocks(s, n);
    for (int i = 0; i < n - 1; i++) {
        int take = peal_mod(rank - i - 2, n);
        peal_send(s, next, sum);
        sum = peal_tmp(i % 2, take);
        peal_recv(s, prev, sum);
        peal_reduce_into(s, sum, peal_in(take, 1));
    }
    peal_copy(s, peal_out(rank, 1), n > 1 ? sum : peal_in(rank, 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n - 1, .sent = n - 1, .slots = n < 3 ? n - 1 : 2};
}

const peal_algo peal_algo_reduce_scatter_ring = {"ring", PEAL_REDUCE_SCATTER, 0, NULL, build, bill};
