/* A communicator as its calls see it. */
#ifndef PEALI_COMM_PRIVATE_H
#define PEALI_COMM_PRIVATE_H

#include "base/ops.h"
#include "comm/comm.h"
#include "comm/plans.h"
#include "exec/host.h"
#include "sched/tuning.h"

struct peal_request {
    peal_comm *comm;    /* NULL: no call in flight */
    peal_status status; /* PEAL_IN_PROGRESS until the call ended */
    peal_request *next; /* of the calls of one thread */
};

/* The arguments of a call. A barrier's are the communicator's own. */
typedef struct peali_call {
    peal_kind kind;
    const void *in;
    void *out;
    size_t count;
    peal_type type;
    peal_op op;
    int root;
    void *stream;
} peali_call;

/* A call that was made lately: the plan that it took, as long as no other plan was MADE; forgotten when something is forced. */
typedef struct peali_recent {
    size_t count;
    peal_kind kind;
    peal_type type;
    peal_op op;
    int root, size;         /* class of peali_select_size */
    bool seen;
    uint64_t made;
    const peali_plan *plan; /* NULL: none */
    long *calls;            /* of its algorithm */
} peali_recent;

enum { PEALI_RECENT = 16 };

struct peal_comm {
    int rank, nranks;
    int32_t *world;    /* of each rank: its number among all that were started together */
    char title[192];   /* for people: " (communicator 2 of world rank 0, name)" */
    peali_layout layout;
    int nnodes;
    int *node;         /* of each rank */
    int largest_node;  /* of hosts, whatever LEVEL */
    const char *level; /* inside the one host, whose objects are the nodes; NULL: hosts are, or what PEAL_NODES names */
    int32_t *near;   /* ranks within reach, this one among them, ascending */
    peali_reach reach;
    peali_host_card *cards; /* of the ranks within reach, that they meet by */
    peali_host *host;  /* of the processes that share memory; NULL: none do */
    peali_lands lands;
    peali_net *net;
    peali_runner *runner;
    peali_plans plans;
    peali_recent recent[PEALI_RECENT];
    const peal_algo *forced[PEAL_KIND_COUNT];
    size_t slice_bytes; /* forced; 0: as the table has it */
    uint64_t configured; /* hash of what is forced from the start */
    peali_tuning_span tuned[2][PEAL_KIND_COUNT]; /* the second: for buffers that all ranks see */
    peal_request request;
    peal_kind kind;    /* of the last call, and its class of size */
    int size;
    uint64_t seen[PEAL_KIND_COUNT]; /* bit per class of size: the buffers that count (lower.h, tells) were seen, the last time */
    uint64_t sequence; /* calls so far, */
    uint32_t refused;  /* and those of them that never began */
    int forks;         /* of the process that made it (peali_request_own) */
    long *calls;       /* calls done, per entry of peali_algos, and behind them barriers */
    unsigned char token; /* what a barrier reduces: its value is nobody's */
    struct peali_device *device; /* NULL before the first call on device memory; release in device.c */
    int max_ctas;      /* 0: as Peal chooses */
    peal_type premul;  /* of the number that peal_comm_premul has said; PEAL_TYPE_COUNT: none */
    bool staged;       /* no buffer is device memory */
    bool cuda;         /* libcuda is loaded, so a buffer may be device memory */
    const void *buffers[2];       /* of the last call without a stream */
};

/* Logs why C is refused: "nothing was started". PEAL_ERR_INVALID. */
__attribute__((cold, format(printf, 3, 4))) peal_status peali_coll_refuse(const peal_comm *comm, const peali_call *c,
                                                                          const char *format, ...);

/* A call of COMM, which is no captured one, has begun, or (STATUS) was refused: its number is taken. */
void peali_coll_number(peal_comm *comm, peal_status status);

/* An allgather of COMM's own on host memory, as a part of call AS. */
PEAL_MUST_CHECK peal_status peali_coll_gather(peal_comm *comm, const peali_signature *as, const void *mine, void *all,
                                              size_t bytes);

/* COMM is this process'. Owns: it still is, and not a parent's: a child has no part in its calls. */
void peali_request_own(peal_comm *comm);
bool peali_request_owns(const peal_comm *comm);

/*
 * The request of the call that was just started on COMM; RUNS: it is not over yet; AT_ONCE: it goes as far as it can before that is
 * said, so that a small one needs no more. Finish: the thread that began it waits for it, and drives what else it started.
 * End aborts a call that is under way (logged): false where that is another thread's, which may see of it any time, if it lives.
 */
peal_request *peali_request_begin(peal_comm *comm, bool runs, bool at_once);
peal_status peali_request_finish(peal_request *request);
bool peali_request_end(peal_comm *comm);

/* Moves all calls that this thread has in flight. */
void peali_request_drive(void);

/* Whose schedules calls of KIND take: a barrier has none of its own. */
static inline peal_kind peali_comm_schedules(peal_kind kind)
{
    return kind == PEAL_BARRIER ? PEAL_ALLREDUCE : kind;
}

/* Logs that CALL had no communicator; PEAL_ERR_INVALID. */
peal_status peali_no_comm(const char *call);

/* W in push. */
static inline int peali_comm_landings(const peal_comm *comm)
{
    return comm->layout.window ? comm->layout.window : peali_tuning_landings(comm->nranks);
}

/* Bytes of the vector of such a call: of an allgather and a reduce-scatter, that of all ranks together. */
static inline size_t peali_comm_bytes(const peal_comm *comm, peal_kind kind, size_t count, peal_type type)
{
    bool parts = kind == PEAL_ALLGATHER || kind == PEAL_REDUCE_SCATTER;
    return count * peal_type_bytes(type) * (parts ? (size_t)comm->nranks : 1);
}

/* What a call on COMM asks of an algorithm: to a schedule, an average is a sum (base/ops.h). */
static inline peal_problem peali_comm_problem(const peal_comm *comm, peal_kind kind, peal_op op, int root)
{
    return (peal_problem){peali_comm_schedules(kind), peali_op_combines(op), comm->nranks, root, comm->nnodes, comm->node};
}

#endif
