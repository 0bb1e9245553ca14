/* A transport that was asked for and cannot be had is an error: another one in its place would say nothing of it. */
#include "comm/transport.h"

#include <string.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/log.h"
#include "net/net_fault.h"
#include "net/net_ucx.h"

peal_status peali_transport_open(const peali_layout *layout, peali_net **net)
{
    const char *name = layout->net ? layout->net : peali_config_get()->net;
    peal_status status = PEAL_OK;
    if (name && strcmp(name, "ucx") == 0) {
        status = peali_net_ucx_create(*net, net);
    } else if (name && strcmp(name, (*net)->name) != 0) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, (*net)->rank,
                  "PEAL_NET %s: the ranks of this communicator met over %s; take %s or ucx", name, (*net)->name, (*net)->name);
        status = PEAL_ERR_CONFIG;
    }
    if (status == PEAL_OK && layout->fault)
        status = peali_net_fault_create(*net, layout->fault, net);
    return status;
}

peal_status peali_transport_meet(const peali_bootstrap *boot, peali_net *net, size_t most)
{
    if (most == 0)
        return PEAL_OK;
    char *mine = peali_alloc(1, most), *all = peali_alloc((size_t)boot->nranks, most);
    peal_status status = boot->agree(boot->ctx, mine && all ? PEAL_OK : PEAL_ERR_MEMORY);
    if (status == PEAL_OK) {
        memcpy(mine, net->card, net->card_bytes);
        status = boot->allgather(boot->ctx, mine, all, most);
        status = boot->agree(boot->ctx, status == PEAL_OK ? net->meet(net, all, most) : status);
    }
    peali_free(mine);
    peali_free(all);
    return status;
}
