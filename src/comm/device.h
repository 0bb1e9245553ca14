/*
 * Calls on device memory: they are enqueued on a stream and run by the GPUs. A communicator gets its device side at its first such
 * call, in which all ranks take part.
 *
 * Calls on device memory are numbered and compared like all others, but for those that are captured: they run when their graph
 * does, which nobody here hears of. What kernels compare holds for both.
 */
#ifndef PEALI_DEVICE_H
#define PEALI_DEVICE_H

#include <pthread.h>

#include "base/atomics.h"
#include "comm/comm_private.h"
#include "comm/device_plans.h"
#include "comm/device_regions.h"
#include "comm/ledger.h"
#include "comm/watch.h"
#include "cuda/team.h"
#include "exec/clerk.h"
#include "exec/proxy.h"

enum {
    PEALI_DEVICE_PAST = 1024, /* calls that a rank remembers: as many as a stream takes before a launch waits */
    PEALI_DEVICE_RANKS = 64,  /* where some are out of reach of each other: each looks at the programs of all */
};

/* What a rank keeps where its peers can see it. */
typedef struct peali_device_shown {
    peali_ledger ledger;
    peali_offers offers;
} peali_device_shown;

typedef struct peali_device {
    peali_watched watched;
    peal_comm *comm;
    struct peali_device *next; /* kept after its end */
    peali_team *team;
    int sharing; /* the most ranks that share one device */
    int sms;     /* of the device that has the fewest */
    bool processes; /* each rank is of a process of its own */
    bool lines;  /* lines of 128 bytes arrive whole at all of them */
    bool alone;  /* it knows of no other rank's, which may know of it */
    bool far;    /* some do not reach each other: the scratch of all is in host memory, this rank's is staged */
    void *staged;
    peali_ledger *mine, *ledgers[PEALI_CUDA_RANKS]; /* of each rank within reach */
    int32_t first[PEALI_DEVICE_RANKS]; /* of the ranks within reach of each rank */
    peali_net *nets[PEALI_CLERKS]; /* of the proxy: the communicator's, and those beside it */
    int nnets;
    peali_proxy *proxy;   /* NULL: all ranks are within reach */
    peali_device_shown *shown; /* this rank's: the ledger is in it */
    peali_regions_desk regions;
    struct peali_proxy_device gpu; /* to the proxy */
    enum { PEALI_ENGINES_UNTRIED, PEALI_ENGINES_THERE, PEALI_ENGINES_MISSING } engines; /* alike on all ranks */
    bool mapped;          /* the net has messages in GPU memory */
    peali_device_plans plans;
    peali_signature_shown past[PEALI_DEVICE_PAST]; /* what was enqueued, by its number, for its watch */
    pthread_mutex_t lock; /* of who looks at what went wrong: one says it */
    int64_t complained_ns; /* when this rank last named one that had not come */
    int failure;          /* a peal_status, sticky; release in fail, acquire in peali_device_ask */
} peali_device;

/* Is C, without a stream, on device memory by what its buffers are? */
bool peali_device_finds(peal_comm *comm, const peali_call *c);

/*
 * Is C on device memory? Without CUDA, and on the buffers of the last call, that is a few compares. One of nothing is not, whatever
 * stream and buffers it has, which ranks may have otherwise. Threads: one per COMM.
 */
static inline bool peali_device_wants(peal_comm *comm, const peali_call *c)
{
    bool same = c->in == comm->buffers[0] && c->out == comm->buffers[1];
    return c->count > 0 && (c->stream || (!(same && !comm->cuda) && peali_device_finds(comm, c)));
}

/*
 * Enqueues C, whose other arguments are right, on its stream.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID buffers are not what the stream can reach; PEAL_ERR_UNSUPPORTED; PEAL_ERR_CAPTURE;
 *          PEAL_ERR_CUDA; PEAL_ERR_MEMORY; or what an earlier call failed with. All are logged.
 * Blocks:  in the first call until all ranks have come.
 */
PEAL_MUST_CHECK peal_status peali_device_call(peal_comm *comm, const peali_call *c);

/* With what a call on COMM's devices failed, as far as is known now; else PEAL_OK. Waits for nothing. Threads: any. */
peal_status peali_device_ask(const peal_comm *comm);
static inline peal_status peali_device_failure(const peal_comm *comm)
{
    return peali_load_relaxed(&comm->device) ? peali_device_ask(comm) : PEAL_OK;
}

/* Ends COMM's device side, if it has one; its ranks have agreed that none calls any more. */
void peali_device_close(peal_comm *comm);

/*
 * Opens COMM's device side where it has none, for C or for registering buffers, which all ranks do. Exchange: an allgather of BYTES
 * between them, which is one more call. What a rank lacks, all say and return.
 */
PEAL_MUST_CHECK peal_status peali_device_open(peal_comm *comm, const peali_call *c);
PEAL_MUST_CHECK peal_status peali_device_exchange(peal_comm *comm, const peali_call *c, const void *mine, void *all, size_t bytes);

/*
 * Where ranks are out of reach, for all of them: opens the post of D, its messages in GPU memory or the host's (PEAL_GDR), and the
 * proxy that serves it. PEAL_ERR_UNSUPPORTED: PEAL_GDR=on cannot be had (logged). Ranks may return differently. device_post.c.
 */
PEAL_MUST_CHECK peal_status peali_device_open_post(peali_device *d, const peali_call *c);
void peali_device_close_post(peali_device *d, int64_t patience_ns);

/*
 * The nets of the post's messages in host memory, one for each thread of its proxy; the same number on all ranks. Ranks may return
 * differently. device_nets.c.
 */
PEAL_MUST_CHECK peal_status peali_device_open_nets(peali_device *d, const peali_call *c);
void peali_device_close_nets(peali_device *d);

/*
 * Where it was not tried yet: has all ranks make the areas of COMM for copy engines, in a call C that takes them. PEAL_OK, and
 * engines of its device say whether they are there; or what the ranks cannot meet for. device_engines.c.
 */
PEAL_MUST_CHECK peal_status peali_device_open_engines(peal_comm *comm, const peali_call *c);

/* The next call of COMM, C, as other ranks compare it. */
peali_signature peali_device_signature(const peal_comm *comm, const peali_call *c);

/* Looks at what kernels, and other ranks, found, and at what ended COMM's calls on host memory. device_verdict.c. Threads: any. */
void peali_device_look(peali_device *d);

/*
 * This rank's call MINE failed with STATUS (logged) as it was to be enqueued, and other ranks may wait in theirs: all fail.
 * device_verdict.c. Threads: any.
 */
void peali_device_lose(peali_device *d, peal_status status, const peali_signature *mine);

/* Refuses buffers that COMM's kernels could not reach. device_memory.c. */
PEAL_MUST_CHECK peal_status peali_device_check(const peal_comm *comm, const peali_call *c);

#endif
