/*
 * Root-last reduce: as two_shot, but of each block the root gives away only the first of PARTS parts. Of the rest the others sum
 * what they have among them, and the root adds its own vector as it takes these sums over.
 *
 *     n = 4, root 0:    round 0: rank r sends block q - 1 to each other rank q > 0 and part 48 to rank 0,     reduce-scatter
 *                                the root the parts 0, 16 and 32
 *                       round 1: 1->0 block 0, 2->0 block 1, 3->0 block 2                                     gather
 *
 * Blocks:         PARTS (n-1) + 1: of the root's block there is but one part
 * Rounds:         2
 * Sent per rank:  all
 * Scratch:        2n-1 slots, of one part and of PARTS-1
 * Needs:          2n-1 slots
 * Source:         reduce_two_shot, whose root is the slowest where memory is staged: it copies its vector in and the result out,
 *                 the others one of them. What it gives and sums here is for all to meet in every call (lower.h, tells)
 */
#include <peal/algo.h>

enum { PARTS = 16 };

static int fits(const peal_problem *p)
{
    return 2 * p->nranks - 1 <= PEAL_SLOTS;
}

/* Of RANK's block: the first part, to which all give, or the rest, without the root. */
static peal_range of_block(const peal_problem *p, int rank, int buf, int rest)
{
    int part = PARTS * peal_mod(rank - p->root - 1, p->nranks) + rest;
    peal_range range = {buf, part, rest ? PARTS - 1 : 1};
    return range;
}

/* Where rank FROM's share of it lies; for RANK itself, the sum. */
static peal_range slot_of(const peal_problem *p, int rank, int from, int rest)
{
    return of_block(p, rank, PEAL_BUF_TMP + (rest ? p->nranks + from - (from > p->root) : from), rest);
}

/* In rank order. */
static peal_range sum(peal_sched *s, const peal_problem *p, int rank, int rest)
{
    int n = p->nranks, first = rest && p->root == 0;
    peal_range sum = slot_of(p, rank, rank, rest);

    for (int i = 1; i < n; i++)
        if (!rest || peal_mod(rank - i, n) != p->root)
            peal_recv(s, peal_mod(rank - i, n), slot_of(p, rank, peal_mod(rank - i, n), rest));
    for (int r = first; r < n; r++) {
        peal_range share = r == rank ? of_block(p, rank, PEAL_BUF_IN, rest) : slot_of(p, rank, r, rest);
        if (r == first)
            peal_copy(s, sum, share);
        else if (!rest || r != p->root)
            peal_reduce_into(s, sum, share);
    }
    return sum;
}

/* The root's side of the gather. */
static void add_own(peal_sched *s, const peal_problem *p, int from)
{
    peal_range sum = slot_of(p, from, from, 1), out = of_block(p, from, PEAL_BUF_OUT, 1);

    peal_recv(s, from, of_block(p, from, PEAL_BUF_OUT, 0));
    peal_recv(s, from, sum);
    peal_copy(s, out, of_block(p, from, PEAL_BUF_IN, 1));
    peal_reduce_into(s, out, sum);
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, shares = rank == p->root ? 1 : 2;

    peal_blocks(s, PARTS * (n - 1) + 1);
    if (n == 1)
        peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    for (int rest = 0; rest < shares; rest++)
        for (int i = 1; i < n; i++)
            if (!rest || peal_mod(rank + i, n) != p->root)
                peal_send(s, peal_mod(rank + i, n), of_block(p, peal_mod(rank + i, n), PEAL_BUF_IN, rest));
    for (int rest = 0; rest < shares && n > 1; rest++) {
        peal_range all = sum(s, p, rank, rest);
        if (rank == p->root)
            peal_copy(s, of_block(p, rank, PEAL_BUF_OUT, rest), all);
        else
            peal_send(s, p->root, all);
    }
    for (int i = 1; i < n && rank == p->root; i++)
        add_own(s, p, peal_mod(rank - i, n));
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks, blocks = PARTS * (n - 1) + 1;
    return (peal_bill){.blocks = blocks, .rounds = n > 1 ? 2 : 0, .sent = n > 1 ? blocks : 0, .slots = n > 1 ? 2 * n - 1 : 0};
}

const peal_algo peal_algo_reduce_root_last = {"root_last", PEAL_REDUCE, 0, fits, build, bill};
