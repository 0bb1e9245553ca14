/*
 * Rabenseifner's allreduce: halving reduce-scatter, then doubling allgather. In each round a rank swaps with the rank whose number
 * differs in one bit: half of what it still sums on the way there, all that it has on the way back.
 *
 *     n = 4, blocks given:
 *     round     0      1    2    3
 *     partner   1 bit  2    2    1 bit
 *     rank 0    2 3    1  | 0    0 1      reduce-scatter | allgather
 *     rank 1    0 1    3  | 2    2 3
 *     rank 2    2 3    0  | 1    0 1
 *     rank 3    0 1    2  | 3    2 3
 *
 * Where n is no power of two the first 2(n-P) ranks, P = 2^floor(log2 n), fold: each even one gives its vector to the next rank,
 * which takes part for both and gives the result back.
 *
 * Blocks:         P
 * Rounds:         2 log2 P, and 2 more where n > P
 * Sent per rank:  2(P-1) blocks, and P more where n > P
 * Scratch:        2 slots of up to P blocks
 * Needs:          nothing; a commutative operation
 * Source:         Rabenseifner, Optimization of collective reduction operations, ICCS 2004
 */
#include <peal/algo.h>

static int peer_of(int me, int folded)
{
    return me < folded ? 2 * me + 1 : me + folded;
}

static void add(peal_sched *s, int peer, peal_range into, int slot)
{
    peal_range got = peal_tmps(slot % 2, into.part, into.parts);
    peal_recv(s, peer, got);
    peal_reduce_into(s, into, got);
}

/* Rank ME of POWER, which works for FOLDED other ranks too. */
static void swap_halves(peal_sched *s, int me, int power, int folded)
{
    int at = 0, slot = folded > me;
    for (int bit = 1, half = power / 2; bit < power; bit *= 2, half /= 2) {
        int peer = peer_of(me ^ bit, folded), low = !(me & bit);
        peal_send(s, peer, peal_out(low ? at + half : at, half));
        at += low ? 0 : half;
        add(s, peer, peal_out(at, half), slot++);
    }
    for (int bit = power / 2, half = 1; bit > 0; bit /= 2, half *= 2) {
        int peer = peer_of(me ^ bit, folded), low = !(me & bit);
        peal_send(s, peer, peal_out(at, half));
        peal_recv(s, peer, peal_out(low ? at + half : at - half, half));
        at -= low ? 0 : half;
    }
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    int power = 1 << peal_log2_floor(p->nranks), folded = p->nranks - power;

    peal_blocks(s, power);
    peal_copy(s, peal_out(0, power), peal_in(0, power));
    if (rank >= 2 * folded) {
        swap_halves(s, rank - folded, power, folded);
    } else if (rank % 2 == 0) {
        peal_send(s, rank + 1, peal_out(0, power));
        peal_recv(s, rank + 1, peal_out(0, power));
    } else {
        add(s, rank - 1, peal_out(0, power), 0);
        swap_halves(s, rank / 2, power, folded);
        peal_send(s, rank - 1, peal_out(0, power));
    }
}

static peal_bill bill(const peal_problem *p)
{
    int rounds = peal_log2_floor(p->nranks), power = 1 << rounds, fold = p->nranks > power, uses = rounds + fold;
    return (peal_bill){.blocks = power, .rounds = 2 * uses, .sent = 2 * (power - 1) + fold * power, .slots = uses < 2 ? uses : 2};
}

const peal_algo peal_algo_allreduce_rabenseifner = {"rabenseifner", PEAL_ALLREDUCE, 0, NULL, build, bill};
