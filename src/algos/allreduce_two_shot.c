/*
 * Two-shot allreduce: the direct reduce-scatter, then the direct allgather. Each block is summed by one rank, in rank order.
 *
 *     n = 4:    round 0: rank r sends block q to each other rank q     reduce-scatter
 *               round 1: rank r sends block r to each other rank       allgather
 *
 * Blocks:         n
 * Rounds:         2
 * Sent per rank:  2(n-1) blocks
 * Scratch:        n-1 slots of one block
 * Needs:          n-1 slots
 * Source:         folklore; the name is that of NVIDIA TensorRT-LLM, customAllReduceKernels, 2023
 */
#include <peal/algo.h>

extern const peal_algo peal_algo_reduce_scatter_direct, peal_algo_allgather_direct;

static int fits(const peal_problem *p)
{
    return p->nranks <= PEAL_SLOTS;
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks;
    peal_problem inner = {.op = p->op, .nranks = n, .nnodes = 1};
    peal_call call = {.algo = &peal_algo_reduce_scatter_direct, .problem = &inner, .rank = rank, .parts = n, .in = PEAL_BUF_IN};

    peal_blocks(s, n);
    inner.kind = PEAL_REDUCE_SCATTER;
    peal_run(s, &call);
    inner.kind = PEAL_ALLGATHER;
    call.algo = &peal_algo_allgather_direct;
    call.in = PEAL_BUF_OUT;
    peal_run(s, &call);
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = n, .rounds = n > 1 ? 2 : 0, .sent = 2 * (n - 1), .slots = n - 1};
}

const peal_algo peal_algo_allreduce_two_shot = {"two_shot", PEAL_ALLREDUCE, 1, fits, build, bill};
