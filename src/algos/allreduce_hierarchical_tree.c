/*
 * Hierarchical allreduce over trees: a direct reduce-scatter within each node, double binary trees over the nodes for each share,
 * so that all ranks of a node use the network at once, and a direct allgather within each node.
 *
 *     n = 4, nodes 2+2:
 *     round 0      0<->1, 2<->3: each sums one half of the vector, its share, in its node
 *     rounds 1-2   0<->2 on share 0, 1<->3 on share 1: up and down the trees
 *     round 3      0<->1, 2<->3: the shares are exchanged
 *
 * N nodes of up to G ranks; G shares, the same on all nodes, of which a rank of a smaller node of g holds up to c = ceil(G/g).
 *
 * Blocks:         2 G
 * Rounds:         twice the depth of the deepest node, where nodes of more than one rank count as 1 deeper
 * Sent per rank:  2 G + c (t + 2(g-2)) blocks at the worst node, which has t edges in the trees
 * Scratch:        the larger of g-1 slots and those of the trees, 2 for each share but the last, whose it is as many as children
 * Needs:          2 G slots
 * Source:         Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
 *                 hierarchy, MLSys 2019, with the trees of Sanders, Speck and Traeff, Parallel Computing 35, 2009
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_double_binary_tree, peal_algo_allgather_direct;

static int fits(const peal_problem *p)
{
    return 2 * peal_node_largest(p) <= PEAL_SLOTS;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    static const peal_levels levels = {&peal_algo_reduce_scatter_direct, &peal_algo_allreduce_double_binary_tree,
                                       &peal_algo_allgather_direct, 0};
    peal_run_levels(s, p, rank, &levels);
}

static int depth(int tree, int n, int node)
{
    int d = 0;
    while ((node = peal_tree_of(tree, n, node).parent) >= 0)
        d++;
    return d;
}

static int greater(int a, int b)
{
    return a > b ? a : b;
}

static peal_bill bill(const peal_problem *p)
{
    int nodes = p->nnodes, most = peal_node_largest(p), deepest = 0;
    peal_bill b = {.blocks = 2 * most};

    for (int i = 0; i < nodes; i++) {
        int size = peal_node_first(p, i + 1) - peal_node_first(p, i), held = (most + size - 1) / size, edges = 0, children = 0;
        for (int tree = 0; tree < 2; tree++) {
            peal_tree t = peal_tree_of(tree, nodes, i);
            edges += t.nchildren + (t.parent >= 0);
            children += t.nchildren;
            deepest = greater(deepest, depth(tree, nodes, i) + (size > 1));
        }
        int64_t sent = b.blocks + (int64_t)held * (edges + 2 * (size - 2));
        int slots = children > 0 ? (held - 1) * (nodes < 3 ? nodes - 1 : 2) + children : 0;
        b.slots = greater(b.slots, greater(slots, size - 1));
        b.sent = b.sent > sent ? b.sent : sent;
    }
    b.rounds = 2 * deepest;
    return b;
}

const peal_algo peal_algo_allreduce_hierarchical_tree = {"hierarchical_tree", PEAL_ALLREDUCE, 0, fits, build, bill};
