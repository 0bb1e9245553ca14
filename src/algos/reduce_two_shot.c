/*
 * Two-shot reduce: the direct reduce-scatter, and each rank gives its sum to the root. Each block is summed by one rank, in rank
 * order.
 *
 *     n = 4, root 0:    round 0: rank r sends block q to each other rank q     reduce-scatter
 *                       round 1: 1->0 block 1, 2->0 block 2, 3->0 block 3      gather
 *
 * Blocks:         n
 * Rounds:         2
 * Sent per rank:  n blocks, n-1 at the root
 * Scratch:        n slots of one block, n-1 where rank 0 is the root
 * Needs:          n slots
 * Source:         Rabenseifner's reduce-scatter and gather, in Thakur, Rabenseifner and Gropp, Optimization of collective
 *                 communication operations in MPICH, IJHPCA 19, 2005, without its rounds
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

/* The sum begins with rank 0's share, so that it is in rank order and does not touch IN. Only the root has OUT. */
static peal_range sum_of(const peal_problem *p, int rank)
{
    if (rank > 0)
        return share(rank, 0);
    return rank == p->root ? peal_out(rank, 1) : peal_tmp(p->nranks - 1, rank);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, root = p->root;
    peal_range sum = sum_of(p, rank);

    peal_blocks(s, n);
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_in(peal_mod(rank + i, n), 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), share(rank, peal_mod(rank - i, n)));
    if (rank == 0)
        peal_copy(s, sum, peal_in(0, 1));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, sum, share(rank, r));
    if (rank != root)
        peal_send(s, root, sum);
    else
        peal_copy(s, peal_out(rank, 1), sum);
    for (int i = 1; i < n && rank == root; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_out(peal_mod(rank - i, n), 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n > 1 ? 2 : 0, .sent = n > 1 ? n : 0, .slots = n > 1 ? n - (p->root == 0) : 0};
}

const peal_algo peal_algo_reduce_two_shot = {"two_shot", PEAL_REDUCE, 1, fits, build, bill};
