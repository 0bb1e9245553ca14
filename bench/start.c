/*
 * One collective of the team serves for the agreement: the latest time at which a rank came, which all hear of, and then as long
 * again as it takes to hear of it.
 */
#include "start.h"

#include "base/clock.h"
#include "race.h"

enum {
    TRIALS = 15,          /* agreements that are timed */
    HOLDS_NS = 500000000, /* what was learnt: clocks that nobody sets drift apart by some 20 us a second, others by less than 1 */
    AWAKE_NS = 2000,      /* before the start a rank keeps its core; earlier, others that share it have to hear of the time, too */
};

/* The time, by rank 0's clock, at which the last rank comes. */
static double latest(const peali_start *start, peali_team *team)
{
    double now = (double)(peali_clock_ns() + start->ahead);
    team->max(team, &now, 1);
    return now;
}

/* A rank hears of the agreement in the time that one takes; twice that is enough but for the rare one. */
static void learn(peali_start *start, peali_team *team)
{
    double took[TRIALS], most;
    start->ahead = team->ahead ? team->ahead(team) : 0;
    for (int i = 0; i < TRIALS; i++) {
        start->known = latest(start, team);
        took[i] = (double)(peali_clock_ns() + start->ahead) - start->known;
    }
    most = peali_median(took, TRIALS);
    team->max(team, &most, 1);
    start->lead = (int64_t)(2 * most);
}

/* Of one agreement all ranks have one time, so that they agree on what is too old too. */
int64_t peali_start_wait(peali_start *start, peali_team *team)
{
    double last = start->known != 0 ? latest(start, team) : 0;
    if (start->known == 0 || last - start->known > HOLDS_NS) {
        learn(start, team);
        last = latest(start, team);
    }
    int64_t at = (int64_t)last + start->lead - start->ahead;
    for (int64_t now = peali_clock_ns(); now < at; now = peali_clock_ns()) {
        if (at - now < AWAKE_NS)
            peali_clock_pause();
        else
            peali_clock_yield();
    }
    return at;
}
