/* Ranks as threads of one process: the transport of tests and of TSan, and of peal_threads_create. */
#ifndef PEALI_NET_LOOP_H
#define PEALI_NET_LOOP_H

#include <peal/peal.h>

#include "net/net.h"

/* The net of RANK over THREADS; one for each communicator made on it, in the same order on all ranks. Threads: one per rank. */
PEAL_MUST_CHECK peal_status peali_net_loop_create(peal_threads *threads, int rank, peali_net **net);

/* Gathers BYTES of every rank in rank order; blocks until all have called. Threads: one per rank. */
PEAL_MUST_CHECK peal_status peali_threads_allgather(peal_threads *threads, int rank, const void *mine, void *all, size_t bytes);

/* The least STATUS of any rank; blocks until all have called. Threads: one per rank. */
PEAL_MUST_CHECK peal_status peali_threads_agree(peal_threads *threads, int rank, peal_status status);

int peali_threads_size(const peal_threads *threads);

#endif
