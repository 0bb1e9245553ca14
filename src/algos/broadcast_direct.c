/*
 * Direct broadcast: the root gives all others the data at once.
 *
 *     n = 4, root 0:    round 0: 0->1 0->2 0->3
 *
 * Blocks:         1
 * Rounds:         1
 * Sent per rank:  n-1 blocks at the root, the most of any
 * Scratch:        none
 * Needs:          nothing
 * Source:         folklore
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;

    peal_blocks(s, 1);
    if (rank != p->root) {
        peal_recv(s, p->root, peal_out(0, 1));
        return;
    }
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    return (peal_bill){.blocks = 1, .rounds = p->nranks > 1, .sent = p->nranks - 1, .slots = 0};
}

const peal_algo peal_algo_broadcast_direct = {"direct", PEAL_BROADCAST, 0, NULL, build, bill};
