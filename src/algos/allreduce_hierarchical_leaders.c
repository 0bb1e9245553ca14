/*
 * Hierarchical allreduce for small vectors: the first rank of each node, its leader, sums those of its node, swaps the sum with
 * other leaders by recursive doubling, and gives the result to its node. The network carries one message a node in each round.
 *
 *     n = 4, nodes 2+2:    round 0: 1->0 3->2     round 1: 0-2     round 2: 0->1 2->3
 *
 * N nodes of g ranks; the leaders' rounds and blocks are those of recursive doubling over N ranks.
 *
 * Blocks:         1
 * Rounds:         those of the leaders, and 2 more where g > 1
 * Sent per rank:  the blocks of a leader among leaders, and g-1 more
 * Scratch:        the larger of g-1 and the leaders' slots
 * Needs:          nodes of one size; g-1 slots; a commutative operation
 * Source:         Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005;
 *                 leaders: Karonis et al., Exploiting hierarchy in parallel computer networks to optimize collective operation
 *                 performance, IPDPS 2000
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_allreduce_recursive_doubling;

static int fits(const peal_problem *p)
{
    int most = peal_node_largest(p);
    return most <= PEAL_SLOTS && (int64_t)most * p->nnodes == p->nranks;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int size = p->nranks / p->nnodes, leader = rank - rank % size;

    peal_blocks(s, 1);
    if (rank != leader) {
        peal_send(s, leader, peal_in(0, 1));
        peal_recv(s, leader, peal_out(0, 1));
        return;
    }
    for (int i = 1; i < size; i++)
        peal_recv(s, leader + i, peal_tmp(i - 1, 0));
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (int i = 1; i < size; i++)
        peal_reduce_into(s, peal_out(0, 1), peal_tmp(i - 1, 0));
    peal_run_leaders(s, p, rank, &peal_algo_allreduce_recursive_doubling);
    for (int i = 1; i < size; i++)
        peal_send(s, leader + i, peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    peal_problem leaders = {.kind = PEAL_ALLREDUCE, .op = p->op, .nranks = p->nnodes, .nnodes = 1};
    peal_bill b = peal_algo_allreduce_recursive_doubling.bill(&leaders);
    int size = p->nranks / p->nnodes;
    b.rounds += 2 * (size > 1);
    b.sent += size - 1;
    b.slots = b.slots > size - 1 ? b.slots : size - 1;
    return b;
}

const peal_algo peal_algo_allreduce_hierarchical_leaders = {"hierarchical_leaders", PEAL_ALLREDUCE, 0, fits, build, bill};
