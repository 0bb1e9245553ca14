/*
 * The way from one net over UCX to a worker of a peer: an endpoint, which nets of this process share, and whether all that this net
 * has sent by it has left.
 */
#ifndef PEALI_UCX_LINK_H
#define PEALI_UCX_LINK_H

#include "net/ucx_hub.h"

typedef struct peali_ucx_link {
    peali_ucx_peer *peer;
    bool unflushed;
    bool copied;        /* UCX may have copies of what was sent since the last flush */
    bool behind;        /* and of what was sent behind the fence that is under way */
    ucp_ep_h ep;        /* that went by it */
    int64_t flushed_ns; /* when that was */
} peali_ucx_link;

/*
 * Sees to it that LINK has an endpoint; IS_NEW: it has got one now. An endpoint that broke is replaced where all that was sent
 * before had left; else UCS_ERR_CONNECTION_RESET. HUB's lock is held.
 */
ucs_status_t peali_ucx_link_connect(peali_ucx_hub *hub, peali_ucx_link *link, bool *is_new);

/* Something is sent by LINK, of which UCX takes a copy, perhaps, or none. True: the first since the last flush. */
bool peali_ucx_link_use(peali_ucx_link *link, bool copied);

/*
 * UCS_OK once what was sent by LINK has left; UCS_INPROGRESS, then *FENCE, NULL at first, is a request of UCX, or NULL: there is to
 * be another one; or an error. HUB's lock is held.
 */
ucs_status_t peali_ucx_link_flush(peali_ucx_hub *hub, peali_ucx_link *link, void **fence);

#endif
