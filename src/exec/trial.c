/*
 * Two calls by either way, as the first by one may have more to set up; then the quicker way. What else runs on a machine changes,
 * so that is done again and again: of so many calls two are by the slower way.
 */
#include "exec/trial.h"

enum { TRIED = 2, PERIOD = 64 };

int peali_trial_way(const peali_trial *t)
{
    const uint32_t k = t->calls % PERIOD;
    return k < 2 * TRIED ? k >= TRIED : t->least_ns[1] < t->least_ns[0];
}

void peali_trial_tell(peali_trial *t, int way, int64_t ns)
{
    if (way != peali_trial_way(t))
        return;
    if (t->calls++ % PERIOD == 0)
        t->least_ns[0] = t->least_ns[1] = INT64_MAX;
    if (ns < t->least_ns[way])
        t->least_ns[way] = ns;
}
