/*
 * Four calls by either way, in turns, of which the first has more to set up and does not count; then the quicker way. What else
 * runs on a machine changes, so that is done again and again: after so many calls that the four by the slower way cost a hundredth
 * of all, or less. Lengths are 64 times a power of two: ranks that found different ones still try at the same calls, of which one
 * has to wait for another.
 */
#include "exec/trial.h"

enum { TRIED = 4, LEAST = 64, MOST = 2048, PART = 100 };

static uint32_t turn(const peali_trial *t)
{
    return t->calls % (t->length > 0 ? t->length : LEAST);
}

int peali_trial_way(const peali_trial *t)
{
    const uint32_t k = turn(t);
    return k < 2 * TRIED ? k % 2 : t->least_ns[1] < t->least_ns[0];
}

/* Calls until the ways are tried again. */
static uint32_t length(const peali_trial *t)
{
    const int way = t->least_ns[1] < t->least_ns[0];
    const double quicker = (double)t->least_ns[way], slower = (double)t->least_ns[!way];
    uint32_t calls = LEAST;
    if (t->least_ns[!way] == INT64_MAX) /* no call could go that way */
        return calls;
    while (calls < MOST && TRIED * PART * (slower - quicker) > (double)calls * quicker)
        calls *= 2;
    return calls;
}

void peali_trial_tell(peali_trial *t, int way, int64_t ns)
{
    const uint32_t k = turn(t);
    if (k == 0)
        t->least_ns[0] = t->least_ns[1] = INT64_MAX;
    if (k >= 2 && way == peali_trial_way(t) && ns < t->least_ns[way])
        t->least_ns[way] = ns;
    t->calls++;
    if (k + 1 == 2 * TRIED)
        t->length = length(t);
}
