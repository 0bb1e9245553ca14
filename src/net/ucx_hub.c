/*
 * Peers are kept to the end of the hub, also where no net names them any more: a process that two communicators share is met again
 * as a rule, and a connection is what costs.
 */
#include "net/ucx_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "base/log.h"
#include "net/net_ucx.h"
#include "net/ucx_memory.h"

/* All hubs, of which one is open for each device and number. */
static peali_ucx_hub *hubs;
static pthread_mutex_t hubs_lock = PTHREAD_MUTEX_INITIALIZER; /* of `hubs`, and of nets, next and open in every hub */
static bool opened, orphan; /* under it: this process has had a hub; and is a child of one that had */

static ucs_status_t hear_fence(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    return UCS_OK;
}

enum { PREFIXED = 17 }; /* the first minor version whose names of a transport's options begin with the transport's */

/*
 * What the user did not set of UCX's tcp. No puts: their acknowledgement may arrive when a send has found that the peer is gone,
 * and UCX 1.13 dies of that in an assertion (tcp_ep.c:939; 2 of 35 links that were cut). Long pieces, read as long: each takes a
 * call of the system at either end (1.22, over lo, both ways at once, processor time a byte of messages of 128, 256, 512 KiB and
 * 2 MiB: 0.67, 0.67, 0.78 and 0.83 of that with pieces of 64 KiB, which take half of that with UCX's own, of 8; 1.13, allreduce
 * between 2 hosts of 2, 2 cores, 1 and 4 MiB: 1.32, 1.06, 1.26 and 5.9, 6.1, 9.1 ms, by UCX's own 1.59, 1.52, 1.51 and 8.2, 8.4,
 * 7.4). No other transport has options of these names. Where RNDV_THRESH is one of UCX's as a whole, there by rendezvous comes only
 * what is longer than a slice between hosts is as a rule (tuning.txt), as it costs each message a way there and back. No copies, of
 * messages of any length: what UCX calls sent is with the system then (ucx_link.c), and that takes no longer. What UCX does not
 * know it takes up to 1.19, and warns.
 */
static ucs_status_t tune_tcp(peali_ucx_hub *h, ucp_config_t *config)
{
    static const struct {
        const char *variable, *plain, *prefixed, *value;
    } options[] = {{"UCX_TCP_PUT_ENABLE", "PUT_ENABLE", "TCP_PUT_ENABLE", "n"},
                   {"UCX_RNDV_THRESH", "RNDV_THRESH", NULL, "512k"},
                   {"UCX_ZCOPY_THRESH", "ZCOPY_THRESH", "ZCOPY_THRESH", "0"},
                   {"UCX_TCP_TX_SEG_SIZE", "TX_SEG_SIZE", "TCP_TX_SEG_SIZE", "256k"},
                   {"UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "TCP_RX_SEG_SIZE", "256k"}};
    enum { ALL = sizeof(options) / sizeof(options[0]), OTHERS = ALL - 2 }; /* UCX refuses pieces longer than those that are read */
    const int n = getenv(options[OTHERS].variable) || getenv(options[OTHERS + 1].variable) ? OTHERS : ALL;
    unsigned major, minor, release;
    ucs_status_t status = UCS_OK;
    h->ucp->ucp_get_version(&major, &minor, &release);
    for (int i = 0; i < n && status == UCS_OK; i++) {
        const char *name = minor < PREFIXED ? options[i].plain : options[i].prefixed;
        if (name && !getenv(options[i].variable))
            status = h->ucp->ucp_config_modify(config, name, options[i].value);
    }
    h->copies = getenv("UCX_ZCOPY_THRESH");
    return status;
}

/* What the user set for UCX, narrowed to the hub's device. */
static ucs_status_t open_context(peali_ucx_hub *h)
{
    ucp_params_t context = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE,
                            .features = UCP_FEATURE_TAG | UCP_FEATURE_AM, .request_size = sizeof(peali_ucx_pending)};
    ucp_config_t *config = NULL;
    ucs_status_t status = h->ucp->ucp_config_read(NULL, NULL, &config);
    if (status == UCS_OK && h->card.device[0])
        status = h->ucp->ucp_config_modify(config, "NET_DEVICES", h->card.device);
    if (status == UCS_OK && peali_ucx_by_tcp(h->card.device))
        status = tune_tcp(h, config);
    if (status == UCS_OK && !h->memory)
        status = h->ucp->ucp_config_modify(config, "SHM_DEVICES", "");
    if (status == UCS_OK)
        status = h->ucp->ucp_init_version(PEALI_UCX_MAJOR, PEALI_UCX_MINOR, &context, config, &h->context);
    if (config)
        h->ucp->ucp_config_release(config);
    return status;
}

static ucs_status_t open_worker(peali_ucx_hub *h)
{
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t fence = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .id = PEALI_UCX_FENCE, .cb = hear_fence};
    size_t bytes = 0;
    ucs_status_t status = open_context(h);
    if (status == UCS_OK)
        status = peali_ucx_memory_open(h);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_create(h->context, &worker, &h->worker);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_set_am_recv_handler(h->worker, &fence);
    if (status == UCS_OK)
        status = h->ucp->ucp_worker_get_address(h->worker, &h->address, &bytes);
    h->card.bytes = bytes;
    return status;
}

/* Endpoints go with their worker. Closing them one by one would flush each, and the peers may be gone. */
static void hub_free(peali_ucx_hub *h)
{
    if (h->address)
        h->ucp->ucp_worker_release_address(h->worker, h->address);
    if (h->worker)
        h->ucp->ucp_worker_destroy(h->worker);
    peali_regions_destroy(&h->regions);
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

static peal_status hub_make(int rank, const char *device, bool memory, peali_ucx_hub **out)
{
    const char *why = "this process is a child of one that has it open, and UCX's own threads are there; have it run a program, or "
                      "take PEAL_NET=auto";
    const peali_ucx_library *ucp = orphan ? NULL : peali_ucx_library_get(&why);
    if (ucp && !peali_ucx_has_descriptors()) {
        ucp = NULL;
        why = PEALI_UCX_NO_DESCRIPTORS;
    }
    peali_ucx_hub *h = ucp ? peali_alloc(1, sizeof(*h)) : NULL;
    if (!h) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX: %s", ucp ? "no memory" : why);
        return ucp ? PEAL_ERR_MEMORY : PEAL_ERR_CONFIG;
    }
    h->ucp = ucp;
    h->memory = memory;
    h->copies = true;
    pthread_mutex_init(&h->lock, NULL);
    gethostname(h->card.host, sizeof(h->card.host) - 1);
    snprintf(h->card.device, sizeof(h->card.device), "%s", device);
    ucs_status_t status = open_worker(h);
    if (status == UCS_OK) {
        *out = h;
        return PEAL_OK;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no transport over UCX%s%s: %s; `ucx_info -d` lists what UCX_TLS may name",
              device[0] ? " by " : "", device, ucp->ucs_status_string(status));
    hub_free(h);
    return status == UCS_ERR_NO_MEMORY ? PEAL_ERR_MEMORY : PEAL_ERR_CONFIG;
}

/*
 * At the end of the process, before libucp's own end: it was loaded, and asked to be told, earlier. Other threads go on, and may
 * wait in communicators that have other transports. Where a signal's handler ends it, this thread itself may have the lock.
 */
static void at_end(void)
{
    struct timespec patience;
    clock_gettime(CLOCK_REALTIME, &patience);
    patience.tv_sec++;
    if (pthread_mutex_timedlock(&hubs_lock, &patience) != 0)
        return;
    while (hubs) {
        peali_ucx_hub *h = hubs;
        hubs = h->next;
        h->open = false;
        if (h->nets == 0)
            hub_free(h);
    }
    pthread_mutex_unlock(&hubs_lock);
}

/*
 * Sockets and memory of the parent's workers are here, too, but what comes there is the parent's: a child that drove them, or ended
 * them, would take it away. Workers of its own would not do: their connections over tcp wait for a thread of UCX that is not here.
 */
static void in_child(void)
{
    pthread_mutex_init(&hubs_lock, NULL);
    hubs = NULL;
    orphan |= opened;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

void peali_ucx_pending_begin(peali_ucx_pending *p, peali_ucx_pending **chain, peali_ucx_hub *hub)
{
    *p = (peali_ucx_pending){.next = *chain, .from = chain, .hub = hub};
    if (p->next)
        p->next->from = &p->next;
    *chain = p;
}

void peali_ucx_pending_end(peali_ucx_pending *p)
{
    *p->from = p->next;
    if (p->next)
        p->next->from = p->from;
    p->hub->ucp->ucp_request_free(p);
}

uint32_t peali_ucx_hub_id(void)
{
    static uint32_t next; /* under hubs_lock */
    pthread_mutex_lock(&hubs_lock);
    uint32_t id = next++ & ((1u << PEALI_UCX_ID_BITS) - 1);
    pthread_mutex_unlock(&hubs_lock);
    return id;
}

peal_status peali_ucx_hub_join(int rank, const peali_ucx_rails *rails, int rail, peali_ucx_hub **hub)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    const char *device = rails->device[rail];
    const int number = rails->number;
    const bool memory = rail == 0;
    peal_status status = PEAL_OK;
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&hubs_lock);
    peali_ucx_hub *h = hubs;
    while (h && (!h->open || h->number != number || h->memory != memory || strcmp(h->card.device, device) != 0))
        h = h->next;
    if (!h && (status = hub_make(rank, device, memory, &h)) == PEAL_OK) {
        h->number = number;
        h->open = true;
        h->next = hubs;
        hubs = h;
    }
    if (status == PEAL_OK) {
        h->nets++;
        *hub = h;
        opened = opened || atexit(at_end) == 0;
    }
    pthread_mutex_unlock(&hubs_lock);
    return status;
}

/*
 * Any call, also one about host memory, may be where UCX copies from or to a device, in the context that is current (1.22: else of
 * the first device in use), and waits for its stream, which breaks captures of other threads. A door that does not open is not
 * tried again.
 */
static void go_in(peali_ucx_hub *hub)
{
    hub->through = NULL;
    while (hub->guests && !hub->through) {
        const peali_net_door *door = hub->guests->door;
        if (door->enter(door->ctx, &hub->visit) == PEAL_OK)
            hub->through = door;
        else
            hub->guests = hub->guests->next;
    }
}

void peali_ucx_hub_lock(peali_ucx_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    go_in(hub);
}

void peali_ucx_hub_unlock(peali_ucx_hub *hub)
{
    if (hub->through)
        hub->through->leave(hub->through->ctx, &hub->visit);
    pthread_mutex_unlock(&hub->lock);
}

void peali_ucx_hub_admit(peali_ucx_hub *hub, peali_ucx_guest *guest, const peali_net_door *door)
{
    pthread_mutex_lock(&hub->lock);
    *guest = (peali_ucx_guest){hub->guests, door};
    hub->guests = guest;
    pthread_mutex_unlock(&hub->lock);
}

void peali_ucx_hub_dismiss(peali_ucx_hub *hub, const peali_ucx_guest *guest)
{
    pthread_mutex_lock(&hub->lock);
    peali_ucx_guest **at = &hub->guests;
    while (*at && *at != guest)
        at = &(*at)->next;
    if (*at)
        *at = guest->next;
    pthread_mutex_unlock(&hub->lock);
}

void peali_ucx_hub_retire(peali_ucx_hub *hub)
{
    pthread_mutex_lock(&hubs_lock);
    hub->open = false;
    pthread_mutex_unlock(&hubs_lock);
}

static void take_out(const peali_ucx_hub *hub)
{
    peali_ucx_hub **at = &hubs;
    while (*at && *at != hub)
        at = &(*at)->next;
    if (*at)
        *at = hub->next;
}

void peali_ucx_hub_leave(peali_ucx_hub **hub)
{
    pthread_mutex_lock(&hubs_lock);
    (*hub)->nets--;
    bool useless = !(*hub)->open && (*hub)->nets == 0;
    if (useless)
        take_out(*hub);
    pthread_mutex_unlock(&hubs_lock);
    if (useless)
        hub_free(*hub);
    *hub = NULL;
}

peal_status peali_net_ucx_open(int rank, const peali_ucx_rails *rails)
{
    peal_status status = PEAL_OK;
    for (int rail = 0; rail < rails->n && status == PEAL_OK; rail++) {
        peali_ucx_hub *hub;
        status = peali_ucx_hub_join(rank, rails, rail, &hub);
        if (status == PEAL_OK)
            peali_ucx_hub_leave(&hub);
    }
    if (status == PEAL_OK && !peali_ucx_has_descriptors()) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no connections by ucx: " PEALI_UCX_NO_DESCRIPTORS);
        status = PEAL_ERR_CONFIG;
    }
    return status;
}

static peali_ucx_peer *peer_make(const peali_ucx_card *card, const void *address, uint64_t hash)
{
    peali_ucx_peer *p = peali_alloc(1, sizeof(*p) + card->bytes);
    if (!p)
        return NULL;
    p->hash = hash;
    p->card = *card;
    memcpy(p->address, address, card->bytes);
    return p;
}

peali_ucx_peer *peali_ucx_hub_peer(peali_ucx_hub *hub, const peali_ucx_card *card, const void *address)
{
    uint64_t hash = XXH3_64bits(address, card->bytes);
    peali_ucx_peer **bucket = &hub->peers[hash % PEALI_UCX_BUCKETS];
    pthread_mutex_lock(&hub->lock);
    peali_ucx_peer *p = *bucket;
    while (p && (p->hash != hash || p->card.bytes != card->bytes || memcmp(p->address, address, card->bytes) != 0))
        p = p->next;
    if (!p && (p = peer_make(card, address, hash))) {
        p->next = *bucket;
        *bucket = p;
    }
    pthread_mutex_unlock(&hub->lock);
    return p;
}

static void note_broken(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    peali_ucx_peer *peer = arg;
    peer->broken |= ep == peer->ep;
}

ucs_status_ptr_t peali_ucx_hub_fence(const peali_ucx_hub *hub, ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .flags = UCP_AM_SEND_FLAG_EAGER, .memory_type = UCS_MEMORY_TYPE_HOST};
    return hub->ucp->ucp_am_send_nbx(ep, PEALI_UCX_FENCE, NULL, 0, NULL, 0, &param);
}

/*
 * UCX 1.16 shakes hands over tcp when a fence asks for it, and a tag message does not. At the end of a call that is too late where
 * messages go one way: the peer has all of them, left, and does not answer. It does before it has read what comes behind a fence.
 */
static ucs_status_t greet(const peali_ucx_hub *hub, const peali_ucx_peer *peer)
{
    ucs_status_ptr_t fence = peali_ucx_hub_fence(hub, peer->ep);
    if (!UCS_PTR_IS_PTR(fence))
        return UCS_PTR_RAW_STATUS(fence);
    hub->ucp->ucp_request_free(fence);
    return UCS_OK;
}

/*
 * Without UCX's error handling, which would take the shared-memory lanes away (FACTS): what is lost shows as a deadline of Peal's.
 * UCX tells all the same of a connection that it found broken. That endpoint goes with the worker, as all do.
 */
ucs_status_t peali_ucx_hub_connect(peali_ucx_hub *hub, peali_ucx_peer *peer)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = (const ucp_address_t *)peer->address, .err_mode = UCP_ERR_HANDLING_MODE_NONE,
                              .err_handler = {note_broken, peer}};
    if (!peali_ucx_has_descriptors()) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, -1, "no connection by ucx to host %s: " PEALI_UCX_NO_DESCRIPTORS, peer->card.host);
        return UCS_ERR_NO_RESOURCE;
    }
    peer->broken = false;
    ucs_status_t status = hub->ucp->ucp_ep_create(hub->worker, &params, &peer->ep);
    return status == UCS_OK ? greet(hub, peer) : status;
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

void peali_net_ucx_drive(void)
{
    if (pthread_mutex_trylock(&hubs_lock) != 0)
        return; /* somebody makes a hub, or ends one, and that takes a while */
    for (peali_ucx_hub *h = hubs; h; h = h->next) {
        if (pthread_mutex_trylock(&h->lock) != 0)
            continue; /* somebody drives it */
        go_in(h);
        if (!h->spoilt)
            h->ucp->ucp_worker_progress(h->worker);
        peali_ucx_hub_unlock(h);
    }
    pthread_mutex_unlock(&hubs_lock);
}
