/* A communicator as its calls see it. */
#ifndef PEALI_COMM_PRIVATE_H
#define PEALI_COMM_PRIVATE_H

#include "comm/comm.h"
#include "comm/plans.h"
#include "sched/tuning.h"

struct peal_request {
    peal_comm *comm;    /* NULL: no call in flight */
    peal_status status; /* PEAL_IN_PROGRESS until the call ended */
    peal_request *next; /* of the calls of one thread */
};

struct peal_comm {
    int rank, nranks;
    peali_layout layout;
    int nnodes;
    int *node;       /* of each rank */
    int largest_node;
    int32_t *near;   /* ranks within reach, this one among them, ascending */
    peali_reach reach;
    peali_net *net;
    peali_runner *runner;
    peali_plans plans;
    const peal_algo *forced[PEAL_KIND_COUNT];
    size_t slice_bytes; /* forced; 0: as the table has it */
    peali_tuning_span tuned[PEAL_KIND_COUNT];
    peal_request request;
    uint64_t sequence; /* calls so far */
    long *calls;       /* calls done, per entry of peali_algos */
};

/* The request of the call that was just started on COMM; RUNS: it is not over yet. Drop takes it from its thread's list. */
peal_request *peali_request_begin(peal_comm *comm, bool runs);
void peali_request_drop(peal_comm *comm);

/* What a call on COMM asks of an algorithm. */
static inline peal_problem peali_comm_problem(const peal_comm *comm, peal_kind kind, peal_op op, int root)
{
    return (peal_problem){kind, op, comm->nranks, root, comm->nnodes, comm->node};
}

#endif
