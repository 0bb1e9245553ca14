/*
 * K-nomial reduce-scatter: in each round a team of up to 8 ranks shares out the blocks whose sums it still has, in team order. The
 * first teams are of ranks that are far from each other, so that what a rank is left with lies in one piece.
 *
 *     n = 8:    one team of eight: the direct reduce-scatter
 *     n = 9:    round 0: 0,3,6 1,4,7 2,5,8: 0, 1 and 2 sum blocks 0 to 2, 3, 4 and 5 sum 3 to 5, 6, 7 and 8 sum 6 to 8
 *               round 1: 0-2 3-5 6-8: each rank sums its own
 *
 * n = r1 r2 ... rk, in the fewest rounds, and as even as n allows: 16 = 4 x 4, 32 = 8 x 4; primes above 8 are teams, too. Who has
 * fewer ranks to hear of, waits for less, and reads more from each: all shares of a rank have the length of all that it sums. Of
 * 2 KiB 16 ranks take 0.8 of the time of direct, 32 ranks 0.6, of 128 KiB 0.95 and 0.8 (32 cores of Xeon, ordinary memory).
 *
 * Blocks:         n
 * Rounds:         k
 * Sent per rank:  n-1 blocks
 * Scratch:        r1 + r2 + ... + rk slots, of up to n/r1, n/(r1 r2), ..., 1 blocks
 * Needs:          n without a prime factor above 64; a commutative operation
 * Source:         the first half of sra_knomial, in the opposite order of rounds
 */
#include <peal/algo.h>

enum { FEW = 8, MOST_RANKS = 64 }; /* of a team: by choice, and of a prime */

static int fits(const peal_problem *p)
{
    return peal_largest_prime(p->nranks) <= MOST_RANKS;
}

static int team_of(int n)
{
    return peal_largest_factor(n, FEW);
}

/* What the ranks of a team have to share: blocks FIRST to FIRST + BLOCKS - 1, of which this one has its sums in HAVE. */
typedef struct share {
    peal_range have;
    int first, blocks, slot;
} share;

static peal_range some(peal_range of, int first, int blocks)
{
    return (peal_range){of.buf, first, blocks};
}

/* In team order, into the slot of its first rank's blocks, or where this is the first into one more: others may read its own. */
static share round_of(peal_sched *s, int rank, share l)
{
    int team = team_of(l.blocks), stride = l.blocks / team, place = (rank - l.first) / stride;
    int mine = l.first + place * stride;
    peal_range own = some(l.have, mine, stride), sum = peal_tmps(l.slot + (place > 0 ? 0 : team - 1), mine, stride);

    for (int i = 1; i < team; i++) {
        int to = (place + i) % team;
        peal_send(s, rank + (to - place) * stride, some(l.have, l.first + to * stride, stride));
    }
    for (int i = 1; i < team; i++) {
        int from = peal_mod(place - i, team);
        peal_recv(s, rank + (from - place) * stride, peal_tmps(l.slot + from - (from > place), mine, stride));
    }
    if (place == 0)
        peal_copy(s, sum, own);
    for (int i = 1; i < team; i++)
        peal_reduce_into(s, sum, i == place ? own : peal_tmps(l.slot + i - (i > place), mine, stride));
    return (share){sum, mine, stride, l.slot + team};
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    share l = {peal_in(0, p->nranks), 0, p->nranks, 0};

    peal_blocks(s, p->nranks);
    while (l.blocks > 1)
        l = round_of(s, rank, l);
    peal_copy(s, peal_out(rank, 1), some(l.have, rank, 1));
}

static peal_bill bill(const peal_problem *p)
{
    peal_bill b = {.blocks = p->nranks, .sent = p->nranks - 1};
    for (int left = p->nranks; left > 1; left /= team_of(left)) {
        b.rounds++;
        b.slots += team_of(left);
    }
    return b;
}

const peal_algo peal_algo_reduce_scatter_knomial = {"knomial", PEAL_REDUCE_SCATTER, 0, fits, build, bill};
