/*
 * Hierarchical allreduce by doubling: a direct reduce-scatter within each node, recursive doubling over the nodes for each share,
 * so that all ranks of a node use the network at once, and a direct allgather within each node. Between two nodes it sends as
 * little as the ring, in half of the rounds.
 *
 *     n = 4, nodes 2+2:
 *     round 0      0<->1, 2<->3: each sums one half of the vector, its share, in its node
 *     round 1      0<->2 on share 0, 1<->3 on share 1: the shares are swapped and summed
 *     round 2      0<->1, 2<->3: the shares are exchanged
 *
 * N nodes of g ranks.
 *
 * Blocks:         g
 * Rounds:         log2 N, and 2 more where g > 1
 * Sent per rank:  2(g-1) + log2 N blocks
 * Scratch:        as many slots as the larger of g-1 and log2 N, of which 2 do
 * Needs:          a power of two of nodes of one size; g-1 slots; a commutative operation
 * Source:         Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
 *                 hierarchy, MLSys 2019, with Thakur, Rabenseifner and Gropp, Optimization of collective communication operations
 *                 in MPICH, IJHPCA 19, 2005
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_recursive_doubling, peal_algo_allgather_direct;

static int fits(const peal_problem *p)
{
    int most = peal_node_largest(p);
    return most <= PEAL_SLOTS && (int64_t)most * p->nnodes == p->nranks && (p->nnodes & (p->nnodes - 1)) == 0;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    static const peal_levels levels = {&peal_algo_reduce_scatter_direct, &peal_algo_allreduce_recursive_doubling,
                                       &peal_algo_allgather_direct, 0};
    peal_run_levels(s, p, rank, &levels);
}

static peal_bill bill(const peal_problem *p)
{
    int size = p->nranks / p->nnodes, swaps = peal_log2_floor(p->nnodes), slots = swaps < 2 ? swaps : 2;
    return (peal_bill){.blocks = size, .rounds = swaps + 2 * (size > 1), .sent = 2 * (int64_t)(size - 1) + swaps,
                       .slots = slots > size - 1 ? slots : size - 1};
}

const peal_algo peal_algo_allreduce_hierarchical_doubling = {"hierarchical_doubling", PEAL_ALLREDUCE, 0, fits, build, bill};
