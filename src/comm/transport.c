/*
 * A transport that was asked for and cannot be had is an error: another one in its place would say nothing of it. One that was not
 * asked for is done without, by all ranks.
 */
#include "comm/transport.h"

#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "comm/rails.h"
#include "net/net_fault.h"
#include "net/net_shared.h"
#include "net/net_ucx.h"

const char *peali_transport_asked(const peali_layout *layout)
{
    return layout->net ? layout->net : peali_config_get()->net;
}

peal_status peali_transport_rails(int rank, peali_ucx_rails *rails, const char **why)
{
    peali_place place;
    const peali_ucx_list *list = peali_net_ucx_devices(why);
    if (!list)
        return PEAL_ERR_CONFIG;
    peali_machine_place(&place);
    return peali_rails_choose(list, peali_config_get()->net_devices, "/sys", &place, rank, rails);
}

static peal_status open_ucx(peali_net **net)
{
    peali_ucx_rails rails;
    const char *why;
    int rank = (*net)->rank;
    peal_status status = peali_transport_rails(rank, &rails, &why);
    if (why)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s; take PEAL_NET=%s", why, (*net)->name);
    return status == PEAL_OK ? peali_net_ucx_create(*net, &rails, net) : status;
}

peal_status peali_transport_open(const peali_layout *layout, peali_net **net)
{
    const char *name = peali_transport_asked(layout);
    peal_status status = PEAL_OK;
    if (name && strcmp(name, "ucx") == 0) {
        status = open_ucx(net);
    } else if (name && strcmp(name, (*net)->name) != 0) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, (*net)->rank,
                  "PEAL_NET %s: the ranks of this communicator met over %s; take %s or ucx", name, (*net)->name, (*net)->name);
        status = PEAL_ERR_CONFIG;
    }
    if (status == PEAL_OK && layout->fault)
        status = peali_net_fault_create(*net, layout->fault, net);
    return status;
}

/* The length of the longest card. */
static peal_status longest(const peali_bootstrap *boot, const peali_net *net, uint64_t *most)
{
    uint64_t mine = net->card_bytes, *all = peali_alloc((size_t)boot->nranks, sizeof *all);
    peal_status status = boot->agree(boot->ctx, all ? PEAL_OK : PEAL_ERR_MEMORY);
    if (status == PEAL_OK)
        status = boot->allgather(boot->ctx, &mine, all, sizeof *all);
    *most = 0;
    for (int r = 0; r < boot->nranks && status == PEAL_OK; r++)
        *most = all[r] > *most ? all[r] : *most;
    peali_free(all);
    return status;
}

/* What did not open, or did not lead to all hosts, is not tried again, so that it is said once. */
static int barren; /* relaxed: a rank more or less that tries */

/* What this rank would use of UCX, opened. PEAL_ERR_UNSUPPORTED: WHY it has none. */
static peal_status have_ucx(int rank, peali_ucx_rails *rails, const char **why)
{
    const bool tries = !peali_load_relaxed(&barren);
    peal_status status = peali_transport_rails(rank, rails, why);
    if (status != PEAL_OK && !*why)
        return status;
    if (status == PEAL_OK && tries && peali_net_ucx_open(rank, rails) == PEAL_OK)
        return PEAL_OK;
    if (status != PEAL_OK && tries && peali_net_ucx_there())
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s", *why);
    peali_store_relaxed(&barren, 1);
    *why = *why ? *why : "it did not work on this rank";
    return PEAL_ERR_UNSUPPORTED;
}

/* Puts UCX over *NET where all ranks have it, which they agree on. */
static peal_status rather_ucx(const peali_bootstrap *boot, peali_net **net)
{
    peali_ucx_rails rails;
    const char *why;
    peal_status mine = have_ucx(boot->rank, &rails, &why), status = boot->agree(boot->ctx, mine);
    if (status == PEAL_ERR_UNSUPPORTED) {
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, boot->rank, "messages between hosts go over %s: no UCX, %s", (*net)->name,
                  why ? why : "on another rank");
        return PEAL_OK;
    }
    if (status == PEAL_OK) {
        mine = peali_net_ucx_create(*net, &rails, net);
        status = boot->agree(boot->ctx, mine);
    }
    if (status != PEAL_OK && mine == PEAL_OK)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, boot->rank, "no communicator: another rank has %s", peal_status_text(status));
    return status;
}

/* PEAL_ERR_UNSUPPORTED: NET does not lead to all of them. */
static peal_status meet(const peali_bootstrap *boot, peali_net *net, size_t most)
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

peal_status peali_transport_meet(const peali_bootstrap *boot, peali_net *net, size_t most)
{
    peal_status status = meet(boot, net, most);
    return status == PEAL_ERR_UNSUPPORTED ? PEAL_ERR_CONFIG : status; /* of what was asked for */
}

peal_status peali_transport_between_hosts(const peali_bootstrap *boot, const peali_layout *layout, peali_net **net, uint64_t *most)
{
    peali_net *const before = *net;
    if (peali_transport_asked(layout) || layout->fault)
        return PEAL_OK;
    uint64_t cards = 0;
    peal_status status = rather_ucx(boot, net);
    if (status != PEAL_OK || *net == before)
        return status;
    status = longest(boot, *net, &cards);
    if (status == PEAL_OK)
        status = meet(boot, *net, (size_t)cards);
    if (status == PEAL_ERR_UNSUPPORTED) {
        *net = peali_net_ucx_undo(net);
        peali_store_relaxed(&barren, 1);
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, boot->rank, "messages between hosts go over %s: ucx does not lead to all of them",
                  before->name);
        return PEAL_OK;
    }
    if (status == PEAL_OK)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, boot->rank, "messages between hosts go over ucx: all ranks have it");
    *most = 0;
    return status;
}

/*
 * A rank's core, and the thread's. Where ranks and threads take all cores of a virtual machine, calls of 64 MiB take 0.6 to 0.95 of
 * the time, or, while its host keeps cores back for others (steal), 2 to 6 times as long: they find out (exec/trial.h).
 */
enum { COURIER_CORES = 2 };

peali_courier_use peali_transport_courier(peali_net **net, int cores)
{
    const int asked = peali_config_get()->progress_thread;
    const bool gains = (*net)->beside && cores >= COURIER_CORES;
    static int told; /* in this process */
    if (asked > 0 && !(*net)->any_thread && peali_add_relaxed(&told, 1) == 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, (*net)->rank, "PEAL_PROGRESS_THREAD=1: messages over %s are for one thread; "
                  "start MPI with MPI_THREAD_MULTIPLE, or take PEAL_NET=ucx", (*net)->name);
    if (!(*net)->any_thread || asked == 0 || (asked < 0 && !gains))
        return PEALI_COURIER_OFF;
    if (!(*net)->aside && peali_net_shared_create(*net, net) != PEAL_OK) /* what ranks say about calls goes this way, too */
        return PEALI_COURIER_OFF;
    return asked > 0 ? PEALI_COURIER_ON : PEALI_COURIER_AUTO;
}
