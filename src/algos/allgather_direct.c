/*
 * Direct allgather: every rank sends its block to every other.
 *
 *     n = 4:    round 0: rank r sends block r to ranks r+1, r+2, r+3 (modulo 4)
 *
 * Blocks:         n
 * Rounds:         1
 * Sent per rank:  n-1 blocks
 * Scratch:        none
 * Needs:          nothing
 * Source:         folklore
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;

    peal_blocks(s, n);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_out(rank, 1));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_out(peal_mod(rank - i, n), 1));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n > 1, .sent = n - 1, .slots = 0};
}

const peal_algo peal_algo_allgather_direct = {"direct", PEAL_ALLGATHER, 0, NULL, build, bill};
