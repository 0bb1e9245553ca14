/* A communicator as its calls see it. */
#ifndef PEALI_COMM_PRIVATE_H
#define PEALI_COMM_PRIVATE_H

#include "comm/comm.h"
#include "comm/plans.h"

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
    uint64_t sequence; /* calls so far */
    long *calls;       /* calls done, per entry of peali_algos */
};

/* What a call on COMM asks of an algorithm. */
static inline peal_problem peali_comm_problem(const peal_comm *comm, peal_kind kind, peal_op op, int root)
{
    return (peal_problem){kind, op, comm->nranks, root, comm->nnodes, comm->node};
}

#endif
