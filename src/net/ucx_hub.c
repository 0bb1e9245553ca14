/*
 * Peers are kept to the end of the hub, also where no net names them any more: a process that two communicators share is met again
 * as a rule, and a connection is what costs.
 */
#include "net/ucx_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "base/log.h"

/* The hub that new nets join. */
static peali_ucx_hub *current;
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER; /* of `current`, and of nets and next_id in every hub */

static ucs_status_t hear_fence(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    return UCS_OK;
}

static ucs_status_t open_worker(peali_ucx_hub *h)
{
    ucp_params_t context = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE,
                            .features = UCP_FEATURE_TAG | UCP_FEATURE_AM, .request_size = sizeof(peali_ucx_pending)};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t fence = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .id = PEALI_UCX_FENCE, .cb = hear_fence};
    ucs_status_t status = h->ucp->ucp_init_version(PEALI_UCX_MAJOR, PEALI_UCX_MINOR, &context, NULL, &h->context);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_create(h->context, &worker, &h->worker);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_set_am_recv_handler(h->worker, &fence);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_get_address(h->worker, &h->address, &h->address_bytes);
    return status;
}

/* Endpoints go with their worker. Closing them one by one would flush each, and the peers may be gone. */
static void hub_free(peali_ucx_hub *h)
{
    if (h->address)
        h->ucp->ucp_worker_release_address(h->worker, h->address);
    if (h->worker)
        h->ucp->ucp_worker_destroy(h->worker);
    if (h->context)
        h->ucp->ucp_cleanup(h->context);
    for (int b = 0; b < PEALI_UCX_BUCKETS; b++)
        while (h->peers[b]) {
            peali_ucx_peer *next = h->peers[b]->next;
            peali_free(h->peers[b]);
            h->peers[b] = next;
        }
    pthread_mutex_destroy(&h->lock);
    peali_free(h);
}

static peal_status hub_make(int rank, peali_ucx_hub **out)
{
    const char *why;
    const peali_ucx_library *ucp = peali_ucx_library_get(&why);
    peali_ucx_hub *h = ucp ? peali_alloc(1, sizeof(*h)) : NULL;
    if (!h) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s", ucp ? "no memory" : why);
        return ucp ? PEAL_ERR_MEMORY : PEAL_ERR_CONFIG;
    }
    h->ucp = ucp;
    pthread_mutex_init(&h->lock, NULL);
    ucs_status_t status = open_worker(h);
    if (status == UCS_OK) {
        *out = h;
        return PEAL_OK;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s; `ucx_info -d` lists what UCX_TLS may name",
              ucp->ucs_status_string(status));
    hub_free(h);
    return status == UCS_ERR_NO_MEMORY ? PEAL_ERR_MEMORY : PEAL_ERR_CONFIG;
}

/* At the end of the process, before libucp's own end: it was loaded, and asked to be told, earlier. */
static void at_end(void)
{
    if (current && current->nets == 0)
        hub_free(current);
    current = NULL;
}

peal_status peali_ucx_hub_join(int rank, peali_ucx_hub **hub, uint32_t *id)
{
    static bool told; /* under current_lock */
    pthread_mutex_lock(&current_lock);
    peal_status status = current ? PEAL_OK : hub_make(rank, &current);
    if (status == PEAL_OK) {
        *hub = current;
        current->nets++;
        *id = current->next_id++ & ((1u << PEALI_UCX_ID_BITS) - 1);
        told = told || atexit(at_end) == 0;
    }
    pthread_mutex_unlock(&current_lock);
    return status;
}

void peali_ucx_hub_leave(peali_ucx_hub **hub, bool spoilt)
{
    pthread_mutex_lock(&current_lock);
    (*hub)->nets--;
    if (current == *hub && spoilt)
        current = NULL;
    bool useless = current != *hub && (*hub)->nets == 0;
    pthread_mutex_unlock(&current_lock);
    if (useless)
        hub_free(*hub);
    *hub = NULL;
}

static peali_ucx_peer *peer_make(const void *address, size_t bytes, uint64_t hash)
{
    peali_ucx_peer *p = peali_alloc(1, sizeof(*p) + bytes);
    if (!p)
        return NULL;
    p->hash = hash;
    p->bytes = bytes;
    memcpy(p->address, address, bytes);
    return p;
}

peali_ucx_peer *peali_ucx_hub_peer(peali_ucx_hub *hub, const void *address, size_t bytes)
{
    uint64_t hash = XXH3_64bits(address, bytes);
    peali_ucx_peer **bucket = &hub->peers[hash % PEALI_UCX_BUCKETS];
    pthread_mutex_lock(&hub->lock);
    peali_ucx_peer *p = *bucket;
    while (p && (p->hash != hash || p->bytes != bytes || memcmp(p->address, address, bytes) != 0))
        p = p->next;
    if (!p && (p = peer_make(address, bytes, hash))) {
        p->next = *bucket;
        *bucket = p;
    }
    pthread_mutex_unlock(&hub->lock);
    return p;
}

/* Without UCX's error handling, which would take the shared-memory lanes away (FACTS): what fails shows as a deadline of Peal's. */
ucs_status_t peali_ucx_hub_connect(peali_ucx_hub *hub, peali_ucx_peer *peer)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = (const ucp_address_t *)peer->address, .err_mode = UCP_ERR_HANDLING_MODE_NONE};
    return hub->ucp->ucp_ep_create(hub->worker, &params, &peer->ep);
}

/* What UCX prints of PEER's endpoint; NULL: nothing. The caller frees it. */
static char *print_endpoint(const peali_ucx_hub *hub, const peali_ucx_peer *peer)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    hub->ucp->ucp_ep_print_info(peer->ep, f);
    fclose(f);
    return text;
}

/* From 1.15 on UCX tells a program what an endpoint goes by; for people it prints it in every version: "lane[0]: 3:tcp/lo.0". */
static void find_transports(const char *print, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (const char *lane = print; (lane = strstr(lane, "lane[")); lane++) {
        char name[64];
        if (sscanf(lane, "lane[%*d]: %*d:%63s", name) != 1)
            continue;
        char *path = strrchr(name, '.'); /* of a device: nearly always 0 */
        if (path)
            *path = '\0';
        if (at < bytes && !strstr(text, name))
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? " " : "", name);
    }
}

bool peali_ucx_hub_new_route(peali_ucx_hub *hub, const peali_ucx_peer *peer, char *text, size_t bytes)
{
    char *print = print_endpoint(hub, peer);
    if (!print)
        return false;
    find_transports(print, text, bytes);
    free(print);
    uint64_t hash = XXH3_64bits(text, strlen(text));
    bool is_new = hub->nroutes < PEALI_UCX_ROUTES;
    for (int i = 0; i < hub->nroutes; i++)
        is_new &= hub->route[i] != hash;
    if (is_new)
        hub->route[hub->nroutes++] = hash;
    return is_new;
}
