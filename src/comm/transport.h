/* Which transport a communicator has: a pure function of PEAL_NET, its layout, and what all its ranks have. */
#ifndef PEALI_TRANSPORT_H
#define PEALI_TRANSPORT_H

#include "comm/comm.h"
#include "exec/run.h"
#include "net/ucx_rails.h"

/*
 * The network devices that this rank would use, of UCX. PEAL_ERR_CONFIG: they are not what was asked for (logged); or there is no
 * UCX: WHY (a constant text; else NULL). Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_transport_rails(int rank, peali_ucx_rails *rails, const char **why);

/* The name of the transport that LAYOUT, or else PEAL_NET, asks for; NULL: none. Threads: any. */
const char *peali_transport_asked(const peali_layout *layout);

/*
 * Puts the transport that LAYOUT or PEAL_NET asks for over *NET, the one that the communicator was started over; by default that is
 * the one. *NET is always what the caller owns. PEAL_OK; PEAL_ERR_CONFIG it cannot be had here; PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_transport_open(const peali_layout *layout, peali_net **net);

/*
 * Where the ranks are on several hosts, and nothing was asked for: puts UCX over *NET if all ranks have it, and it leads from each
 * host to the next. MOST is the length of the longest card, and 0 where the ranks have met by them. *NET is always what the caller
 * owns. All ranks return alike. Collective: yes.
 */
PEAL_MUST_CHECK peal_status peali_transport_between_hosts(const peali_bootstrap *boot, const peali_layout *layout, peali_net **net,
                                                          uint64_t *most);

/*
 * Lets NET learn the cards of all ranks, the longest of which has MOST bytes. PEAL_ERR_CONFIG: it was asked for, and does not lead
 * to all of them. All ranks return alike. Collective: yes.
 */
PEAL_MUST_CHECK peal_status peali_transport_meet(const peali_bootstrap *boot, peali_net *net, size_t most);

/*
 * Which calls have a thread for messages that go by *NET, on a rank that has so many CORES. *NET is then one that others may call
 * meanwhile, and always what the caller owns. Ranks may differ. Threads: any.
 */
peali_courier_use peali_transport_courier(peali_net **net, int cores);

#endif
