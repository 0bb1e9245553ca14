/*
 * Ring allgather: every block travels once around the ring.
 *
 *     n = 4, one block a rank and round, to the next rank:
 *     round     0  1  2
 *     rank 0    0  3  2
 *     rank 1    1  0  3
 *     rank 2    2  1  0
 *     rank 3    3  2  1
 *
 * Blocks:         n
 * Rounds:         n-1
 * Sent per rank:  n-1 blocks
 * Scratch:        none
 * Needs:          nothing
 * Source:         Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69, 2009
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);

    peal_blocks(s, n);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 0; i < n - 1; i++) {
        peal_send(s, next, peal_out(peal_mod(rank - i, n), 1));
        peal_recv(s, prev, peal_out(peal_mod(rank - i - 1, n), 1));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n - 1, .sent = n - 1, .slots = 0};
}

const peal_algo peal_algo_allgather_ring = {"ring", PEAL_ALLGATHER, 0, NULL, build, bill};
