/*
 * Hierarchical reduce-scatter for small vectors: the first rank of each node, its leader, sums what the node has for all ranks,
 * gives each other leader the sums for its node, and each rank of its own what comes of those. Of a node, one rank sends.
 *
 *     n = 4, nodes 0 1 and 2 3:    round 0: 1->0 3->2    round 1: 0->2 blocks 2 3, 2->0 blocks 0 1    round 2: 0->1 2->3
 *
 * N nodes of g ranks.
 *
 * Blocks:         n
 * Rounds:         1 where N > 1; where g > 1 another before and one behind
 * Sent per rank:  n blocks by who is no leader; n-1 where g = 1
 * Scratch:        g-1 slots of the vector and N-1 of g blocks, at a leader
 * Needs:          nodes of one size; that many slots; a commutative operation
 * Source:         leaders: Karonis et al., Exploiting hierarchy in parallel computer networks to optimize collective operation
 *                 performance, IPDPS 2000, with direct messages between them
 */
#include <peal/algo.h>

static int slots(const peal_problem *p)
{
    return p->nranks / p->nnodes - 1 + p->nnodes - 1;
}

static int fits(const peal_problem *p)
{
    return (int64_t)peal_node_largest(p) * p->nnodes == p->nranks && slots(p) <= PEAL_SLOTS;
}

/* Where the sum of MINE and of what is in N slots from SLOT on lies: in the first of these, or, as there are none, in MINE. */
static peal_range sum(peal_sched *s, int slot, int n, peal_range mine)
{
    peal_range into = peal_tmps(slot, mine.part, mine.parts);
    for (int i = 1; i < n; i++)
        peal_reduce_into(s, into, peal_tmps(slot + i, mine.part, mine.parts));
    if (n > 0)
        peal_reduce_into(s, into, mine);
    return n > 0 ? into : mine;
}

/* PARTS parts of R from PART on. */
static peal_range part_of(peal_range r, int part, int parts)
{
    return (peal_range){r.buf, part, parts};
}

static void lead(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, size = n / p->nnodes, others = p->nnodes - 1;

    for (int i = 1; i < size; i++)
        peal_recv(s, rank + i, peal_tmps(i - 1, 0, n));
    peal_range ours = sum(s, 0, size - 1, peal_in(0, n));
    for (int i = 1; i <= others; i++) {
        int to = peal_mod(rank + i * size, n);
        peal_send(s, to, part_of(ours, to, size));
    }
    for (int i = 1; i <= others; i++)
        peal_recv(s, peal_mod(rank - i * size, n), peal_tmps(size - 2 + i, rank, size));
    peal_range all = sum(s, size - 1, others, part_of(ours, rank, size));
    for (int i = 1; i < size; i++)
        peal_send(s, rank + i, part_of(all, rank + i, 1));
    peal_copy(s, peal_out(rank, 1), part_of(all, rank, 1));
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, leader = rank - rank % (n / p->nnodes);

    peal_blocks(s, n);
    if (rank == leader) {
        lead(s, p, rank);
        return;
    }
    peal_send(s, leader, peal_in(0, n));
    peal_recv(s, leader, peal_out(rank, 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, within = n / p->nnodes > 1, across = p->nnodes > 1;
    return (peal_bill){.blocks = n, .rounds = across + 2 * within, .sent = within ? n : n - 1, .slots = slots(p)};
}

const peal_algo peal_algo_reduce_scatter_hierarchical_leaders = {"hierarchical_leaders", PEAL_REDUCE_SCATTER, 0, fits, build, bill};
