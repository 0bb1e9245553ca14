/*
 * Hierarchical allgather for small vectors: the ranks of a node swap their blocks, the first of each, its leader, swaps those of
 * its node with other leaders by the circulant allgather, and gives what came to its node. Of a node, one rank sends.
 *
 *     n = 4, nodes 0 1 and 2 3:    round 0: 0-1 2-3    round 1: 0-2    round 2: 0->1 blocks 2 3, 2->3 blocks 0 1
 *
 * N nodes of g ranks; the leaders' rounds are those of the circulant allgather of N ranks.
 *
 * Blocks:         n
 * Rounds:         those of the leaders; where g > 1 one more, and another where N > 1
 * Sent per rank:  n-g blocks to leaders and to each other rank of the node, which gets its own too
 * Scratch:        none
 * Needs:          nodes of one size
 * Source:         Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
 *                 message-passing systems, IEEE TPDS 8, 1997; leaders: Karonis et al., Exploiting hierarchy in parallel computer
 *                 networks to optimize collective operation performance, IPDPS 2000
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_allgather_circulant;

static int fits(const peal_problem *p)
{
    return (int64_t)peal_node_largest(p) * p->nnodes == p->nranks;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, size = n / p->nnodes, leader = rank - rank % size, others = peal_mod(leader + size, n);

    peal_blocks(s, n);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 1; i < size; i++)
        peal_send(s, leader + peal_mod(rank - leader + i, size), peal_out(rank, 1));
    for (int i = 1; i < size; i++) {
        int from = leader + peal_mod(rank - leader - i, size);
        peal_recv(s, from, peal_out(from, 1));
    }
    if (rank == leader)
        peal_run_leaders(s, p, rank, &peal_algo_allgather_circulant);
    for (int i = 1; i < size && rank == leader; i++)
        peal_send(s, leader + i, peal_out(others, n - size));
    if (rank != leader)
        peal_recv(s, leader, peal_out(others, n - size));
}

static peal_bill bill(const peal_problem *p)
{
    peal_problem leaders = {.kind = PEAL_ALLGATHER, .op = p->op, .nranks = p->nnodes, .nnodes = 1};
    int n = p->nranks, size = n / p->nnodes, more = size > 1;
    return (peal_bill){.blocks = n, .rounds = peal_algo_allgather_circulant.bill(&leaders).rounds + more + (more && p->nnodes > 1),
                       .sent = (int64_t)(n - size) * size + size - 1};
}

const peal_algo peal_algo_allgather_hierarchical_leaders = {"hierarchical_leaders", PEAL_ALLGATHER, 0, fits, build, bill};
