/*
 * Chain broadcast: each rank gives the data to the next. Slices fill the chain, so long data takes little longer than one message.
 *
 *     n = 4, root 0:    0->1, then 1->2, then 2->3
 *
 * Blocks:         1
 * Rounds:         n-1
 * Sent per rank:  1 block
 * Scratch:        none
 * Needs:          nothing
 * Source:         Watts and van de Geijn, A pipelined broadcast for multidimensional meshes, Parallel Processing Letters 5, 1995
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);

    peal_blocks(s, 1);
    if (rank == p->root)
        peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    else
        peal_recv(s, prev, peal_out(0, 1));
    if (next != p->root)
        peal_send(s, next, peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    return (peal_bill){.blocks = 1, .rounds = p->nranks - 1, .sent = p->nranks > 1, .slots = 0};
}

const peal_algo peal_algo_broadcast_chain = {"chain", PEAL_BROADCAST, 0, NULL, build, bill};
