/*
 * The figures of the cost model, from something else than what it is to predict. A ping-pong is two broadcasts between two ranks,
 * one each way; in an exchange both send at once and each sums, so that what it takes longer is the sum.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "race.h"

enum { SMALL = 2, LARGE = 1 << 18, BATCHES = 5 }; /* floats */

static void check(peali_team *team, peal_status status)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "peal bench: rank %d: the cost model's measurement: %s\n", team->rank, peal_status_text(status));
    team->quit(team);
}

static void ping_pong(peali_team *team, peal_comm *pair, float *data, size_t count)
{
    check(team, peal_broadcast(data, count, PEAL_FLOAT, 0, pair, NULL));
    check(team, peal_broadcast(data, count, PEAL_FLOAT, 1, pair, NULL));
}

static void exchange(peali_team *team, peal_comm *pair, float *data, size_t count)
{
    check(team, peal_allreduce(data, data + count, count, PEAL_FLOAT, PEAL_SUM, pair, NULL));
}

/* Nanoseconds of one call of WHAT: the best batch, on the slowest pair. */
static double time_of(peali_team *team, peal_comm *pair, float *data, size_t count,
                      void (*what)(peali_team *, peal_comm *, float *, size_t))
{
    int calls = count == SMALL ? 200 : 4;
    double best = 0;
    for (int b = 0; b <= BATCHES; b++) {
        team->barrier(team);
        int64_t start = peali_clock_ns();
        for (int i = 0; pair && i < calls; i++)
            what(team, pair, data, count);
        double ns = (double)(peali_clock_ns() - start) / calls;
        best = b == 0 ? 0 : b == 1 || ns < best ? ns : best; /* the first batch makes plans */
    }
    team->max(team, &best, 1);
    return best;
}

void peali_measure(peali_team *team, peali_cost_params *params)
{
    peal_comm *pair = team->pair(team);
    float *data = calloc(2 * LARGE, sizeof *data);
    double bytes = LARGE * sizeof *data;
    if (!data)
        check(team, PEAL_ERR_MEMORY);
    if (pair) {
        check(team, peal_comm_force(pair, PEAL_BROADCAST, "chain"));
        check(team, peal_comm_force(pair, PEAL_ALLREDUCE, "recursive_doubling"));
    }
    double small = time_of(team, pair, data, SMALL, ping_pong) / 2, large = time_of(team, pair, data, LARGE, ping_pong) / 2;
    double sums = time_of(team, pair, data, LARGE, exchange) - large;
    peali_cost_uniform(params, small / 1e3, large > small ? bytes / (large - small) : 1e3);
    params->reduce_byte_ns = sums > 0 ? sums / bytes : 0;
    free(data);
    peal_comm_destroy(&pair);
}
