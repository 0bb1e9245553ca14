/*
 * Two-shot broadcast: the root gives each other rank a block, and each of those gives its block to all who lack it. Of two ranks
 * the root owns a block too, which it gives away as it does the other.
 *
 *     n = 4, root 0:    round 0: 0->1 block 0, 0->2 block 1, 0->3 block 2            scatter
 *                       round 1: 1->2 1->3 block 0, 2->3 2->1 block 1, ...           allgather
 *
 * Blocks:         n-1, 2 for n = 2
 * Rounds:         2, 1 for n = 2
 * Sent per rank:  all blocks at the root, the most of any
 * Scratch:        none
 * Needs:          nothing
 * Source:         van de Geijn's scatter and allgather, in Barnett, Gupta, Payne, Shuler, van de Geijn and Watts, Interprocessor
 *                 collective communication library, SHPCC 1994, without its rounds, and without a block of the root: giving that to
 *                 all would have the root send nearly twice as much
 */
#include <peal/algo.h>

static int blocks(const peal_problem *p)
{
    return p->nranks > 2 ? p->nranks - 1 : p->nranks;
}

static int block_of(const peal_problem *p, int rank)
{
    return peal_mod(rank - p->root - 1, p->nranks);
}

/* Each rank gives its block to those behind it first. The root has all blocks. */
static void spread(peal_sched *s, const peal_problem *p, int rank)
{
    for (int i = 1; i < p->nranks && block_of(p, rank) < blocks(p); i++)
        if (peal_mod(rank + i, p->nranks) != p->root)
            peal_send(s, peal_mod(rank + i, p->nranks), peal_out(block_of(p, rank), 1));
}

/* The root sends from IN what others pass on: so they may fetch it there, and not wait until it is in its OUT. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, root = p->root;

    peal_blocks(s, blocks(p));
    if (rank == root) {
        peal_copy(s, peal_out(0, blocks(p)), peal_in(0, blocks(p)));
        for (int i = 1; i < n; i++)
            peal_send(s, peal_mod(root + i, n), peal_in(i - 1, 1));
        spread(s, p, rank);
        return;
    }
    peal_recv(s, root, peal_out(block_of(p, rank), 1));
    spread(s, p, rank);
    for (int i = 1; i < n; i++) {
        int from = peal_mod(rank - i, n);
        if (block_of(p, from) < blocks(p))
            peal_recv(s, from, peal_out(block_of(p, from), 1));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = blocks(p), .rounds = n > 2 ? 2 : n > 1, .sent = n > 1 ? blocks(p) : 0, .slots = 0};
}

const peal_algo peal_algo_broadcast_two_shot = {"two_shot", PEAL_BROADCAST, 0, NULL, build, bill};
