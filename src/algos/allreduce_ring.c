/*
 * Ring allreduce: partial sums travel once around the ring, then the finished blocks do.
 *
 *     n = 4, one block a rank and round, to the next rank:
 *     round     0  1  2   3  4  5
 *     rank 0    0  3  2 | 1  0  3      reduce-scatter | allgather
 *     rank 1    1  0  3 | 2  1  0
 *     rank 2    2  1  0 | 3  2  1
 *     rank 3    3  2  1 | 0  3  2
 *
 * Blocks:         n
 * Rounds:         2(n-1)
 * Sent per rank:  2(n-1) blocks
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69, 2009
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);

    peal_blocks(s, n);
    peal_copy(s, peal_out(0, n), peal_in(0, n));
    for (int i = 0; i < n - 1; i++) {
        int give = peal_mod(rank - i, n), take = peal_mod(rank - i - 1, n);
        peal_send(s, next, peal_out(give, 1));
        peal_recv(s, prev, peal_tmp(i % 2, take));
        peal_reduce_into(s, peal_out(take, 1), peal_tmp(i % 2, take));
    }
    for (int i = 0; i < n - 1; i++) {
        int give = peal_mod(rank + 1 - i, n), take = peal_mod(rank - i, n);
        peal_send(s, next, peal_out(give, 1));
        peal_recv(s, prev, peal_out(take, 1));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = 2 * (n - 1), .sent = 2 * (n - 1), .slots = n < 3 ? n - 1 : 2};
}

const peal_algo peal_algo_allreduce_ring = {"ring", PEAL_ALLREDUCE, 0, NULL, build, bill};
