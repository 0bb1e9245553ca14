/*
 * Circulant allgather (Bruck's): what a rank has doubles each round, with the blocks of the rank 1, 2, 4, ... after it. Ranges wrap
 * around, so the rotation at the end of the original is not needed.
 *
 *     n = 4, blocks that rank 0 gives (rank r: r more):
 *     round     0    1
 *     to rank   3    2
 *     blocks    0    0 1
 *
 * Blocks:         n
 * Rounds:         L = ceil(log2 n); 1 less where n is above 2 and at most 3/4 of 2^L: then the last round gives nothing that
 *                 the one before it brought
 * Sent per rank:  n-1 blocks
 * Scratch:        none
 * Needs:          nothing
 * Source:         Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in multiport
 *                 message-passing systems, IEEE TPDS 8, 1997
 */
#include <peal/algo.h>

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;

    peal_blocks(s, n);
    peal_copy(s, peal_out(rank, 1), peal_in(rank, 1));
    for (int64_t skip = 1; skip < n; skip *= 2) {
        int have = (int)skip, give = have < n - have ? have : n - have;
        peal_send(s, peal_mod(rank - have, n), peal_out(rank, give));
        peal_recv(s, peal_mod(rank + have, n), peal_out(peal_mod(rank + have, n), give));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, rounds = peal_log2_ceil(n), less = n > 2 && n <= 3 << (rounds - 2);
    return (peal_bill){.blocks = n, .rounds = rounds - less, .sent = n - 1, .slots = 0};
}

const peal_algo peal_algo_allgather_circulant = {"circulant", PEAL_ALLGATHER, 0, NULL, build, bill};
