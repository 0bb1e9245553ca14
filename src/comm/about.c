/* What a communicator says of itself. */
#include "base/log.h"
#include "comm/comm_private.h"

peal_status peali_no_comm(const char *call)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "%s: comm is NULL", call);
    return PEAL_ERR_INVALID;
}

static bool is_one(const peal_comm *comm, const char *call)
{
    return comm || peali_no_comm(call) == PEAL_OK;
}

int peal_comm_rank(const peal_comm *comm)
{
    return is_one(comm, "peal_comm_rank") ? comm->rank : -1;
}

int peal_comm_size(const peal_comm *comm)
{
    return is_one(comm, "peal_comm_size") ? comm->nranks : 0;
}

int peal_comm_nodes(const peal_comm *comm)
{
    return is_one(comm, "peal_comm_nodes") ? comm->nnodes : 0;
}

const char *peal_comm_transport(const peal_comm *comm)
{
    if (!is_one(comm, "peal_comm_transport"))
        return "none";
    return comm->reach.nranks == comm->nranks && comm->nranks > 1 ? "shm" : comm->net->name;
}

peal_problem peali_comm_asks(const peal_comm *comm, peal_kind kind)
{
    return peali_comm_problem(comm, kind, PEAL_SUM, 0);
}

int peali_comm_tally(const peal_comm *comm, int index, peal_kind *kind, const char **name, long *calls)
{
    for (int i = 0; i < index; i++)
        if (!peali_algos[i])
            return 0;
    bool barriers = !peali_algos[index];
    *kind = barriers ? PEAL_BARRIER : peali_algos[index]->kind;
    *name = barriers ? "as allreduce" : peali_algos[index]->name;
    *calls = comm->calls[index];
    return 1;
}
