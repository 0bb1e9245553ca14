/*
 * Bytes and peers: what a transport is. It knows neither schedules nor programs, and validates nothing.
 *
 * A net belongs to one rank of one communicator. Its functions are called by one thread at a time. Messages from one rank to
 * another with one tag arrive in the order they were sent; messages with different tags may overtake each other. A receive names
 * its peer and tag, and as a rule the exact length: there is no wildcard. Zero-length messages are messages.
 */
#ifndef PEALI_NET_H
#define PEALI_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

typedef struct peali_net peali_net;

/*
 * One send or receive under way: memory of the caller that the transport fills. It stays in place until test says it ended. Of a
 * net over another one that hands the request on, what is behind the words is its own.
 */
typedef struct peali_net_req {
    uint64_t word[6];
    struct peali_net_req *next;
    int64_t status;
} peali_net_req;

/* Tags are below 2^22: Open MPI's UCX PML ends at 2^23 - 1 (FACTS). The low bits are a slice, above them is a lane. */
enum { PEALI_NET_TAG_BITS = 22, PEALI_NET_SLICE_BITS = 16 };

/* Bytes of a host's name, for people: Linux has at most 64 characters. And of what describe says, with two of them. */
enum { PEALI_NET_HOST = 72, PEALI_NET_WAY = 240 };

/*
 * Between enter and leave, which gets what enter left in VISIT, a thread may touch a device, whatever else it does with others or
 * captures there. Any thread, also several at once.
 */
typedef struct peali_net_door {
    void *ctx;
    peal_status (*enter)(void *ctx, uint32_t *visit);
    void (*leave)(void *ctx, const uint32_t *visit);
} peali_net_door;

/* An allocation of a device, all of it. */
typedef struct peali_net_memory {
    void *at;
    size_t bytes;
    uint64_t id;         /* never another's */
    bool host_reads;     /* the host may touch it where it is */
    peali_net_door door; /* enter NULL: none is needed */
} peali_net_memory;

typedef struct peali_net_why {
    char text[256];
} peali_net_why;

struct peali_net {
    const char *name; /* "loop", "mpi", "ucx" */
    int rank, nranks;

    /*
     * Data of send and recv may lie in the memory of a device, too, and is taken from there as fast as from the host's. False: host
     * memory alone, so what lies elsewhere has to be staged. It may differ between ranks.
     */
    bool device_memory;

    /* Another thread may call its functions in turn with this one, but for progress; else the host library forbids that. */
    bool any_thread;

    /*
     * Where that goes which is said about calls: a net that also moves while peers are done with theirs and wait elsewhere, so that
     * nobody's call has to last for its sake. NULL: this one.
     */
    peali_net *aside;

    /* Network devices that slices take in turn; the same on all ranks once they met. 0 or 1: whatever the transport does. */
    int rails;

    /* What all ranks must know of this one before its first message; lengths may differ. 0 bytes on all ranks: nothing. */
    const void *card;
    size_t card_bytes;

    /*
     * Learns the cards of all ranks, which lie STRIDE bytes apart in rank order. PEAL_OK or an error that was logged;
     * PEAL_ERR_UNSUPPORTED: there is no way to one of them.
     */
    peal_status (*meet)(peali_net *net, const void *cards, size_t stride);

    /* Starts sending BYTES at DATA to PEER; DATA is untouched until test says it ended. PEAL_OK or an error that was logged. */
    peal_status (*send)(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req);

    /* Starts receiving exactly BYTES into DATA from PEER; likewise. Another length is PEAL_ERR_NET, at test at the latest. */
    peal_status (*recv)(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req);

    /* Likewise, but a shorter message will do; what came says itself how long it is. */
    peal_status (*recv_some)(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req);

    /* PEAL_OK: ended, never to be tested again; PEAL_IN_PROGRESS; or an error. Drives progress. */
    peal_status (*test)(peali_net *net, peali_net_req *req);

    /* As test, but drives nothing: for who asks for many at once, and drives by one of them. NULL: test is as quick. */
    peal_status (*peek)(peali_net *net, peali_net_req *req);

    /*
     * Forgets a request that test did not call ended. The message may or may not arrive. For calls that failed, and channels that
     * nobody will use again. True: its data is not touched after the return. False: it may be, at any time; what is not the user's
     * has to stay for good.
     */
    bool (*cancel)(peali_net *net, peali_net_req *req);

    /* Lets messages of other communicators and of the host library move; called now and then by every loop that waits. */
    peal_status (*progress)(peali_net *net);

    /* PEAL_OK once every send that test called ended will reach its receiver without further calls here; else PEAL_IN_PROGRESS. */
    peal_status (*flush)(peali_net *net);

    /* Says in TEXT how a message to PEER, or from it, goes: devices and hosts. NULL: nothing to be said. */
    void (*describe)(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes);

    /*
     * Registers MEMORY: from now until unmap, for which no request is under way that touches it, messages may lie there, and every
     * thread that calls the net goes through the door. One at a time. PEAL_OK; or WHY says what keeps the transport from it:
     * PEAL_ERR_UNSUPPORTED, PEAL_ERR_NET, PEAL_ERR_MEMORY.
     * NULL: nothing has to be registered, and messages may lie where the host, or with device_memory a device, can read them.
     */
    peal_status (*map)(peali_net *net, const peali_net_memory *memory, peali_net_why *why);
    void (*unmap)(peali_net *net);

    /*
     * A call failed on its way: nets that are made from now on get connections of their own, as those of this one may hold its
     * messages back, or be broken. Any thread, also beside other calls. NULL: they share nothing, or nothing can be done.
     */
    void (*forsake)(peali_net *net);

    /*
     * Number NUMBER, from 1, of the nets beside this one, with the same ranks and connections of its own: for another thread, as
     * what it takes to move a message bounds its speed. Its card is exchanged, too. NULL: nothing would be gained.
     */
    peal_status (*beside)(const peali_net *net, int number, peali_net **another);

    /* Frees the net. No request is under way, unless the communicator failed. */
    void (*destroy)(peali_net *net);
};

/* For whoever learns that a call over NET failed with STATUS: forsakes it where its connections may be what failed. */
static inline void peali_net_failed(peali_net *net, peal_status status)
{
    if (net->forsake && (status == PEAL_ERR_TIMEOUT || status == PEAL_ERR_NET))
        net->forsake(net);
}

#endif
