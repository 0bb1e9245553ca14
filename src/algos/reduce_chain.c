/*
 * Chain reduce: the sum travels along the ranks once, and ends at the root. In many slices all links are busy.
 *
 *     n = 4, root 0:    round 0: 3->2; round 1: 2->1; round 2: 1->0
 *
 * Blocks:         1
 * Rounds:         n-1
 * Sent per rank:  1 block, 0 for n = 1
 * Scratch:        1 slot of one block, none for n = 1
 * Needs:          a commutative operation
 * Source:         the broadcast of Watts and van de Geijn, A pipelined broadcast for multidimensional meshes, Parallel Processing
 *                 Letters 5, 1995, run backwards
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);
    peal_range sum = peal_in(0, 1);

    peal_blocks(s, 1);
    if (next != p->root) {
        sum = peal_tmp(0, 0);
        peal_recv(s, next, sum);
        peal_reduce_into(s, sum, peal_in(0, 1));
    }
    if (rank == p->root)
        peal_copy(s, peal_out(0, 1), sum);
    else
        peal_send(s, prev, sum);
}

static peal_bill bill(const peal_problem *p)
{
    int more = p->nranks > 1;
    return (peal_bill){.blocks = 1, .rounds = p->nranks - 1, .sent = more, .slots = more};
}

const peal_algo peal_algo_reduce_chain = {"chain", PEAL_REDUCE, 0, NULL, build, bill};
