/*
 * Hierarchical reduce-scatter: each node sums what it has for every rank, and a rank gets one such sum from every other node. The
 * rank of a node that sums for another stands where that stands in its own node, so that all ranks use the network at once.
 *
 *     n = 4, nodes 0 1 and 2 3; a>b:c says that a sends b its block c:
 *     within    0>1:3  0>1:1  1>0:2  1>0:0   2>3:1  2>3:3  3>2:0  3>2:2
 *     across    0>2:2  1>3:3  2>0:0  3>1:1, each a sum of two
 *
 * N nodes; in a node of g ranks, one sums for up to c = ceil(g'/g) ranks of a node of g', C in all.
 *
 * Blocks:         n
 * Rounds:         2; 1 where all are on one node, or none shares its node
 * Sent per rank:  n-1 blocks
 * Scratch:        C (g-1) slots of one block at the worst node, and N-1 more
 * Needs:          that many slots; a commutative operation
 * Source:         the first half of Cho, Finkler, Kung and Hunter, BlueConnect: decomposing all-reduce for deep learning on
 *                 heterogeneous network hierarchy, MLSys 2019, with direct messages between nodes
 */
#include <peal/algo.h>

static int64_t slots(const peal_problem *p)
{
    return peal_node_deals(p) + p->nnodes - 1;
}

static int fits(const peal_problem *p)
{
    return slots(p) <= PEAL_SLOTS;
}

/* The sum, where it lies, of MINE, which comes first where it may be written, and what is in N slots from SLOT on: block BLOCK. */
static peal_range sum(peal_sched *s, int block, int slot, int n, peal_range mine)
{
    peal_range into = mine.buf == PEAL_BUF_IN && n > 0 ? peal_tmp(slot, block) : mine;
    for (int i = into.buf == mine.buf ? 0 : 1; i < n; i++)
        peal_reduce_into(s, into, peal_tmp(slot + i, block));
    if (into.buf != mine.buf)
        peal_reduce_into(s, into, mine);
    return into;
}

/* This rank's node, where it is number MINE, and the slots that are taken. */
typedef struct place {
    int node, first, size, mine, taken;
} place;

/* To the other ranks of this node, what they sum for those of node TO. */
static void give(peal_sched *s, const peal_problem *p, const place *at, int to)
{
    for (int i = 1; i < at->size; i++) {
        int peer = at->first + peal_mod(at->mine + i, at->size);
        peal_ranks behind = peal_node_behind(p, peer, to);
        for (int r = behind.first; r < behind.end; r++)
            peal_send(s, peer, peal_in(r, 1));
    }
}

/* Block TO of all ranks of this node. */
static peal_range take(peal_sched *s, place *at, int to)
{
    int slot = at->taken, others = at->size - 1;
    for (int i = 0; i < others; i++)
        peal_recv(s, at->first + peal_mod(at->mine - i - 1, at->size), peal_tmp(slot + i, to));
    at->taken += others;
    return sum(s, to, slot, others, peal_in(to, 1));
}

/* Sums for other nodes come first, the next node's before all. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int node = p->node ? p->node[rank] : 0, first = peal_node_first(p, node);
    place at = {node, first, peal_node_first(p, node + 1) - first, rank - first, 0};
    peal_range mine = peal_in(rank, 1);

    peal_blocks(s, p->nranks);
    for (int i = 1; i <= p->nnodes; i++)
        give(s, p, &at, peal_mod(node + i, p->nnodes));
    for (int i = 1; i <= p->nnodes; i++) {
        peal_ranks behind = peal_node_behind(p, rank, peal_mod(node + i, p->nnodes));
        for (int to = behind.first; to < behind.end; to++) {
            peal_range got = take(s, &at, to);
            if (to == rank)
                mine = got;
            else
                peal_send(s, to, got);
        }
    }
    for (int i = 1; i < p->nnodes; i++)
        peal_recv(s, peal_node_stand(p, rank, peal_mod(node - i, p->nnodes)), peal_tmp(at.taken + i - 1, rank));
    peal_copy(s, peal_out(rank, 1), sum(s, rank, at.taken, p->nnodes - 1, mine));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, within = peal_node_largest(p) > 1, across = p->nnodes > 1;
    return (peal_bill){.blocks = n, .rounds = within + across, .sent = n - 1, .slots = (int)slots(p)};
}

const peal_algo peal_algo_reduce_scatter_hierarchical = {"hierarchical", PEAL_REDUCE_SCATTER, 0, fits, build, bill};
