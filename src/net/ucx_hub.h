/*
 * The UCX worker of this process for one network device, its peers and their endpoints; all nets over UCX share it. There are more
 * of them for a device, with numbers, where several threads of the process send and receive at once.
 *
 * Measured with UCX 1.13.1: a worker takes 4 descriptors and 5 ms, with shared memory 4 more and 4.1 MiB, and a connection over tcp
 * 0.1 MiB, 2 descriptors and up to 70 ms; a communicator has to do with less. So for a device there is one of each for a process
 * and a pair of processes, whatever the number of communicators, and one lock around the worker: communicators that different
 * threads use meet there for the length of a call into UCX.
 */
#ifndef PEALI_UCX_HUB_H
#define PEALI_UCX_HUB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/net.h"
#include "net/regions.h"
#include "net/ucx_library.h"
#include "net/ucx_rails.h"

enum {
    PEALI_UCX_BUCKETS = 1024,
    PEALI_UCX_ROUTES = 16, /* that the log tells of */
    PEALI_UCX_ID_BITS = 25,
    PEALI_UCX_FENCE = 0, /* id of active messages that say nothing */
};

/* A worker somewhere, of this process or another: what it tells of itself. */
typedef struct peali_ucx_card {
    char host[PEALI_NET_HOST], device[PEALI_UCX_DEVICE]; /* for people */
    uint64_t bytes;                                      /* of its address, which lies behind */
} peali_ucx_card;

typedef struct peali_ucx_peer {
    struct peali_ucx_peer *next;
    ucp_ep_h ep; /* made for the first message; NULL before */
    bool broken; /* UCX found that the connection is gone */
    uint64_t hash;
    peali_ucx_card card;
    unsigned char address[];
} peali_ucx_peer;

/* Of device memory that a net has mapped: whoever calls UCX goes through a door of what is mapped, as UCX may touch any of it. */
typedef struct peali_ucx_guest {
    struct peali_ucx_guest *next;
    const peali_net_door *door;
} peali_ucx_guest;

typedef struct peali_ucx_hub {
    struct peali_ucx_hub *next; /* of all */
    bool open;                  /* nets to come may join it */
    int number;                 /* among those of its device, from 0 */
    bool memory;                /* it has shared memory, too, to the processes of its host */
    bool copies;                /* of host memory, what was sent may be a copy of UCX's that has not left */
    const peali_ucx_library *ucp;
    pthread_mutex_t lock; /* of the worker, all that belongs to it, and peers: UCX is told that one thread at a time comes */
    ucp_context_h context;
    ucs_memory_type_t device; /* what device memory is to UCX: of the host, where it knows nothing of CUDA */
    peali_regions *regions;   /* of memory that is registered */
    ucp_worker_h worker;
    ucp_address_t *address; /* of the worker */
    peali_ucx_card card;
    bool spoilt; /* it may still write to memory that is its caller's again: who waits elsewhere leaves it alone */
    int nets; /* that share it */
    peali_ucx_guest *guests;
    const peali_net_door *through; /* of who has the lock; NULL: none */
    uint32_t visit;
    peali_ucx_peer *peers[PEALI_UCX_BUCKETS];
    uint64_t route[PEALI_UCX_ROUTES]; /* hashes of those that were new */
    int nroutes;
} peali_ucx_hub;

/* What UCX keeps beside each request: the chain of those under way in one net. */
typedef struct peali_ucx_pending {
    struct peali_ucx_pending *next, **from;
    peali_ucx_hub *hub;
} peali_ucx_pending;

/* Puts P, of UCX's request on HUB, into CHAIN; takes it out and gives the request back to UCX. HUB's lock is held. */
void peali_ucx_pending_begin(peali_ucx_pending *p, peali_ucx_pending **chain, peali_ucx_hub *hub);
void peali_ucx_pending_end(peali_ucx_pending *p);

/* A number that no other net of this process has. Threads: any. */
uint32_t peali_ucx_hub_id(void);

/*
 * This process's hub for number RAIL of RAILS, the first of them with shared memory, made where there is none. PEAL_OK;
 * PEAL_ERR_CONFIG no UCX, or none that works, as in a child of a process that has one; PEAL_ERR_MEMORY. RANK is for the log.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_ucx_hub_join(int rank, const peali_ucx_rails *rails, int rail, peali_ucx_hub **hub);

/*
 * The hub stays for nets to come, to the end of the process, unless it was retired: a peer may still be on its way out of the last
 * call, with a connection to here. Threads: any.
 */
void peali_ucx_hub_leave(peali_ucx_hub **hub);

/* Nets to come get another hub than this one. Threads: any. */
void peali_ucx_hub_retire(peali_ucx_hub *hub);

/* HUB's lock, and a door of its guests. Threads: any. */
void peali_ucx_hub_lock(peali_ucx_hub *hub);
void peali_ucx_hub_unlock(peali_ucx_hub *hub);

/* Threads: any. */
void peali_ucx_hub_admit(peali_ucx_hub *hub, peali_ucx_guest *guest, const peali_net_door *door);
void peali_ucx_hub_dismiss(peali_ucx_hub *hub, const peali_ucx_guest *guest);

/* The peer of that CARD, found or made; it lives as long as HUB. NULL: no memory. Threads: any. */
peali_ucx_peer *peali_ucx_hub_peer(peali_ucx_hub *hub, const peali_ucx_card *card, const void *address);

/* Gives PEER, which has none, or a broken one, an endpoint. HUB's lock is held. */
ucs_status_t peali_ucx_hub_connect(peali_ucx_hub *hub, peali_ucx_peer *peer);

/* Sends a message that says nothing by EP: UCX's request, NULL or an error. HUB's lock is held. */
ucs_status_ptr_t peali_ucx_hub_fence(const peali_ucx_hub *hub, ucp_ep_h ep);

/*
 * What UCX reaches PEER by, as "tcp/eth0 posix/memory", in TEXT; true the first time that HUB is asked about such a route. For the
 * log; it takes a while. HUB's lock is held, and PEER connected.
 */
bool peali_ucx_hub_new_route(peali_ucx_hub *hub, const peali_ucx_peer *peer, char *text, size_t bytes);

#endif
