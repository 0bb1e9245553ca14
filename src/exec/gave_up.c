/*
 * Calls that others have given up. Who gave one up has its buffers again, so who is still in it must not touch them any more, and
 * has no use for what came of them. Calls before that one may end well, on all.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"

/* Of this call, or one before it. */
bool peali_run_told(peali_runner *r)
{
    peali_quarrel quarrel;
    if (!peali_runner_told(r, &quarrel) || peali_quarrel_later(&quarrel, r->signature.sequence))
        return false;
    r->quarrel = quarrel;
    return true;
}

bool peali_run_given_up(peali_runner *r)
{
    for (int32_t x = 0; peali_run_alarmed(r) && x < r->nreach; x++) {
        const uint64_t first = peali_load_acquire(&r->shown[x]->gave_up); /* pairs with fail() */
        if (first == 0 || first > r->signature.sequence + 1)
            continue;
        memcpy(&r->quarrel, r->shown[x]->over, sizeof r->quarrel);
        return true;
    }
    return false;
}

/*
 * A call that has done its part, but that others may have given up before. Their buffers were theirs again then, and what came of
 * them is anything. Those within reach tell of it before, which is seen here. Others tell behind what they sent; a rank that was
 * not here for so long, in this call or before it, listens. So it also takes in what those have to say who waited for it.
 */
bool peali_run_came_too_late(peali_runner *r)
{
    peali_loads_done(); /* what was read of others was read before this rank was told */
    if (peali_run_given_up(r))
        return true;
    if (r->plan->nmessages == 0)
        return false;
    const int64_t away_ns = peali_clock_ns() - r->heard_ns;
    r->heard_ns += away_ns;
    if (away_ns < peali_run_sooner(r->parley_ns, peali_run_limit_ns(r->patient), 1) || peali_parley_furnish(r->parley) != PEAL_OK)
        return false;
    for (int rank = 0; rank < r->net->nranks; rank++)
        if (rank != r->net->rank)
            peali_parley_listen(r->parley, rank);
    return peali_parley_heard(r->parley, r->signature.sequence, &r->quarrel);
}
