/* Registering, as calls of all ranks: what one could not do, all say and return, so that none waits for another. */
#include "base/log.h"
#include "comm/device.h"

static_assert(PEALI_REGIONS_OFFERS == 64, "peal/peal.h says so, and a text below");

/* The device side is there, and nothing stands against it. */
static peal_status prepare(peal_comm *comm, const char *name, const peali_call *as)
{
    if (!comm || !peali_request_owns(comm) || comm->request.comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm ? comm->rank : -1, "peal_%s: %s", name, !comm ? "comm is NULL" :
                  comm->request.comm ? "another call on this communicator is in flight; wait for its request first" :
                  "this process is a child of the one that made the communicator; call there");
        return PEAL_ERR_INVALID;
    }
    if (comm->nranks > PEALI_CUDA_RANKS || comm->reach.nranks < comm->nranks) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_%s: %d of %d ranks are on this host, and device memory takes "
                  "at most %d ranks of one host", name, comm->reach.nranks, comm->nranks, PEALI_CUDA_RANKS);
        return PEAL_ERR_UNSUPPORTED;
    }
    peal_status status = peali_runner_failure(comm->runner);
    if (status == PEAL_OK)
        status = comm->device ? peali_device_ask(comm) : peali_device_open(comm, as);
    return status;
}

/* The worst that any rank has, when all have come. */
static peal_status agree(peal_comm *comm, const peali_call *as, peal_status mine, const char *what)
{
    int32_t status = mine, all[PEALI_CUDA_RANKS];
    peal_status met = peali_device_exchange(comm, as, &status, all, sizeof status);
    for (int r = 0; r < comm->nranks && met == PEAL_OK; r++)
        if (all[r] != PEAL_OK) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "rank %d %s; calls on it go through scratch on all ranks", r,
                      what);
            met = (peal_status)all[r];
        }
    return met;
}

static bool lies_here(const peal_comm *comm, const void *at, size_t bytes)
{
    int device;
    return at && bytes > 0 && peali_cuda_known(at, &device) == PEALI_MEMORY_DEVICE &&
           device == peali_team_device(comm->device->team);
}

peal_status peal_register(peal_comm *comm, void *at, size_t bytes)
{
    const peali_call as = {.kind = (peal_kind)PEALI_SIGNATURE_REGISTER};
    uint64_t views[PEALI_CUDA_RANKS];
    peal_status status = prepare(comm, "register", &as);
    if (status != PEAL_OK)
        return status;
    peali_regions_desk *desk = &comm->device->regions;
    bool right = lies_here(comm, at, bytes);
    if (right)
        (void)peali_regions_find(desk, at, bytes, true, views);
    status = agree(comm, &as, right ? PEAL_OK : PEAL_ERR_INVALID, "registers what is no memory of its device");
    if (status != PEAL_OK)
        return status;
    peali_regions_come_by(desk);
    status = agree(comm, &as, PEAL_OK, "came by"); /* all have */
    if (status == PEAL_OK)
        status = agree(comm, &as, peali_regions_find(desk, at, bytes, false, views) ? PEAL_OK : PEAL_ERR_UNSUPPORTED,
                       "registers what its peers cannot map: what cuMemAlloc or cudaMalloc gave has what that takes, and of that "
                       "64 allocations at a time may be mapped");
    return status;
}

peal_status peal_deregister(peal_comm *comm, void *at)
{
    const peali_call as = {.kind = (peal_kind)PEALI_SIGNATURE_REGISTER, .root = 1};
    peal_status status = prepare(comm, "deregister", &as);
    if (status != PEAL_OK)
        return status;
    peali_regions_desk *desk = &comm->device->regions;
    bool had = peali_regions_withdraw(desk, at);
    status = agree(comm, &as, had ? PEAL_OK : PEAL_ERR_INVALID, "ends the registration of what is not registered");
    peali_regions_come_by(desk);
    return status == PEAL_OK ? agree(comm, &as, PEAL_OK, "came by") : status;
}
