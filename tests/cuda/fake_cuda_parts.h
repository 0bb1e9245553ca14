/* What the files of the fake driver share. One lock guards all of it. */
#ifndef FAKE_CUDA_PARTS_H
#define FAKE_CUDA_PARTS_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/call.h"
#include "fake_cuda.h"

enum {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
    MAP_REFUSED = 205, ALREADY_MAPPED = 208, PEER_UNSUPPORTED = 217, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
    PEER_ALREADY = 704, REGISTERED = 712, NOT_REGISTERED = 713, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907,
    WRONG_THREAD = 908,
    DEVICES = 16,
};

/* The primary context of a device; the fake has no others. */
struct CUctx_st {
    int device;
    int retained;
    bool reaches[DEVICES]; /* peer access is enabled */
    size_t used;           /* bytes of device memory */
    uint64_t queued, begun; /* operations that its one connection got, and that have begun */
    bool fetching;          /* a thread copies to pageable memory */
    struct CUstream_st *legacy;
};

enum { FAKE_AFTER = 32 };

/* A moment in a stream: the end of its operation number N. */
typedef struct fake_moment {
    struct CUstream_st *stream;
    uint64_t n;
} fake_moment;

typedef struct fake_op {
    enum { KERNEL, COPY, SET, NOTHING, END } kind;
    const char *kernel;
    unsigned grid, block;
    peali_cuda_call call;
    fake_work *work; /* in place of Peal's kernel */
    char parameters[128];
    uint64_t *stamp_ns; /* gets the time when it ran */
    peali_cu_ptr to, from;
    size_t bytes;
    unsigned char value;
    fake_moment after[FAKE_AFTER];
    int nafter;
    uint64_t turn; /* in its context's one connection; 0: any time */
    struct fake_op *next;
} fake_op;

/* Nodes of a graph, by their numbers, that what comes next depends on. */
typedef struct fake_tail {
    int n, nodes[FAKE_AFTER];
} fake_tail;

struct CUgraphNode_st {
    fake_op op;
    struct CUstream_st *stream; /* it was captured on */
    fake_tail before;
    struct CUgraphNode_st *next;
};
struct CUgraph_st {
    fake_node first, last;
    int n;
    struct CUstream_st *origin; /* its capture began there */
};
typedef struct fake_capture {
    uint64_t id;
    peali_cu_enum mode;
    pthread_t thread;
    peali_cu_strm origin;
    bool invalid;
    fake_graph graph;
    struct fake_capture *next;
} fake_capture;

/* Kept for ever: events and operations name it. */
struct CUstream_st {
    struct CUctx_st *context;
    bool blocking; /* waits for the legacy stream, which waits for it */
    bool destroyed;
    fake_op *first, **last;
    uint64_t given, done;
    pthread_cond_t turn;    /* its thread waits for what it may begin, */
    pthread_cond_t changed; /* and others for what it has done */
    fake_capture *capture;
    uint64_t captured; /* operations in that capture, */
    uint64_t joined;   /* and how many of them another stream of it waits for; */
    fake_tail tail;    /* of its graph */
    struct CUstream_st *next;
};

extern pthread_mutex_t fake_lock;

/* Every function begins with it: 0, or what the function fails with. */
peali_cu_result fake_enter(const char *symbol);
#define ENTER(symbol)                                                                                                             \
    do {                                                                                                                          \
        peali_cu_result entered_ = fake_enter(#symbol);                                                                           \
        if (entered_ != 0)                                                                                                        \
            return entered_;                                                                                                      \
    } while (0)

/* Likewise for one that waits, or takes effect at once and not in a stream: a capture may forbid it. */
peali_cu_result fake_unsafe(void);
#define ENTER_UNSAFE(symbol)                                                                                                      \
    do {                                                                                                                          \
        ENTER(symbol);                                                                                                            \
        peali_cu_result forbidden_ = fake_unsafe();                                                                               \
        if (forbidden_ != 0)                                                                                                      \
            return forbidden_;                                                                                                    \
    } while (0)

/* The thread's context, or NULL. */
struct CUctx_st *fake_current(void);

/* Can the device of CONTEXT access the BYTES at AT? The lock is held. */
bool fake_reaches(const struct CUctx_st *context, peali_cu_ptr at, size_t bytes);

/* Is AT memory of the program that the driver does not know? The lock is held. */
bool fake_pageable(peali_cu_ptr at);

/* Is AT memory of another device than CONTEXT's? The lock is held. */
bool fake_foreign(const struct CUctx_st *context, peali_cu_ptr at);

/* The value of the environment variable NAME. */
int fake_number(const char *name, int otherwise);

/* Is FAKE_CUDA_P2P that? And is it one of those with which kernels cannot reach another device? */
bool fake_p2p(const char *word);
bool fake_barred(void);

/* The stream that a handle means, or NULL where there is none. The lock is held, as in the next four. */
peali_cu_strm fake_find(peali_cu_strm handle);

/* O runs in S (NULL: that is an error), or becomes a node of what is captured. */
peali_cu_result fake_put(peali_cu_strm s, const fake_op *o);

/* O becomes a launch of a kernel that is not Peal's, if it is one. */
bool fake_other(fake_op *o, void **parameters);

/* A stream of CONTEXT; and O runs in S, which is not captured, after all that it names. */
struct CUstream_st *fake_make(struct CUctx_st *context, bool blocking);
void fake_give(peali_cu_strm s, const fake_op *o);

/* O is to come after operation number N of STREAM. */
void fake_come_after(fake_op *o, peali_cu_strm stream, uint64_t n);

/* O becomes a node of what S, which is captured, is part of. */
void fake_capture_node(peali_cu_strm s, const fake_op *o);
void fake_join_tail(fake_tail *tail, const fake_tail *with);
void fake_free_nodes(fake_graph graph);

#endif
