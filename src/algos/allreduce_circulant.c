/*
 * Circulant allreduce: every rank talks to the ranks ceil(n/2), ceil(n/4), ..., 1 after it, so any n takes the same rounds as the
 * next power of two, without a fold. What a rank still has to sum shrinks from n blocks to its own; then it grows back.
 *
 *     n = 4, blocks that rank 0 gives (rank r: r more):
 *     round     0      1    2    3
 *     to rank   2      1  | 3    2        reduce-scatter | allgather
 *     blocks    2 3    1  | 0    0 1
 *
 * Blocks:         n
 * Rounds:         2L, L = ceil(log2 n); 2 less where n is above 2 and at most 3/4 of 2^L: then 3, 2 and 1 blocks are left at the
 *                 end, and of the last two rounds of the reduce-scatter (the first two of the allgather) neither needs the other
 * Sent per rank:  2(n-1) blocks
 * Scratch:        2 slots of up to n/2 blocks
 * Needs:          nothing; a commutative operation
 * Source:         Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv 2410.14234, 2024
 */
#include <peal/algo.h>

/* The blocks that a rank still sums after ROUNDS rounds: n / 2^ROUNDS, rounded up. */
static int left(int n, int rounds)
{
    return (int)((n + ((int64_t)1 << rounds) - 1) >> rounds);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, rounds = peal_log2_ceil(n);

    peal_blocks(s, n);
    peal_copy(s, peal_out(0, n), peal_in(0, n));
    for (int i = 0; i < rounds; i++) {
        int skip = left(n, i + 1), give = left(n, i) - skip;
        peal_range sums = peal_tmps(i % 2, rank, give);
        peal_send(s, peal_mod(rank + skip, n), peal_out(peal_mod(rank + skip, n), give));
        peal_recv(s, peal_mod(rank - skip, n), sums);
        peal_reduce_into(s, peal_out(rank, give), sums);
    }
    for (int i = rounds - 1; i >= 0; i--) {
        int skip = left(n, i + 1), give = left(n, i) - skip;
        peal_send(s, peal_mod(rank - skip, n), peal_out(rank, give));
        peal_recv(s, peal_mod(rank + skip, n), peal_out(peal_mod(rank + skip, n), give));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, rounds = peal_log2_ceil(n), less = n > 2 && n <= 3 << (rounds - 2);
    return (peal_bill){.blocks = n, .rounds = 2 * (rounds - less), .sent = 2 * (n - 1), .slots = rounds < 2 ? rounds : 2};
}

const peal_algo peal_algo_allreduce_circulant = {"circulant", PEAL_ALLREDUCE, 0, NULL, build, bill};
