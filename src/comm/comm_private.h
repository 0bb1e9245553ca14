/* A communicator as its calls see it. */
#ifndef PEALI_COMM_PRIVATE_H
#define PEALI_COMM_PRIVATE_H

#include "comm/comm.h"
#include "comm/plans.h"

struct peal_comm {
    int rank, nranks;
    peali_net *net;
    peali_runner *runner;
    peali_plans plans;
    const peal_algo *forced[PEAL_KIND_COUNT];
    uint64_t sequence; /* calls so far */
    long *calls;       /* calls done, per entry of peali_algos */
};

#endif
