/*
 * Grid allreduce: the ranks are a grid of rows of up to 4. A row shares out its sum, each column sums its share by recursive
 * multiplying, and the rows exchange what they have.
 *
 *     n = 8:    round 0: 0-3 4-7: each rank sums a quarter in its row
 *               round 1: 0<->4 on quarter 0, 1<->5 on 1, 2<->6 on 2, 3<->7 on 3
 *               round 2: 0-3 4-7: the quarters are exchanged
 *
 * It moves more than sra_knomial, whose columns share out their sums in turn, in fewer rounds. n = n/q rows of q, the largest
 * divisor of n that is at most 4; 1 where there is none, which leaves recursive multiplying.
 *
 * Blocks:         q
 * Rounds:         those of recursive multiplying on n/q ranks, and 2 where q > 1
 * Sent per rank:  2(q-1) blocks, and what recursive multiplying sends
 * Scratch:        the larger of q-1 slots and those of recursive multiplying
 * Needs:          nothing; a commutative operation
 * Source:         Mikami et al., Massively distributed SGD: ImageNet/ResNet-50 training in a flash, 2018 (2D-torus all-reduce),
 *                 with recursive multiplying in place of rings
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allreduce_recursive_multiplying, peal_algo_allgather_direct;

enum { MOST = 4 }; /* of a row */

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

const peal_algo peal_algo_allreduce_grid = {"grid", PEAL_ALLREDUCE, 0, NULL, build, bill};
