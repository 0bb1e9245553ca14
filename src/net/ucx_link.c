/*
 * What UCX has copied and calls sent may still wait here for room in a socket (FACTS). A fence, a message that says nothing, queues
 * up behind it: when it has left, so has all before it. UCX's own flush waits for more, and that is fatal over tcp: for the peer's
 * UCX to answer, every time, while the peer may be done with this call and wait for this rank outside of Peal.
 *
 * A fence is a message more at either end, which takes as long as a small message itself. What UCX sends without a copy needs none:
 * it cannot call that sent before the system has taken it all.
 */
#include "net/ucx_link.h"

#include "base/clock.h"

/* UCX tells that a connection is broken in the second pass after the one that found it so. */
enum { LOOKS = 4 };
static const int64_t RESTED_NS = 100000000; /* who sent so lately has found out in the call before */

/* UCX takes what it is given, and loses it, before it has looked. */
static void look(const peali_ucx_hub *hub, const peali_ucx_link *link)
{
    bool rested = link->peer->ep && peali_clock_ns() - link->flushed_ns > RESTED_NS;
    for (int i = 0; rested && i < LOOKS && !link->peer->broken; i++)
        hub->ucp->ucp_worker_progress(hub->worker);
}

/* In the middle of a call, what comes next would be taken for what was lost. */
ucs_status_t peali_ucx_link_connect(peali_ucx_hub *hub, peali_ucx_link *link, bool *is_new)
{
    *is_new = false;
    if (link->unflushed)
        return link->ep == link->peer->ep && !link->peer->broken ? UCS_OK : UCS_ERR_CONNECTION_RESET;
    look(hub, link);
    if (link->peer->ep && !link->peer->broken)
        return UCS_OK;
    *is_new = true;
    return peali_ucx_hub_connect(hub, link->peer);
}

bool peali_ucx_link_use(peali_ucx_link *link, bool copied)
{
    bool first = !link->unflushed;
    link->copied = copied || (link->copied && !first);
    link->behind |= copied;
    link->unflushed = true;
    link->ep = link->peer->ep;
    return first;
}

static ucs_status_t fence_state(const peali_ucx_hub *hub, peali_ucx_link *link, void **fence)
{
    if (!*fence && (link->ep != link->peer->ep || link->peer->broken))
        return UCS_ERR_CONNECTION_RESET;
    if (!link->copied)
        return UCS_OK;
    if (!*fence) {
        link->behind = false;
        ucs_status_ptr_t answer = peali_ucx_hub_fence(hub, link->ep);
        if (!UCS_PTR_IS_PTR(answer))
            return UCS_PTR_RAW_STATUS(answer);
        *fence = answer;
    }
    hub->ucp->ucp_worker_progress(hub->worker);
    return hub->ucp->ucp_request_check_status(*fence);
}

ucs_status_t peali_ucx_link_flush(peali_ucx_hub *hub, peali_ucx_link *link, void **fence)
{
    ucs_status_t status = fence_state(hub, link, fence);
    if (status != UCS_INPROGRESS && *fence) {
        hub->ucp->ucp_request_free(*fence);
        *fence = NULL;
    }
    if (status == UCS_OK && link->behind) /* another thread sent meanwhile */
        return UCS_INPROGRESS;
    if (status == UCS_OK) {
        link->unflushed = false;
        link->flushed_ns = peali_clock_ns();
    }
    return status;
}
