/*
 * Two-shot reduce: each rank but the root sums a block, in rank order, and gives its sum to the root. Of two ranks the root sums a
 * block too.
 *
 *     n = 4, root 0:    round 0: rank r sends block q - 1 to each other rank q > 0      reduce-scatter
 *                       round 1: 1->0 block 0, 2->0 block 1, 3->0 block 2               gather
 *
 * Blocks:         n-1, 2 for n = 2
 * Rounds:         2
 * Sent per rank:  all blocks
 * Scratch:        n slots of one block, n-1 where rank 0 is the root
 * Needs:          n slots
 * Source:         Rabenseifner's reduce-scatter and gather, in Thakur, Rabenseifner and Gropp, Optimization of collective
 *                 communication operations in MPICH, IJHPCA 19, 2005, without its rounds, and without a block of the root: for that
 *                 the root would receive nearly twice as much
 */
#include <peal/algo.h>

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

static int blocks(const peal_problem *p)
{
    return p->nranks > 2 ? p->nranks - 1 : p->nranks;
}

/* The root's is the last one, where it has one. */
static int block_of(const peal_problem *p, int rank)
{
    return peal_mod(rank - p->root - 1, p->nranks);
}

/* Where rank FROM's share of RANK's block lies: in IN, or in a slot; those of other ranks come in rank order. */
static peal_range share(const peal_problem *p, int rank, int from)
{
    if (from == rank)
        return peal_in(block_of(p, rank), 1);
    return peal_tmp(from < rank ? from : from - 1, block_of(p, rank));
}

/* The sum begins with rank 0's share, so that it is in rank order and does not touch IN. Only the root has OUT. */
static peal_range sum_of(const peal_problem *p, int rank)
{
    if (rank > 0)
        return share(p, rank, 0);
    return rank == p->root ? peal_out(block_of(p, rank), 1) : peal_tmp(p->nranks - 1, block_of(p, rank));
}

static void sum_block(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_range sum = sum_of(p, rank);

    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), share(p, rank, peal_mod(rank - i, n)));
    if (rank == 0)
        peal_copy(s, sum, share(p, 0, 0));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, sum, share(p, rank, r));
    if (rank == p->root)
        peal_copy(s, peal_out(block_of(p, rank), 1), sum);
    else
        peal_send(s, p->root, sum);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;

    peal_blocks(s, blocks(p));
    for (int i = 1; i < n; i++) {
        int to = peal_mod(rank + i, n);
        if (block_of(p, to) < blocks(p))
            peal_send(s, to, peal_in(block_of(p, to), 1));
    }
    if (block_of(p, rank) < blocks(p))
        sum_block(s, p, rank);
    for (int i = 1; i < n && rank == p->root; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_out(block_of(p, peal_mod(rank - i, n)), 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = blocks(p), .rounds = n > 1 ? 2 : 0, .sent = n > 1 ? blocks(p) : 0,
                       .slots = n > 1 ? n - (p->root == 0) : 0};
}

const peal_algo peal_algo_reduce_two_shot = {"two_shot", PEAL_REDUCE, 1, fits, build, bill};
