/*
 * K-nomial scatter-reduce and allgather (SRA): Rabenseifner's allreduce with teams of up to 4 ranks in place of pairs. In each
 * round a team shares out what its ranks still sum, in rank order; on the way back it exchanges all that its ranks have.
 *
 *     n = 4:    one team of four, all to all: two-shot
 *     n = 9:    round 0: 0-2 3-5 6-8: each rank sums a third     round 1: 0,3,6 1,4,7 2,5,8: and of that a third
 *               round 2: as round 1, sums exchanged              round 3: as round 0, sums exchanged
 *
 * n = r1 r2 ... rk, in the fewest rounds and as even as n allows: 64 = 4 x 4 x 4, 32 = 4 x 4 x 2, 16 = 4 x 4. The first teams, of
 * r1, are neighbours and move most. Primes above 4 are teams, too, and come first: 44 = 11 x 4.
 *
 * Teams of up to 8 take fewer rounds, but each of their ranks writes and reads more lines, and others look at what one writes. Of
 * 8, and of 4, us on 64 cores of Xeon, shared memory (bench/results/xeon-64core):
 *
 *     ranks   1 KiB         4 KiB         1 KiB of ever other buffers
 *        32   4.95, 4.55    7.52, 7.08    5.77, 4.90
 *        48   6.29, 5.43    9.57, 9.00    6.90, 6.04
 *        64   6.39, 5.56    9.46, 9.38    6.98, 5.71
 *
 * Blocks:         n
 * Rounds:         2k
 * Sent per rank:  2(n-1) blocks
 * Scratch:        (r1-1) + (r2-1) + ... + (rk-1) slots, of up to n/r1, n/(r1 r2), ..., 1 blocks
 * Needs:          n without a prime factor above 64
 * Source:         the messages of allreduce_sra_knomial in UCC, tl/ucp, 2021, after Rabenseifner, Optimization of collective
 *                 reduction operations, ICCS 2004; radices that divide n in place of its fold
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allgather_direct;

enum { FEW = 4, MOST_RANKS = 64 }; /* of a team: by choice, and of a prime */

static int fits(const peal_problem *p)
{
    return peal_largest_prime(p->nranks) <= MOST_RANKS;
}

static int team_of(int n)
{
    return peal_largest_factor(n, FEW);
}

/* PARTS parts from PART on, of which this rank has the sum of the STRIDE ranks around it, become sums of all, and come to all. */
static void sum(peal_sched *s, const peal_problem *p, int rank, int part, int parts, int slot)
{
    int ranks[MOST_RANKS], stride = p->nranks / parts;
    if (parts == 1)
        return;
    int team = team_of(parts), place = rank / stride % team;
    for (int i = 0; i < team; i++)
        ranks[i] = rank + (i - place) * stride;
    peal_problem inner = {.kind = PEAL_REDUCE_SCATTER, .op = p->op, .nranks = team, .nnodes = 1};
    peal_call call = {.algo = &peal_algo_reduce_scatter_direct, .problem = &inner, .ranks = ranks, .rank = place, .part = part,
                      .parts = parts, .in = stride == 1 ? PEAL_BUF_IN : PEAL_BUF_OUT, .slot = slot};
    peal_run(s, &call);
    sum(s, p, rank, part + place * (parts / team), parts / team, slot + team - 1);
    inner.kind = PEAL_ALLGATHER;
    call.algo = &peal_algo_allgather_direct;
    call.in = PEAL_BUF_OUT;
    peal_run(s, &call);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_blocks(s, n);
    if (n == 1)
        peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    sum(s, p, rank, 0, n, 0);
}

static peal_bill bill(const peal_problem *p)
{
    peal_bill b = {.blocks = p->nranks, .sent = 2 * (int64_t)(p->nranks - 1)};
    for (int left = p->nranks; left > 1; left /= team_of(left)) {
        b.rounds += 2;
        b.slots += team_of(left) - 1;
    }
    return b;
}

const peal_algo peal_algo_allreduce_sra_knomial = {"sra_knomial", PEAL_ALLREDUCE, 0, fits, build, bill};
