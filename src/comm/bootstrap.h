/*
 * What a communicator needs to start: an allgather of small blobs among its ranks, and one word that all agree on.
 */
#ifndef PEALI_BOOTSTRAP_H
#define PEALI_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>

#include <peal/status.h>

typedef struct peali_bootstrap {
    int rank, nranks;
    bool threads; /* the ranks are threads of one process; else each is a process */
    int place, places; /* this process among all that were started together, alike in every communicator: PEAL_NODES counts them */
    const char *name; /* the host library's, of the communicator; NULL: none */
    /* Gathers BYTES of every rank into ALL, in rank order; blocks until all have called. */
    peal_status (*allgather)(void *ctx, const void *mine, void *all, size_t bytes);
    /* The least (worst) STATUS of any rank; blocks until all have called. It needs no memory, which may be what a rank lacks. */
    peal_status (*agree)(void *ctx, peal_status status);
    void *ctx;
} peali_bootstrap;

#endif
