/*
 * K-nomial reduce: in each round teams of up to k ranks that have a sum give it to the first of each, which alone goes on.
 *
 *     n = 9, root 0, k = 3:    1->0 2->0, 4->3 5->3, 7->6 8->6, then 3->0 6->0
 *
 * k is the least that needs no more rounds than 8 do: the root gets as little as these rounds allow, 3 and 3 of 16 ranks, 5 and 5
 * of 32.
 *
 * Blocks:         1
 * Rounds:         ceil(log8 n)
 * Sent per rank:  1 block
 * Scratch:        a slot for each message to the root, of up to k-1 in a round
 * Needs:          nothing; a commutative operation
 * Source:         the trees of MPICH's allreduce and broadcast (k-nomial), there with k by configuration; what all of a team send
 *                 is taken at once, as in Ruefenacht, Bull and Booth, Generalisation of recursive doubling for AllReduce, Parallel
 *                 Computing 69, 2017
 */
#include <peal/algo.h>

enum { MOST = 8 };

static int team_of(int n)
{
    int k = 2;
    while (peal_log_ceil(n, k) > peal_log_ceil(n, MOST))
        k++;
    return k;
}

/* All children send at once, each to a slot, so that the sum is taken in one go, theirs in order of rounds. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, k = team_of(n), me = peal_mod(rank - p->root, n), slots = 0;
    int64_t step = 1;

    peal_blocks(s, 1);
    for (; step < n && me / step % k == 0; step *= k)
        for (int i = 1; i < k && me + i * step < n; i++)
            peal_recv(s, peal_mod(rank + i * step, n), peal_tmp(slots++, 0));
    peal_range sum = me == 0 ? peal_out(0, 1) : slots > 0 ? peal_tmp(0, 0) : peal_in(0, 1);
    if (me == 0)
        peal_copy(s, sum, peal_in(0, 1));
    else if (slots > 0)
        peal_reduce_into(s, sum, peal_in(0, 1));
    for (int i = me > 0; i < slots; i++)
        peal_reduce_into(s, sum, peal_tmp(i, 0));
    if (me > 0)
        peal_send(s, peal_mod(rank - me / step % k * step, n), sum);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, k = team_of(n);
    peal_bill b = {.blocks = 1, .rounds = peal_log_ceil(n, MOST), .sent = n > 1};
    for (int64_t step = 1; step < n; step *= k)
        b.slots += (n - 1) / step < k ? (int)((n - 1) / step) : k - 1;
    return b;
}

const peal_algo peal_algo_reduce_knomial = {"knomial", PEAL_REDUCE, 0, NULL, build, bill};
