/* A region's handle is a ucp_mem_h. It is made under the lock of its hub, as all that UCX is asked for. */
#include "net/ucx_memory.h"

#include <stdio.h>

enum { REGIONS = 1024 };

static peal_status enter(void *ctx, void *at, size_t bytes, bool device, void **handle)
{
    peali_ucx_hub *h = ctx;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = at, .length = bytes,
                                   .memory_type = device ? h->device : UCS_MEMORY_TYPE_HOST};
    peali_ucx_hub_lock(h);
    ucs_status_t status = h->ucp->ucp_mem_map(h->context, &params, (ucp_mem_h *)handle);
    peali_ucx_hub_unlock(h);
    return status == UCS_OK ? PEAL_OK : status == UCS_ERR_NO_MEMORY ? PEAL_ERR_MEMORY : PEAL_ERR_NET;
}

/* Messages need none at the other end. */
static size_t no_key(void *ctx, void *handle, void *key)
{
    return 0;
}

static void leave(void *ctx, void *handle)
{
    peali_ucx_hub *h = ctx;
    peali_ucx_hub_lock(h);
    (void)h->ucp->ucp_mem_unmap(h->context, handle);
    peali_ucx_hub_unlock(h);
}

ucs_status_t peali_ucx_memory_open(peali_ucx_hub *h)
{
    const peali_provider provider = {.ctx = h, .enter = enter, .key = no_key, .leave = leave};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucs_status_t status = h->ucp->ucp_context_query(h->context, &attr);
    bool cuda = status == UCS_OK && (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    h->device = cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    h->regions = peali_regions_create(&provider, REGIONS, SIZE_MAX);
    return status == UCS_OK && !h->regions ? UCS_ERR_NO_MEMORY : status;
}

ucp_request_param_t peali_ucx_memory_param(const peali_ucx_memory *m, const peali_ucx_hub *hub, int rail, const void *data)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_HOST};
    if ((uintptr_t)data - (uintptr_t)m->mapped.at < m->mapped.bytes) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memory_type = hub->device;
        param.memh = m->regions[rail]->handle;
    }
    return param;
}

static peal_status map_one(peali_ucx_hub *hub, int rank, const peali_net_memory *memory, const peali_region **region,
                           peali_net_why *why)
{
    const peali_allocation of = {memory->at, memory->bytes, memory->id};
    if (hub->device == UCS_MEMORY_TYPE_HOST && !memory->host_reads) {
        snprintf(why->text, sizeof why->text, "UCX knows nothing of CUDA here (where it does, ucx_info -d lists cuda_copy, and "
                 "UCX_TLS allows it)");
        return PEAL_ERR_UNSUPPORTED;
    }
    peal_status status = peali_regions_take(hub->regions, rank, of.at, of.bytes, &of, region);
    if (status != PEAL_OK)
        snprintf(why->text, sizeof why->text, "UCX cannot register it%s%s: %s", hub->card.device[0] ? " for " : "",
                 hub->card.device, peal_status_text(status));
    return status;
}

peal_status peali_ucx_memory_map(peali_ucx_memory *m, peali_ucx_hub *const *hubs, int rails, int rank,
                                 const peali_net_memory *memory, peali_net_why *why)
{
    peal_status status = PEAL_OK;
    m->mapped = *memory;
    for (int rail = 0; rail < rails && status == PEAL_OK; rail++) {
        if (memory->door.enter)
            peali_ucx_hub_admit(hubs[rail], &m->guests[rail], &m->mapped.door);
        status = map_one(hubs[rail], rank, memory, &m->regions[rail], why);
    }
    if (status != PEAL_OK)
        peali_ucx_memory_unmap(m, hubs);
    return status;
}

/* Forgotten before it is given back, so that it is released at once. */
void peali_ucx_memory_unmap(peali_ucx_memory *m, peali_ucx_hub *const *hubs)
{
    if (m->mapped.bytes > 0)
        peali_regions_forget(m->mapped.at, m->mapped.bytes);
    for (int rail = 0; rail < PEALI_UCX_RAILS; rail++) {
        if (m->regions[rail])
            peali_regions_give(hubs[rail]->regions, m->regions[rail]);
        if (m->guests[rail].door)
            peali_ucx_hub_dismiss(hubs[rail], &m->guests[rail]);
    }
    *m = (peali_ucx_memory){.mapped = {.bytes = 0}};
}
