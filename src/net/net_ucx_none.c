/* What a build without UCX answers. */
#include "base/log.h"
#include "net/net_ucx.h"

peal_status peali_net_ucx_create(peali_net *host, peali_net **net)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, host->rank,
              "PEAL_NET ucx: this build has no UCX; take PEAL_NET=%s, or build with UCX 1.13 or newer (meson -Ducx=enabled)",
              host->name);
    return PEAL_ERR_CONFIG;
}
