/*
 * Messages over UCX, from libucp.so.0 as this process finds or already has it: one UCX worker a process, shared by all its nets.
 * A build without UCX has the same function, which says so.
 */
#ifndef PEALI_NET_UCX_H
#define PEALI_NET_UCX_H

#include "net/net.h"

/*
 * A net with the ranks of HOST, the transport that the communicator was started over. It owns HOST from here on and drives it along
 * in `progress`, as the host library's own messages must move; on failure HOST stays the caller's. All ranks exchange their cards
 * before the first message.
 *
 * Returns: PEAL_OK; PEAL_ERR_CONFIG no UCX 1.13 or newer here, or it finds no network; PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_net_ucx_create(peali_net *host, peali_net **net);

#endif
