/* Memory of a device that a net's messages may lie in: registered with UCX for each rail, and kept in its hub's cache. */
#ifndef PEALI_UCX_MEMORY_H
#define PEALI_UCX_MEMORY_H

#include "net/net.h"
#include "net/ucx_hub.h"

/* What a net has mapped; zeroed: nothing. */
typedef struct peali_ucx_memory {
    peali_net_memory mapped;
    const peali_region *regions[PEALI_UCX_RAILS];
    peali_ucx_guest guests[PEALI_UCX_RAILS]; /* of the hubs */
} peali_ucx_memory;

/* Gives HUB, whose context there is, its cache, and finds out what device memory is to UCX. */
ucs_status_t peali_ucx_memory_open(peali_ucx_hub *hub);

/* For all of the RAILS, as peali_net's map and unmap. */
PEAL_MUST_CHECK peal_status peali_ucx_memory_map(peali_ucx_memory *m, peali_ucx_hub *const *hubs, int rails, int rank,
                                                 const peali_net_memory *memory, peali_net_why *why);
void peali_ucx_memory_unmap(peali_ucx_memory *m, peali_ucx_hub *const *hubs);

/* What UCX is to know of the memory at DATA, of a message by RAIL. */
ucp_request_param_t peali_ucx_memory_param(const peali_ucx_memory *m, const peali_ucx_hub *hub, int rail, const void *data);

#endif
