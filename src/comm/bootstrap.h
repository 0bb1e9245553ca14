/*
 * The one thing a communicator needs to start: an allgather of small blobs among its ranks.
 */
#ifndef PEALI_BOOTSTRAP_H
#define PEALI_BOOTSTRAP_H

#include <stddef.h>

#include <peal/status.h>

typedef struct peali_bootstrap {
    int rank, nranks;
    /* Gathers BYTES of every rank into ALL, in rank order; blocks until all have called. */
    peal_status (*allgather)(void *ctx, const void *mine, void *all, size_t bytes);
    void *ctx;
} peali_bootstrap;

#endif
