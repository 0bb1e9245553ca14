/*
 * Recursive multiplying allreduce: in every round up to 8 teams of ranks that have one sum each become one team. Each rank gets
 * the sums of the other teams, from one rank of each, and adds them in order of teams, so that the new team has the same bits.
 *
 *     n = 8:     round 0: one team of eight: all to all, the one-shot allreduce
 *     n = 16:    round 0: 0-3 4-7 8-11 12-15 all to all      round 1: 0,4,8,12  1,5,9,13  2,6,10,14  3,7,11,15
 *     n = 11:    round 0: 0-3 4-7 8-10 all to all            round 1: 0,4,8  1,5,9  2,6,10, and 3 and 7 with 8
 *
 * Teams of a round are neighbours and differ by at most one rank. Where one is larger, the first rank of a smaller sends to its
 * last, too: so no number of ranks needs a fold.
 *
 * Blocks:         1
 * Rounds:         ceil(log8 n)
 * Sent per rank:  r-1 blocks in a round of r teams; in one of its rounds a rank may have the last ranks of larger teams besides
 * Scratch:        r slots of one block for each round, and 1
 * Needs:          nothing
 * Source:         Ruefenacht, Bull and Booth, Generalisation of recursive doubling for AllReduce: now with simulation, Parallel
 *                 Computing 69, 2017; teams of different sizes instead of its fold
 */
#include <peal/algo.h>

enum { MOST_TEAMS = 8 };

static int64_t power(int64_t base, int exponent)
{
    return exponent > 0 ? base * power(base, exponent - 1) : 1;
}

static int ceil_div(int a, int b)
{
    return (a - 1) / b + 1;
}

/* The teams that N ranks come of: about as many in each round, so that a round less is left, and of one size where N allows it. */
static int teams_of(int n)
{
    int l = peal_log_ceil(n, MOST_TEAMS), least = ceil_div(n, (int)power(MOST_TEAMS, l - 1)), teams = least;
    while (power(teams + 1, l) <= n)
        teams++;
    for (int divisor = teams; divisor >= least; divisor--)
        if (n % divisor == 0)
            return divisor;
    return teams;
}

/* The first rank of team TEAM of TEAMS over N ranks: larger teams come first, and rank r is of team r teams / n. */
static int first_of(int team, int teams, int n)
{
    return (int)(((int64_t)team * n + teams - 1) / teams);
}

typedef struct sums {
    peal_sched *s;
    int slot;        /* the next that is free */
    peal_range have; /* the sum of this rank's team */
} sums;

/* The teams of N ranks from FIRST on exchange their sums; this rank is the one at PLACE in team MINE. */
static void swap(sums *w, int first, int n, int mine, int place)
{
    int teams = teams_of(n), size = first_of(mine + 1, teams, n) - first_of(mine, teams, n);

    for (int i = 1; i < teams; i++) {
        int team = (mine + i) % teams, end = first_of(team + 1, teams, n);
        for (int to = first_of(team, teams, n) + place; to < end; to += size)
            peal_send(w->s, first + to, w->have);
    }
    for (int i = 1; i < teams; i++) {
        int team = peal_mod(mine - i, teams), from = first_of(team, teams, n), of = first_of(team + 1, teams, n) - from;
        peal_recv(w->s, first + from + place % of, peal_tmp(w->slot + team, 0));
    }
}

/* In order of teams, into the slot of the first: team 0 does not sum where others may still have to read. */
static void add(sums *w, int teams, int mine)
{
    peal_range sum = peal_tmp(w->slot, 0);

    if (mine == 0)
        peal_copy(w->s, sum, w->have);
    for (int team = 1; team < teams; team++)
        peal_reduce_into(w->s, sum, team == mine ? w->have : peal_tmp(w->slot + team, 0));
    w->have = sum;
    w->slot += teams;
}

/* N ranks from FIRST on, among them FIRST + RANK, become one team, having become teams first. */
static void join(sums *w, int first, int n, int rank)
{
    if (n == 1)
        return;
    int teams = teams_of(n), mine = (int)((int64_t)rank * teams / n), start = first_of(mine, teams, n);
    join(w, first + start, first_of(mine + 1, teams, n) - start, rank - start);
    swap(w, first, n, mine, rank - start);
    add(w, teams, mine);
}

/* It sends from scratch, because in place a rank that has finished would overwrite what others still have to read. */
static void build(peal_sched *s, const peal_problem *p, int rank)
{
    sums w = {s, 1, peal_tmp(0, 0)};

    peal_blocks(s, 1);
    peal_copy(s, w.have, peal_in(0, 1));
    join(&w, 0, p->nranks, rank);
    peal_copy(s, peal_out(0, 1), w.have);
}

static int greater(int a, int b)
{
    return a > b ? a : b;
}

/* What the first of N ranks sends: its team is one of the larger ones. */
static int sent_by_first(int n)
{
    return n > 1 ? teams_of(n) - 1 + sent_by_first(ceil_div(n, teams_of(n))) : 0;
}

/* Only the first rank of a smaller team sends two to a team, and only once: in rounds before it was the first of a first team. */
static int most_sent(int n)
{
    if (n == 1)
        return 0;
    int teams = teams_of(n), more = n % teams, less = n / teams, most = most_sent(ceil_div(n, teams));
    if (more > 0)
        most = greater(greater(most, most_sent(less)), more + sent_by_first(less));
    return teams - 1 + most;
}

static int most_slots(int n)
{
    return n > 1 ? teams_of(n) + greater(most_slots(ceil_div(n, teams_of(n))), most_slots(n / teams_of(n))) : 1;
}

static peal_bill bill(const peal_problem *p)
{
    int n = p->nranks;
    return (peal_bill){.blocks = 1, .rounds = peal_log_ceil(n, MOST_TEAMS), .sent = most_sent(n), .slots = most_slots(n)};
}

const peal_algo peal_algo_allreduce_recursive_multiplying = {"recursive_multiplying", PEAL_ALLREDUCE, 0, NULL, build, bill};
