/*
 * Communicators from inside: what libpeal_mpi needs beyond the public calls. These symbols are exported for it alone.
 */
#ifndef PEALI_COMM_H
#define PEALI_COMM_H

#include <peal/peal.h>

#include "comm/bootstrap.h"
#include "net/net.h"

/*
 * Makes a communicator over NET, which it owns from here on, also on failure. BOOT is not used after the return.
 *
 * Returns:    PEAL_OK; PEAL_ERR_CONFIG; PEAL_ERR_MEMORY. All ranks return the same.
 * Collective: yes.    Threads: one per communicator.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peali_comm_create(const peali_bootstrap *boot, peali_net *net, peal_comm **comm);

/* Calls done on COMM so far by algorithm: NAME and CALLS of entry INDEX 0, 1, ...; 0 past the last. */
PEAL_PUBLIC int peali_comm_tally(const peal_comm *comm, int index, peal_kind *kind, const char **name, long *calls);

#endif
