/* Lists of ranks, for people. */
#include "base/ranks.h"

#include <stdbool.h>
#include <stdio.h>

static int world_of(const peali_ranks *l, int rank)
{
    return l->world ? l->world[rank] : rank;
}

static void put_span(peali_ranks *l, int first, int last)
{
    l->at += (size_t)snprintf(l->text + l->at, sizeof l->text - l->at, "%d", first);
    if (last > first)
        l->at += (size_t)snprintf(l->text + l->at, sizeof l->text - l->at, "%s%d", last > first + 1 ? "-" : ", ", last);
}

static void close_range(peali_ranks *l)
{
    if (l->ranges++ >= PEALI_RANKS_RANGES) {
        l->more += l->last - l->first + 1;
        return;
    }
    l->at += (size_t)snprintf(l->text + l->at, sizeof l->text - l->at, "%s", l->ranges > 1 ? ", " : "");
    put_span(l, l->first, l->last);
    if (!l->world)
        return;
    l->at += (size_t)snprintf(l->text + l->at, sizeof l->text - l->at, " (world ");
    put_span(l, world_of(l, l->first), world_of(l, l->last));
    l->at += (size_t)snprintf(l->text + l->at, sizeof l->text - l->at, ")");
}

void peali_ranks_put(peali_ranks *l, int rank)
{
    bool follows = l->n > 0 && rank == l->last + 1 && world_of(l, rank) == world_of(l, l->last) + 1;
    if (l->n++ > 0 && !follows)
        close_range(l);
    if (!follows)
        l->first = rank;
    l->last = rank;
}

const char *peali_ranks_end(peali_ranks *l)
{
    close_range(l);
    if (l->more > 0)
        snprintf(l->text + l->at, sizeof l->text - l->at, " and %d more", l->more);
    return l->text;
}
