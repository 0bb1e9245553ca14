/*
 * Hierarchical allreduce: a direct reduce-scatter within each node, a ring over the nodes for each share, so that all ranks of a
 * node use the network at once, and a direct allgather within each node.
 *
 *     n = 4, nodes 2+2:
 *     round 0      0<->1, 2<->3: each sums one half of the vector, its share, in its node
 *     rounds 1-2   0<->2 on share 0, 1<->3 on share 1: ring
 *     round 3      0<->1, 2<->3: the shares are exchanged
 *
 * N nodes of up to G ranks; G shares, the same on all nodes, of which a rank of a smaller node of g holds up to c = ceil(G/g).
 *
 * Blocks:         G N
 * Rounds:         2(N-1) for the ring; the chains begin at a node and end two before it, so 2 more where such a pair both have more
 *                 than one rank, else 1 where any node has
 * Sent per rank:  G N + c (2(N-1) + N(g-2)) blocks at the worst node: N(G-c) and N c(g-1) within it, the ring between
 * Scratch:        the larger of g-1 slots and c times the ring's 2, at the worst node
 * Needs:          G N blocks and 2 G slots
 * Source:         Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
 *                 hierarchy, MLSys 2019
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_ring, peal_algo_allgather_direct;

static int fits(const peal_problem *p)
{
    int most = peal_node_largest(p);
    return 2 * most <= PEAL_SLOTS && (int64_t)most * p->nnodes <= INT32_MAX;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    static const peal_levels levels = {&peal_algo_reduce_scatter_direct, &peal_algo_allreduce_ring, &peal_algo_allgather_direct, 0};
    peal_run_levels(s, p, rank, &levels);
}

static int node_size(const peal_problem *p, int node)
{
    node = peal_mod(node, p->nnodes);
    return peal_node_first(p, node + 1) - peal_node_first(p, node);
}

static peal_bill bill(const peal_problem *p)
{
    int nodes = p->nnodes, most = peal_node_largest(p), ring_slots = nodes < 3 ? nodes - 1 : 2, ends = 0;
    peal_bill b = {.blocks = most * nodes};

    for (int i = 0; i < nodes; i++) {
        int size = node_size(p, i), held = (most + size - 1) / size, slots = held * ring_slots;
        int64_t sent = b.blocks + (int64_t)held * (2 * (nodes - 1) + (int64_t)nodes * (size - 2));
        int more = (size > 1) + (node_size(p, i - 2) > 1);
        slots = slots > size - 1 ? slots : size - 1;
        b.slots = b.slots > slots ? b.slots : slots;
        b.sent = b.sent > sent ? b.sent : sent;
        ends = ends > more ? ends : more;
    }
    b.rounds = 2 * (nodes - 1) + ends;
    return b;
}

const peal_algo peal_algo_allreduce_hierarchical = {"hierarchical", PEAL_ALLREDUCE, 0, fits, build, bill};
