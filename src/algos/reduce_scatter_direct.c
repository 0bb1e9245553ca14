/*
 * Direct reduce-scatter: every rank sends every other its block, and each sums what it got in rank order.
 *
 *     n = 4:    round 0: rank r sends block r+1 to rank r+1, r+2 to r+2, r+3 to r+3 (modulo 4)
 *
 * Blocks:         n
 * Rounds:         1
 * Sent per rank:  n-1 blocks
 * Scratch:        n-1 slots of one block
 * Needs:          n-1 slots
 * Source:         the messages of the pairwise exchange in Thakur, Rabenseifner and Gropp, Optimization of collective communication
 *                 operations in MPICH, IJHPCA 19, 2005, without its rounds
 */
#include <peal/algo.h>

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

/* Where rank FROM's share of RANK's block lies: in IN, or in a slot; those of other ranks come in rank order. */
static peal_range share(int rank, int from)
{
    if (from == rank)
        return peal_in(rank, 1);
    return peal_tmp(from < rank ? from : from - 1, rank);
}

/* The sum begins in the slot of rank 0's share, so that it is in rank order and does not touch IN. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_range sum = rank > 0 ? share(rank, 0) : peal_out(0, 1);

    peal_blocks(s, n);
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_in(peal_mod(rank + i, n), 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), share(rank, peal_mod(rank - i, n)));
    if (rank == 0)
        peal_copy(s, sum, peal_in(0, 1));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, sum, share(rank, r));
    peal_copy(s, peal_out(rank, 1), sum);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n > 1, .sent = n - 1, .slots = n - 1};
}

const peal_algo peal_algo_reduce_scatter_direct = {"direct", PEAL_REDUCE_SCATTER, 1, fits, build, bill};
