/*
 * Binomial allreduce: a binomial tree reduces to rank 0, then the same tree broadcasts.
 *
 *     n = 4:    reduce 1->0 3->2, 2->0; broadcast 0->2, 0->1 2->3
 *
 * Blocks:         1
 * Rounds:         2 floor(log2 n): the depth of the tree, down and up
 * Sent per rank:  ceil(log2 n) blocks at rank 0, the most of any
 * Scratch:        2 slots of one block
 * Needs:          nothing
 * Source:         Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, bit = 1, slot = 0;

    peal_blocks(s, 1);
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (; bit < n && !(rank & bit); bit *= 2) {
        if (rank + bit < n) {
            peal_recv(s, rank + bit, peal_tmp(slot % 2, 0));
            peal_reduce_into(s, peal_out(0, 1), peal_tmp(slot++ % 2, 0));
        }
    }
    if (rank > 0) {
        peal_send(s, rank - bit, peal_out(0, 1));
        peal_recv(s, rank - bit, peal_out(0, 1));
    }
    for (bit /= 2; bit > 0; bit /= 2)
        if (rank + bit < n)
            peal_send(s, rank + bit, peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    int children = peal_log2_ceil(p->nranks), depth = peal_log2_ceil(p->nranks + 1) - 1;
    return (peal_bill){.blocks = 1, .rounds = 2 * depth, .sent = children, .slots = children < 2 ? children : 2};
}

const peal_algo peal_algo_allreduce_binomial = {"binomial", PEAL_ALLREDUCE, 0, NULL, build, bill};
