/*
 * A deterministic simulation of what the runner does: the lowered programs of all ranks, slices with one cursor each and the
 * oldest that can go on served first, a window, flags between ranks that share memory, and messages over ports as cost.h has them.
 * It finds what closed forms leave out: ports that several peers want at once, copies, sums that were fused, short windows, uneven
 * ranks.
 *
 * A port serves messages in the order in which they come to it. What waits for a receiver's port does not hold up its sender's.
 */
#ifndef PEALI_SIM_H
#define PEALI_SIM_H

#include <stdbool.h>

#include "study/cost.h"

typedef struct peali_sim_case {
    const peal_algo *algo;
    const peal_problem *problem;
    size_t bytes;       /* of the whole vector */
    int slices, window; /* K; W, 1 to K */
    bool shared;        /* the ranks of a node reach each other's buffers (pull); else all send messages */
} peali_sim_case;

typedef struct peali_sim_rank {
    double end_ns;     /* when its last slice left it */
    double compute_ns; /* reducing and copying */
    double send_ns, recv_ns; /* its ports were busy, added up over them */
} peali_sim_rank;

/*
 * Runs WHAT. *NS is the time until the last rank has ended; RANKS has room for all of them, or is NULL.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID the schedules do not match or do not come to an end (logged); PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_sim(const peali_sim_case *what, const peali_cost_params *params, double *ns,
                                      peali_sim_rank *ranks);

#endif
