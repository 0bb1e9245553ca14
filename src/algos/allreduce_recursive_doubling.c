/*
 * Recursive doubling allreduce: in round i every rank swaps its sum with the rank whose number differs in bit i.
 *
 *     n = 4:    round 0: 0-1  2-3     round 1: 0-2  1-3
 *
 * Where n is no power of two the first 2(n-P) ranks, P = 2^floor(log2 n), fold: each even one gives its vector to the next rank,
 * which takes part for both and gives the result back.
 *
 * Blocks:         1
 * Rounds:         log2 P, and 1 more where n > P, and 1 more where n > P + P/2: a chain of messages in and out of the fold passes
 *                 log2 P swaps only from a rank that took part for two to its opposite that did so too
 * Sent per rank:  log2 P blocks, and 1 more where n > P
 * Scratch:        2 slots of one block
 * Needs:          nothing; a commutative operation
 * Source:         Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19, 2005
 */
#include <peal/algo.h>

static int power_below(int n)
{
    int p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

static void swap(peal_sched *s, int peer, int slot)
{
    peal_send(s, peer, peal_out(0, 1));
    peal_recv(s, peer, peal_tmp(slot, 0));
    peal_reduce_into(s, peal_out(0, 1), peal_tmp(slot, 0));
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int power = power_below(p->nranks), folded = p->nranks - power, slot = 0;

    peal_blocks(s, 1);
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    if (rank < 2 * folded && rank % 2 == 0) {
        peal_send(s, rank + 1, peal_out(0, 1));
        peal_recv(s, rank + 1, peal_out(0, 1));
        return;
    }
    if (rank < 2 * folded) {
        peal_recv(s, rank - 1, peal_tmp(slot, 0));
        peal_reduce_into(s, peal_out(0, 1), peal_tmp(slot++, 0));
    }
    int me = rank < 2 * folded ? rank / 2 : rank - folded;
    for (int bit = 1; bit < power; bit *= 2) {
        int peer = me ^ bit;
        swap(s, peer < folded ? 2 * peer + 1 : peer + folded, slot++ % 2);
    }
    if (rank < 2 * folded)
        peal_send(s, rank - 1, peal_out(0, 1));
}

static peal_bill bill(const peal_problem *p)
{
    int power = power_below(p->nranks), rounds = peal_log2_ceil(power), fold = p->nranks > power;
    int uses = rounds + fold, both = p->nranks > power + power / 2;
    return (peal_bill){.blocks = 1, .rounds = rounds + fold + both, .sent = uses, .slots = uses < 2 ? uses : 2};
}

const peal_algo peal_algo_allreduce_recursive_doubling = {"recursive_doubling", PEAL_ALLREDUCE, 0, NULL, build, bill};
