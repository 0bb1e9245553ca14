/*
 * Hierarchical allreduce in three levels: within each node, within rows of q nodes, and by rings over the rows. The hierarchical
 * allreduce is its second and third level. The nodes form a grid because nothing is known above them; it takes the rounds of the
 * ring from 2(N-1) to about 2 sqrt N.
 *
 *     n = 4, nodes 1+1+1+1, q = 2:
 *     round 0      0<->1, 2<->3: each sums one half of the vector
 *     rounds 1-2   0<->2 on half 0, 1<->3 on half 1: ring
 *     round 3      0<->1, 2<->3: the halves are exchanged
 *
 * N nodes of g ranks; q is the largest divisor of N that is at most sqrt N.
 *
 * Blocks:         n
 * Rounds:         2(N/q - 1), and 2 more where g > 1, and 2 more where q > 1
 * Sent per rank:  2(n-1) blocks
 * Scratch:        as many slots as the largest of g-1, q-1 and the ring's 2
 * Needs:          nodes of one size; g-1 slots
 * Source:         Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
 *                 hierarchy, MLSys 2019
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_hierarchical, peal_algo_allgather_direct;

static int fits(const peal_problem *p)
{
    int most = peal_node_largest(p);
    return most <= PEAL_SLOTS && (int64_t)most * p->nnodes == p->nranks;
}

static int row_of(int nodes)
{
    int q = 1;
    for (int i = 2; (int64_t)i * i <= nodes; i++)
        q = nodes % i ? q : i;
    return q;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    peal_levels levels = {&peal_algo_reduce_scatter_direct, &peal_algo_allreduce_hierarchical, &peal_algo_allgather_direct,
                          row_of(p->nnodes)};
    peal_run_levels(s, p, rank, &levels);
}

static int greater(int a, int b)
{
    return a > b ? a : b;
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, size = n / p->nnodes, row = row_of(p->nnodes), rows = p->nnodes / row;
    peal_bill b = {.blocks = n, .sent = 2 * (int64_t)(n - 1)};
    b.rounds = 2 * (rows - 1 + (size > 1) + (row > 1));
    b.slots = greater(greater(size, row) - 1, rows < 3 ? rows - 1 : 2);
    return b;
}

const peal_algo peal_algo_allreduce_hierarchical_grid = {"hierarchical_grid", PEAL_ALLREDUCE, 0, fits, build, bill};
