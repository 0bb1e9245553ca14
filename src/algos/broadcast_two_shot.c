/*
 * Two-shot broadcast: the root gives each rank a block, and each rank gives its block to all who lack it.
 *
 *     n = 4, root 0:    round 0: 0->1 block 1, 0->2 block 2, 0->3 block 3            scatter
 *                       round 1: 0->1 0->2 0->3 block 0, 1->2 1->3 block 1, ...      allgather
 *
 * Blocks:         n
 * Rounds:         2, 1 for n = 2
 * Sent per rank:  2(n-1) blocks at the root, the most of any
 * Scratch:        none
 * Needs:          nothing
 * Source:         van de Geijn's scatter and allgather, in Barnett, Gupta, Payne, Shuler, van de Geijn and Watts, Interprocessor
 *                 collective communication library, SHPCC 1994, without its rounds
 */
#include <peal/algo.h>

/* Each rank gives its block to those behind it first. The root has all blocks. */
static void spread(peal_sched *s, const peal_problem *p, int rank)
{
    for (int i = 1; i < p->nranks; i++)
        if (peal_mod(rank + i, p->nranks) != p->root)
            peal_send(s, peal_mod(rank + i, p->nranks), peal_out(rank, 1));
}

/* The root sends from IN what others pass on: so they may fetch it there, and not wait until it is in its OUT. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, root = p->root;

    peal_blocks(s, n);
    if (rank == root) {
        peal_copy(s, peal_out(0, n), peal_in(0, n));
        for (int i = 1; i < n; i++)
            peal_send(s, peal_mod(root + i, n), peal_in(peal_mod(root + i, n), 1));
        spread(s, p, rank);
        return;
    }
    peal_recv(s, root, peal_out(rank, 1));
    spread(s, p, rank);
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_out(peal_mod(rank - i, n), 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n > 2 ? 2 : n > 1, .sent = 2 * (n - 1), .slots = 0};
}

const peal_algo peal_algo_broadcast_two_shot = {"two_shot", PEAL_BROADCAST, 0, NULL, build, bill};
