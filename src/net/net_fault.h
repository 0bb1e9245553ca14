/*
 * Wraps a transport and does what networks do, on purpose: it delays, lets messages of different tags overtake, and fails. For
 * tests.
 */
#ifndef PEALI_NET_FAULT_H
#define PEALI_NET_FAULT_H

#include <stdbool.h>

#include "net/net.h"

/* What goes wrong, the same for the same seed and rank. Ranks may differ. */
typedef struct peali_fault {
    uint64_t seed;
    int delay;       /* a send or receive is held back for fewer than so many calls of test and progress; 0: not at all */
    int64_t fail_at; /* the n-th operation from 1 fails: a send, a receive, the end of either, or the end of a flush; 0: none */
    bool lasting;    /* and so do all that follow it */
} peali_fault;

/* A net over INNER and of its name, which it owns from here on, but on failure. PEAL_OK or PEAL_ERR_MEMORY. Threads: any. */
PEAL_MUST_CHECK peal_status peali_net_fault_create(peali_net *inner, const peali_fault *fault, peali_net **net);

#endif
