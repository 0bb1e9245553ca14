/* Peers of one kind share a line, since a line for each would be N * N of them. All lanes go the same way so far. */
#include "comm/routes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/log.h"
#include "topo/fabric.h"

enum way { NEAR, OUT_OF_REACH, OTHER_NODE, WAYS };

/* NEAR is this communicator's array of ranks within reach, from the first that is not below RANK. */
static enum way way_to(const peal_comm *comm, int rank, const int32_t **near)
{
    const int32_t *end = comm->near + comm->reach.nranks;
    while (*near < end && **near < rank)
        (*near)++;
    if (*near < end && **near == rank)
        return NEAR;
    return comm->node[rank] == comm->node[comm->rank] ? OUT_OF_REACH : OTHER_NODE;
}

/* Adds ranks FIRST to LAST to the list that ends AT bytes behind TEXT; where it ends then. */
static size_t add(char *text, size_t bytes, size_t at, int first, int last)
{
    const char *comma = at > 0 ? "," : "";
    if (at >= bytes)
        return at;
    if (first == last)
        return at + (size_t)snprintf(text + at, bytes - at, "%s%d", comma, first);
    return at + (size_t)snprintf(text + at, bytes - at, "%s%d-%d", comma, first, last);
}

/* The peers that WAY leads to, as "1-3,7"; their number. */
static int list(const peal_comm *comm, enum way way, char *text, size_t bytes)
{
    const int32_t *near = comm->near;
    size_t at = 0;
    int first = -1, found = 0;
    for (int r = 0; r <= comm->nranks; r++) {
        bool in = r < comm->nranks && r != comm->rank && way_to(comm, r, &near) == way;
        found += in;
        if (in && first < 0)
            first = r;
        if (!in && first >= 0) {
            at = add(text, bytes, at, first, r - 1);
            first = -1;
        }
    }
    return found;
}

static void log_way(const peal_comm *comm, enum way way)
{
    char ranks[256];
    if (list(comm, way, ranks, sizeof ranks) == 0)
        return;
    if (way == NEAR) {
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "lanes: %d -> %s via shm, within reach", comm->rank, ranks);
        return;
    }
    const char *why = way == OTHER_NODE ? "on other nodes" : comm->layout.apart ? "kept apart" : "not within reach";
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "lanes: %d -> %s via %s, %s; device memory %s", comm->rank, ranks,
              comm->net->name, why, comm->net->device_memory ? "would go as it is" : "would be staged");
}

void peali_routes_log(const peal_comm *comm)
{
    char host[256] = "?";
    if (!peali_log_on(PEALI_LOG_INFO, PEALI_SUB_INIT))
        return;
    gethostname(host, sizeof host - 1);
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "init rank %d of %d host %s device cpu node %d of %d%s%s", comm->rank,
              comm->nranks, host, comm->node[comm->rank], comm->nnodes, comm->level ? " by " : "", comm->level ? comm->level : "");
    for (int way = 0; way < WAYS; way++)
        log_way(comm, (enum way)way);
}

void peali_routes_warn(const peal_comm *comm)
{
    static int warned; /* in this process, so that it is said once */
    bool ucx = strcmp(comm->net->name, "ucx") == 0;
    for (int r = 0; r < comm->rank; r++)
        if (comm->node[r] == comm->node[comm->rank])
            return;
    if (ucx && peali_add_relaxed(&warned, 1) == 0)
        peali_fabric_warn("", comm->rank);
}
