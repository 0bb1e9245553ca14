/* Which network devices a communicator's messages over UCX are spread over. */
#ifndef PEALI_RAILS_H
#define PEALI_RAILS_H

#include <peal/status.h>

#include "net/ucx_rails.h"
#include "topo/machine.h"

/*
 * Those of LIST, which lie below SYS ("/sys"), that WANTED (as PEAL_NET_DEVICES has it; NULL: auto) takes, in its order: by default
 * all of the best kind that are as fast as the fastest of it, so loopback only where there is nothing else. Near to PLACE.
 *
 * Returns: PEAL_OK; RAILS has one of "" where LIST has no network device; PEAL_ERR_CONFIG WANTED has an unknown name, or none is
 * left (logged). Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_rails_choose(const peali_ucx_list *list, const char *wanted, const char *sys,
                                               const peali_place *place, int rank, peali_ucx_rails *rails);

#endif
