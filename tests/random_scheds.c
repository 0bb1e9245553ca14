/*
 * Operations of all ranks are drawn in one sequence, in which nothing that was sent is overwritten before it was received: that
 * sequence shows that the lists run.
 */
#include "random_scheds.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SLOTS = 3, LANES = 2, MOST_OPS = 40, MOST_BLOCKS = 5, MOST_OPEN = 64 };

typedef struct drawn {
    char verb; /* s, r, c, + */
    int peer, lane;
    peal_range d, s;
} drawn;

typedef struct sent {
    int from, to, lane;
    peal_range what;
} sent;

static struct {
    unsigned seed;
    int n, nblocks, nops[RANDOM_RANKS], nopen;
    drawn op[RANDOM_RANKS][2 * MOST_OPS];
    peal_range held[RANDOM_RANKS][SLOTS + 1]; /* parts 0: nothing; the last is for what is left at the end */
    sent open[MOST_OPEN];                 /* not received yet, oldest first */
} all;

static int pick(int n)
{
    all.seed = all.seed * 1664525u + 1013904223u;
    return (int)((all.seed >> 9) % (unsigned)n);
}

static peal_range some_out(void)
{
    int first = pick(all.nblocks);
    return peal_out(first, 1 + pick(all.nblocks - first));
}

static bool overlap(peal_range a, peal_range b)
{
    if (a.buf != b.buf)
        return false;
    return a.buf >= PEAL_BUF_TMP || (a.part < b.part + b.parts && b.part < a.part + a.parts);
}

static bool is_sent(int rank, peal_range d)
{
    for (int k = 0; k < all.nopen; k++)
        if (all.open[k].from == rank && overlap(all.open[k].what, d))
            return true;
    return false;
}

/* What RANK may read: OUT, or a slot, or some of what a slot was filled with. */
static peal_range some_source(int rank)
{
    int slot = pick(2 * SLOTS);
    if (slot >= SLOTS || !all.held[rank][slot].parts)
        return some_out();
    peal_range held = all.held[rank][slot];
    int first = pick(3) == 0 ? pick(held.parts) : 0, parts = first > 0 || pick(3) == 0 ? 1 + pick(held.parts - first) : held.parts;
    return peal_tmps(slot, held.part + first, parts);
}

/* The blocks of S elsewhere at RANK. */
static peal_range some_target(peal_range s)
{
    int slot = pick(2 * SLOTS);
    return slot < SLOTS ? peal_tmps(slot, s.part, s.parts) : peal_out(s.part, s.parts);
}

static void write(int rank, drawn op)
{
    all.op[rank][all.nops[rank]++] = op;
    if (op.verb != 's' && op.d.buf >= PEAL_BUF_TMP)
        all.held[rank][op.d.buf - PEAL_BUF_TMP] = op.d;
}

/* The receive of open message K, into D. */
static void receive(int k, peal_range d)
{
    sent m = all.open[k];
    memmove(&all.open[k], &all.open[k + 1], (size_t)(all.nopen - k - 1) * sizeof m);
    all.nopen--;
    write(m.to, (drawn){'r', m.from, m.lane, d, {0, 0, 0}});
}

static bool first_of_lane(int k)
{
    for (int j = 0; j < k; j++)
        if (all.open[j].from == all.open[k].from && all.open[j].to == all.open[k].to && all.open[j].lane == all.open[k].lane)
            return false;
    return true;
}

static void draw_send(int rank)
{
    sent m = {rank, (rank + 1 + pick(all.n - 1)) % all.n, pick(LANES), some_source(rank)};
    if (all.nopen == MOST_OPEN)
        return;
    write(rank, (drawn){'s', m.to, m.lane, {0, 0, 0}, m.what});
    all.open[all.nopen++] = m;
}

static void draw_local(int rank)
{
    peal_range s = some_source(rank), d = some_target(s);
    bool sum = pick(2);
    if (d.buf == s.buf || is_sent(rank, d))
        return;
    if (sum && d.buf >= PEAL_BUF_TMP) {
        peal_range held = all.held[rank][d.buf - PEAL_BUF_TMP];
        sum = held.parts && held.part == s.part && held.parts == s.parts;
    }
    write(rank, (drawn){sum ? '+' : 'c', -1, 0, d, s});
}

static void draw_one(void)
{
    int rank = pick(all.n), k = all.nopen ? pick(all.nopen) : 0;
    if (all.n > 1 && pick(3) == 0) {
        draw_send(rank);
    } else if (all.nopen && pick(2)) {
        peal_range d = some_target(all.open[k].what);
        if (first_of_lane(k) && !is_sent(all.open[k].to, d))
            receive(k, d);
    } else {
        draw_local(rank);
    }
}

/* What is still under way goes to a slot that nobody sends from. */
static void receive_rest(void)
{
    while (all.nopen > 0)
        receive(0, peal_tmps(SLOTS, all.open[0].what.part, all.open[0].what.parts));
}

void random_scheds_make(unsigned seed, int n)
{
    memset(&all, 0, sizeof all);
    all.seed = seed * 2654435761u + 12345;
    all.n = n;
    all.nblocks = 1 + pick(MOST_BLOCKS);
    for (int r = 0; r < n; r++)
        write(r, (drawn){'c', -1, 0, peal_out(0, all.nblocks), peal_in(0, all.nblocks)});
    for (int k = 5 + pick(MOST_OPS - 5); k > 0; k--)
        draw_one();
    receive_rest();
}

static void build(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, all.nblocks);
    for (int i = 0; i < all.nops[rank]; i++) {
        const drawn *op = &all.op[rank][i];
        peal_lane(s, op->lane);
        if (op->verb == 's')
            peal_send(s, op->peer, op->s);
        else if (op->verb == 'r')
            peal_recv(s, op->peer, op->d);
        else if (op->verb == 'c')
            peal_copy(s, op->d, op->s);
        else
            peal_reduce_into(s, op->d, op->s);
    }
}

static peal_bill bill(const peal_problem *p)
{
    return (peal_bill){.blocks = all.nblocks};
}

const peal_algo random_algo = {"random", PEAL_ALLREDUCE, 0, NULL, build, bill};
