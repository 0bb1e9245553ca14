/*
 * One-shot allreduce: every rank sends its vector to every other, and sums all of them in rank order.
 *
 *     n = 4:    round 0: 0->1 0->2 0->3, 1->2 1->3 1->0, 2->3 2->0 2->1, 3->0 3->1 3->2
 *
 * It sends from scratch, because in place a rank that has finished would overwrite what others still have to read.
 *
 * Blocks:         1
 * Rounds:         1
 * Sent per rank:  n-1 blocks
 * Scratch:        n slots of one block, none for n = 1
 * Needs:          n slots
 * Source:         folklore; the name is that of NVIDIA TensorRT-LLM, customAllReduceKernels, 2023
 */
#include <peal/algo.h>

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

/* The sum begins in the slot that rank 0's vector came in, so that it is in rank order and does not touch IN. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_range sum = rank > 0 ? peal_tmp(0, 0) : peal_out(0, 1);

    peal_blocks(s, 1);
    if (n > 1)
        peal_copy(s, peal_tmp(rank, 0), peal_in(0, 1));
    for (int i = 1; i < n; i++)
        peal_send(s, peal_mod(rank + i, n), peal_tmp(rank, 0));
    for (int i = 1; i < n; i++)
        peal_recv(s, peal_mod(rank - i, n), peal_tmp(peal_mod(rank - i, n), 0));
    if (rank == 0)
        peal_copy(s, sum, peal_in(0, 1));
    for (int r = 1; r < n; r++)
        peal_reduce_into(s, sum, r == rank ? peal_in(0, 1) : peal_tmp(r, 0));
    peal_copy(s, peal_out(0, 1), sum);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = 1, .rounds = n > 1, .sent = n - 1, .slots = n > 1 ? n : 0};
}

const peal_algo peal_algo_allreduce_one_shot = {"one_shot", PEAL_ALLREDUCE, 1, fits, build, bill};
