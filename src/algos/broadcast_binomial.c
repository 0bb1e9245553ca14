/*
 * Binomial broadcast: in each round every rank that has the data gives it to one that has not.
 *
 *     n = 4, root 0:    0->2, then 0->1 2->3
 *
 * Blocks:         1
 * Rounds:         floor(log2 n): the depth of the tree
 * Sent per rank:  ceil(log2 n) blocks at the root, the most of any
 * Scratch:        none
 * Needs:          nothing
 * Source:         Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005
 */
#include <peal/algo.h>

/* Ranks are counted from the root on: the parent of one lacks its lowest set bit, which its children set below that. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, me = peal_mod(rank - p->root, n), bit = me & -me;

    peal_blocks(s, 1);
    if (me == 0) {
        bit = 1 << peal_log2_ceil(n);
        peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    } else {
        peal_recv(s, peal_mod(rank - bit, n), peal_out(0, 1));
    }
    for (bit /= 2; bit > 0; bit /= 2)
        if (me + bit < n)
            peal_send(s, peal_mod(rank + bit, n), peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    return (peal_bill){.blocks = 1, .rounds = peal_log2_floor(p->nranks), .sent = peal_log2_ceil(p->nranks), .slots = 0};
}

const peal_algo peal_algo_broadcast_binomial = {"binomial", PEAL_BROADCAST, 0, NULL, build, bill};
