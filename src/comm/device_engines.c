/* The areas that copy engines work in (PEAL_ENGINES), which all ranks make at the first call that takes them. */
#include "cuda/engines.h"

#include "base/config.h"
#include "base/log.h"
#include "comm/device.h"

/* What a rank tells the others, as bytes. */
typedef struct card {
    int32_t status, spare;
    peali_team_region region;
} card;

static peal_status worst(const peal_comm *comm, const card *all)
{
    for (int r = 0; r < comm->nranks; r++)
        if (all[r].status != PEAL_OK)
            return (peal_status)all[r].status;
    return PEAL_OK;
}

/* PEAL_OK, and *ALL well: each rank has mapped the areas of the others. Else what no rank can go on from. */
static peal_status meet(peal_comm *comm, const peali_call *c, peal_status *well)
{
    peali_team *team = comm->device->team;
    peali_team_region regions[PEALI_CUDA_RANKS];
    card mine = {0}, all[PEALI_CUDA_RANKS];
    mine.status = peali_engines_open(team, (size_t)peali_config_get()->engines_bytes, &mine.region);
    peal_status status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    if (status != PEAL_OK)
        return status;
    *well = worst(comm, all);
    if (*well == PEAL_OK) {
        for (int r = 0; r < comm->nranks; r++)
            regions[r] = all[r].region;
        mine.status = peali_engines_meet(team, regions);
        status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
        if (status != PEAL_OK)
            return status;
        *well = worst(comm, all);
        if (*well == PEAL_OK)
            return PEAL_OK;
        peali_engines_leave(team);
        status = peali_device_exchange(comm, c, &mine, all, sizeof mine); /* nobody maps this rank's any more */
    }
    if (status == PEAL_OK)
        peali_engines_drop(team);
    return status;
}

peal_status peali_device_open_engines(peal_comm *comm, const peali_call *c)
{
    peali_device *d = comm->device;
    peal_status well = PEAL_OK;
    if (d->engines != PEALI_ENGINES_UNTRIED)
        return PEAL_OK;
    peal_status status = meet(comm, c, &well);
    d->engines = status == PEAL_OK && well == PEAL_OK ? PEALI_ENGINES_THERE : PEALI_ENGINES_MISSING;
    if (status == PEAL_OK && well != PEAL_OK && comm->rank == 0)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, 0, "no calls by copy engines: some rank has no area of %lld bytes that its peers "
                  "can map (%s); set PEAL_ENGINES to less, or to off", (long long)peali_config_get()->engines_bytes,
                  peal_status_text(well));
    return status;
}
