/*
 * Messages of a GPU to ranks out of reach: what its kernels ask of the proxy, and the proxy's answers, in host memory that both
 * see. Plain structs of fixed layout, read by C and by CUDA.
 *
 * Each lane has a queue of orders, numbered on through all calls, from 1; numbers go round. Each half of an order has its number,
 * and the proxy, which knows the next one, waits for all of them: so none has to come before another, and a kernel is known by
 * nothing but what it writes here, also one of a graph that is run again. The messages lie elsewhere, in host memory or the GPU's:
 * for each lane two areas of what arrives, and then for each two of what is sent.
 *
 * Lines, which follow the post, lie there likewise, for what is too short to wait for a flag and then for data: each half has both,
 * as between GPUs. The proxy takes what is sent out of them as it comes, and lays what has arrived into them.
 */
#ifndef PEALI_POST_H
#define PEALI_POST_H

#include <stdint.h>

enum {
    PEALI_POST_LANES = 64,
    PEALI_POST_SLOTS = 64,  /* flags of an area; messages of a slice */
    PEALI_POST_ORDERS = 2 * PEALI_POST_SLOTS, /* of a lane, under way: those of two slices */
    PEALI_POST_UNIT = 16,   /* bytes; messages begin at multiples of it, and are as long */
    PEALI_POST_HALVES = 8,  /* of an order, each with a word of it */
};

/* The first unit of each message is the proxies': what the sender's says. Two calls that differ must not take each other's data. */
typedef struct peali_post_head {
    uint32_t signature, epoch;
    uint64_t bytes; /* of the message */
} peali_post_head;

typedef struct peali_post_order {
    uint32_t signature; /* of the call; never 0 */
    uint32_t epoch;     /* slices of this lane so far: of the sender and the receiver alike */
    uint32_t at, units; /* of the message and its head, from the start of the messages; lines: of them, from their start */
    uint32_t flag;      /* of lines; else an arrival sets flags[lane][epoch mod 2][slot] to this */
    uint16_t peer;      /* rank of the communicator */
    uint8_t slot;
    uint8_t lane;       /* of the algorithm */
    uint8_t sends;
    uint8_t lines;
    uint8_t pad[6];
} peali_post_order;

/* 4 bytes of data, and above them a flag; of an order: a word of it, and its number. */
typedef uint64_t peali_post_half;

typedef struct peali_post {
    peali_post_half orders[PEALI_POST_LANES][PEALI_POST_ORDERS][PEALI_POST_HALVES];
    uint32_t flags[PEALI_POST_LANES][2][PEALI_POST_SLOTS];
    struct {
        uint32_t number; /* orders up to this one are over */
        uint32_t pad[15];
    } over[PEALI_POST_LANES];
} peali_post;

#ifdef __cplusplus
static_assert(sizeof(peali_post_head) == PEALI_POST_UNIT && sizeof(peali_post_order) == 4 * PEALI_POST_HALVES &&
              sizeof(peali_post) % 1024 == 0, "layout");
#else
_Static_assert(sizeof(peali_post_head) == PEALI_POST_UNIT && sizeof(peali_post_order) == 4 * PEALI_POST_HALVES &&
               sizeof(peali_post) % 1024 == 0, "layout");
#endif

#endif
