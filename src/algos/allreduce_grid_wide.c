/*
 * Grid allreduce with rows of up to 8: the grid allreduce, which has up to 4 in a row. A rank moves less, in as many rounds, and
 * more ranks wait for each other in two of them: it pays for longer vectors.
 *
 *     n = 16:    round 0: 0-7 8-15: each rank sums an eighth in its row
 *                round 1: 0<->8 on eighth 0, ..., 7<->15 on 7
 *                round 2: 0-7 8-15: the eighths are exchanged
 *
 * Blocks:         q, the largest divisor of n that is at most 8
 * Rounds:         those of recursive multiplying on n/q ranks, and 2 where q > 1
 * Sent per rank:  2(q-1) blocks, and what recursive multiplying sends
 * Scratch:        the larger of q-1 slots and those of recursive multiplying
 * Needs:          nothing; a commutative operation
 * Source:         that of the grid allreduce
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_recursive_multiplying, peal_algo_allgather_direct;

enum { MOST = 8 }; /* of a row */

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    static const peal_levels levels = {&peal_algo_reduce_scatter_direct, &peal_algo_allreduce_recursive_multiplying,
                                       &peal_algo_allgather_direct, 0};
    peal_run_rows(s, p, rank, peal_largest_divisor(p->nranks, MOST), &levels);
}

static peal_bill bill(const peal_problem *p)
{
    int q = peal_largest_divisor(p->nranks, MOST);
    peal_problem column = {.kind = PEAL_ALLREDUCE, .op = p->op, .nranks = p->nranks / q, .nnodes = 1};
    peal_bill b = peal_algo_allreduce_recursive_multiplying.bill(&column);
    return (peal_bill){q, b.rounds + 2 * (q > 1), b.sent + 2 * (q - 1), b.slots > q - 1 ? b.slots : q - 1};
}

const peal_algo peal_algo_allreduce_grid_wide = {"grid_wide", PEAL_ALLREDUCE, 0, NULL, build, bill};
