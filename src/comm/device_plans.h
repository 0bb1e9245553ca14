/*
 * Which algorithm and protocol a call on device memory takes, and what its kernel gets: pure functions of what is equal on all
 * ranks. A launch that was made once costs a look-up.
 */
#ifndef PEALI_DEVICE_PLANS_H
#define PEALI_DEVICE_PLANS_H

#include "comm/comm_private.h"
#include "cuda/load.h"

/* How it is done. */
typedef struct peali_device_choice {
    const peal_algo *algo;
    peali_cuda_proto proto;
    uint32_t ctas, most_ctas;
    bool direct; /* in place of peers, where all have mapped each other's buffers */
    bool engines;
} peali_device_choice;

#define PEALI_DEVICE_GRAPH UINT32_MAX

/* What one launch takes, but for the buffers. */
typedef struct peali_device_plan {
    peal_kind kind; /* what it is for */
    size_t count;
    peal_type type;
    peal_op op;
    int root;
    const peal_algo *forced;
    int most_ctas;
    uint32_t refused; /* before it; PEALI_DEVICE_GRAPH: it is captured */
    peali_device_choice choice;
    uint32_t ctas;
    peali_cuda_call call;
} peali_device_plan;

enum { PEALI_DEVICE_SETS = 32, PEALI_DEVICE_WAYS = 4 };

typedef struct peali_device_plans {
    struct peali_device_program *programs; /* one for each algorithm and root in use */
    peali_device_plan *plan[PEALI_DEVICE_SETS][PEALI_DEVICE_WAYS];
    uint8_t next[PEALI_DEVICE_SETS]; /* which way the next new plan of a set replaces */
} peali_device_plans;

/* Of the devices of a communicator, alike on all ranks. */
typedef struct peali_device_traits {
    const peali_cuda_layout *layout;
    bool lines; /* lines of 128 bytes arrive whole everywhere */
    bool processes; /* each rank is of a process of its own */
    int sharing, sms; /* ranks of one device at most, and its multiprocessors at least */
} peali_device_traits;

/* The plan of C, made where there is none yet. PEAL_OK; PEAL_ERR_UNSUPPORTED (logged); PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_device_plans_get(peal_comm *comm, const peali_call *c, bool captured,
                                                   const peali_device_traits *traits, const peali_device_plan **plan);
void peali_device_plans_free(const peal_comm *comm, peali_device_plans *plans);

/* How a call takes it. False where nothing fits, which is logged. device_choice.c. */
bool peali_device_choose(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits,
                         peali_device_choice *choice);

/* Where ranks are out of reach: an algorithm of fewer steps than AFTER has, for the same; NULL: none, or AFTER was asked for. */
const peal_algo *peali_device_shorter(const peal_comm *comm, const peali_call *c, const peal_algo *after);

/* Would C go by copy engines, where all ranks have areas for them? Alike on all ranks. device_choice.c. */
bool peali_device_wants_engines(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits);

/* "ll", "ll128", "bulk"; "direct" and "engines" of the numbers behind, as PEAL_PROTO has them. */
const char *peali_proto_name(peali_cuda_proto proto);

/* As a schedule sees it: GPUs that are all within reach are one node. */
static inline peal_problem peali_device_problem(const peal_comm *comm, const peali_call *c)
{
    peal_problem problem = peali_comm_problem(comm, c->kind, c->op, c->root);
    if (comm->reach.nranks == comm->nranks) {
        problem.nnodes = 1;
        problem.node = NULL;
    }
    return problem;
}

#endif
