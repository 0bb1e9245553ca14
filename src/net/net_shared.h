/* Wraps a transport for two threads: that of a rank's calls on host memory, and the proxy of its GPU. */
#ifndef PEALI_NET_SHARED_H
#define PEALI_NET_SHARED_H

#include "net/net.h"

/*
 * A net over INNER and of its name, which it owns from here on, but on failure; what INNER was asked for goes on under it, and
 * where INNER is such a net, that is taken. Its functions may be called by any thread at any time, but for one request by one.
 * PEAL_OK or PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_net_shared_create(peali_net *inner, peali_net **net);

#endif
