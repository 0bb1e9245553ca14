/*
 * Binomial reduce: in each round half of the ranks that still have a sum give it away and are done.
 *
 *     n = 4, root 0:    1->0 3->2, then 2->0
 *
 * Blocks:         1
 * Rounds:         floor(log2 n): the depth of the tree
 * Sent per rank:  1 block
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005
 */
#include <peal/algo.h>

/* Below the root the sum stays in the slot that the first message came in: only the root has OUT. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, me = peal_mod(rank - p->root, n), slot = 0;
    peal_range sum = me == 0 ? peal_out(0, 1) : peal_in(0, 1);

    peal_blocks(s, 1);
    if (me == 0)
        peal_copy(s, sum, peal_in(0, 1));
    for (int bit = 1; bit < n && !(me & bit); bit *= 2) {
        if (me + bit >= n)
            continue;
        peal_range got = peal_tmp(slot, 0);
        peal_recv(s, peal_mod(rank + bit, n), got);
        peal_reduce_into(s, sum.buf == PEAL_BUF_IN ? got : sum, sum.buf == PEAL_BUF_IN ? sum : got);
        sum = sum.buf == PEAL_BUF_IN ? got : sum;
        slot = me == 0 ? !slot : 1;
    }
    if (me > 0)
        peal_send(s, peal_mod(rank - (me & -me), n), sum);
}

static peal_bill bill(const peal_problem *p)
{
    int children = peal_log2_ceil(p->nranks);
    return (peal_bill){
        .blocks = 1, .rounds = peal_log2_floor(p->nranks), .sent = p->nranks > 1, .slots = children < 2 ? children : 2};
}

const peal_algo peal_algo_reduce_binomial = {"binomial", PEAL_REDUCE, 0, NULL, build, bill};
