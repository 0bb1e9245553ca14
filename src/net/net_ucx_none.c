/* What a build without UCX answers. */
#include "base/log.h"
#include "net/net_ucx.h"

static const char none[] = "this build has no UCX: build with UCX 1.13 or newer (meson -Ducx=enabled)";

const peali_ucx_list *peali_net_ucx_devices(const char **why)
{
    *why = none;
    return NULL;
}

bool peali_net_ucx_there(void)
{
    return false;
}

peal_status peali_net_ucx_open(int rank, const peali_ucx_rails *rails)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s", none);
    return PEAL_ERR_CONFIG;
}

peal_status peali_net_ucx_create(peali_net *host, const peali_ucx_rails *rails, peali_net **net)
{
    return peali_net_ucx_open(host->rank, rails);
}

peali_net *peali_net_ucx_undo(peali_net **net)
{
    return *net;
}

void peali_net_ucx_drive(void)
{
}
