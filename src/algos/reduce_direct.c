/*
 * Direct reduce: all others give the root their vectors at once, and it sums them in rank order.
 *
 *     n = 4, root 0:    round 0: 1->0 2->0 3->0
 *
 * Blocks:         1
 * Rounds:         1
 * Sent per rank:  1 block
 * Scratch:        n-1 slots of one block at the root
 * Needs:          n-1 slots
 * Source:         folklore
 */
#include <peal/algo.h>

static int fits(const peal_problem *p)
{
    return p->nranks - 1 <= PEAL_SLOTS;
}

/* The sum begins in the slot that rank 0's vector came in, so that it is in rank order and does not touch IN. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_range sum = rank > 0 ? peal_tmp(0, 0) : peal_out(0, 1);

    peal_blocks(s, 1);
    if (rank != p->root) {
        peal_send(s, p->root, peal_in(0, 1));
        return;
    }
    for (int i = 1; i < n; i++) {
        int from = peal_mod(rank + i, n);
        peal_recv(s, from, peal_tmp(from - (from > rank), 0));
    }
    if (rank == 0)
        peal_copy(s, sum, peal_in(0, 1));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, sum, r == rank ? peal_in(0, 1) : peal_tmp(r - (r > rank), 0));
    peal_copy(s, peal_out(0, 1), sum);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = 1, .rounds = n > 1, .sent = n > 1, .slots = n - 1};
}

const peal_algo peal_algo_reduce_direct = {"direct", PEAL_REDUCE, 1, fits, build, bill};
