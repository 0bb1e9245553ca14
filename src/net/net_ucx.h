/*
 * Messages over UCX, from libucp.so.0 as this process finds or already has it: one UCX worker a process and network device, shared
 * by all its nets. A build without UCX has the same functions, which say so.
 */
#ifndef PEALI_NET_UCX_H
#define PEALI_NET_UCX_H

#include "net/net.h"
#include "net/ucx_rails.h"

/*
 * The devices that UCX would use here by itself, memory among them, sorted by name; the first call in a process takes 10 ms. NULL:
 * WHY (a constant text) there is no UCX 1.13 or newer, or none that works. Threads: any.
 */
const peali_ucx_list *peali_net_ucx_devices(const char **why);

/* Is there UCX 1.13 or newer, whether or not it works? Threads: any. */
bool peali_net_ucx_there(void);

/*
 * Opens what this process's nets by RAILS share, which is what may fail of them. It stays for those to come. PEAL_OK;
 * PEAL_ERR_CONFIG it finds no network, or no descriptors for connections; PEAL_ERR_MEMORY. Both are logged. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_net_ucx_open(int rank, const peali_ucx_rails *rails);

/*
 * A net with the ranks of HOST, the transport that the communicator was started over. It owns HOST from here on and drives it along
 * in `progress`, as the host library's own messages must move; on failure HOST stays the caller's. All ranks exchange their cards
 * before the first message; then RAILS, which may differ, are as many as the least of any rank, or those whose names all have.
 *
 * Returns: PEAL_OK; PEAL_ERR_CONFIG no UCX 1.13 or newer here, or it finds no network; PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_net_ucx_create(peali_net *host, const peali_ucx_rails *rails, peali_net **net);

/* Frees NET, which nothing was sent over, and gives its host back. */
peali_net *peali_net_ucx_undo(peali_net **net);

/*
 * Lets the messages of all this process' nets over UCX move: for who waits in another communicator, while a peer cannot leave its
 * last call over UCX before this process has taken in what it sent. Threads: any.
 */
void peali_net_ucx_drive(void);

#endif
