/*
 * Hierarchical allgather: a rank sends its block once to every other node, and who gets one there passes it on within the node.
 * The rank of a node that gets another's block stands where that stands in its own node, so that all ranks use the network at once.
 *
 *     n = 4, nodes 0 1 and 2 3; a>b:c says that a sends b block c:
 *     across    0>2:0  1>3:1  2>0:2  3>1:3
 *     within    0>1:0  0>1:2  1>0:1  1>0:3   2>3:2  2>3:0  3>2:3  3>2:1
 *
 * N nodes; in a node of g ranks, one gets up to c = ceil(g'/g) blocks of a node of g', C in all with its own.
 *
 * Blocks:         n
 * Rounds:         2; 1 where all are on one node, or none shares its node
 * Sent per rank:  N-1 + C (g-1) blocks at the worst node; n-1 where all nodes have as many ranks
 * Scratch:        none
 * Needs:          nothing
 * Source:         the second half of Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on
 *                 heterogeneous network hierarchy, MLSys 2019, with direct messages between nodes
 */
#include <peal/algo.h>

static void pass_on(peal_sched *s, int rank, int block, int first, int size)
{
    for (int i = 1; i < size; i++)
        peal_send(s, first + peal_mod(rank - first + i, size), peal_out(block, 1));
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int at = p->node ? p->node[rank] : 0, first = peal_node_first(p, at), size = peal_node_first(p, at + 1) - first;

    peal_blocks(s, p->nranks);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 1; i < p->nnodes; i++)
        peal_send(s, peal_node_stand(p, rank, peal_mod(at + i, p->nnodes)), peal_out(rank, 1));
    for (int i = 0; i < p->nnodes; i++) {
        int node = peal_mod(at - i, p->nnodes);
        for (int from = peal_node_first(p, node); from < peal_node_first(p, node + 1); from++) {
            int stand = peal_node_stand(p, from, at);
            if (from != rank)
                peal_recv(s, stand == rank ? from : stand, peal_out(from, 1));
            if (stand == rank)
                pass_on(s, rank, from, first, size);
        }
    }
}

static peal_bill bill(const peal_problem *p)
{
    int within = peal_node_largest(p) > 1, across = p->nnodes > 1;
    return (peal_bill){.blocks = p->nranks, .rounds = within + across, .sent = p->nnodes - 1 + peal_node_deals(p)};
}

const peal_algo peal_algo_allgather_hierarchical = {"hierarchical", PEAL_ALLGATHER, 0, NULL, build, bill};
