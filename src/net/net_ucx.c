/*
 * Messages are UCX's tag messages with an exact match. All nets of a process share a worker for each network device, its rails, so
 * a tag says whose message it is: it names the receiving net by the number that its own process gave it (its card tells the peers),
 * the sender's rank, and the tag. Ranks need not agree on any number, and may even be threads of one process.
 *
 * A card carries an address for each rail, which UCX unpacks without looking at a length, so it travels in an envelope and is
 * checked first. Which rail a message takes follows from the cards: sender and receiver know it without talking.
 */
#include "net/net_ucx.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/ucx_cards.h"
#include "net/ucx_link.h"
#include "net/ucx_memory.h"

enum { RANK_BITS = 64 - PEALI_NET_TAG_BITS - PEALI_UCX_ID_BITS };
/* For how long, in all, what UCX cannot take back is waited for: sends, and receives, which go on to read the sender's memory. */
static const int64_t SEND_NS = 50000000, RECV_NS = 300000000;

struct ucx_net {
    peali_net net;
    peali_net *host; /* NULL: another net's */
    const peali_ucx_library *ucp;
    peali_ucx_hub *hubs[PEALI_UCX_RAILS];
    int nhubs; /* at least as many as rails */
    uint32_t id, near; /* near: rails to this rank */
    peali_ucx_head *card;
    uint32_t *ids;           /* of each rank's net */
    peali_ucx_berth *berths; /* of each rank */
    peali_ucx_link *links;   /* to each rank's workers: by rank, and then by rail */
    int *unflushed;          /* links that were sent to since the last flush */
    int nunflushed;
    void *fence;             /* to the first of them, others may come meanwhile; NULL: none is under way */
    int driven;              /* the rail that was driven last, beside those of requests under test */
    peali_ucx_pending *pending;
    int64_t left_ns[2]; /* of SEND_NS and RECV_NS */
    bool spoilt;        /* what was cancelled has not ended */
    bool by_name;       /* rails are devices of one name; else of one number */
    peali_ucx_memory memory;
};

/* A peali_net_req, as this transport fills it. */
struct __attribute__((may_alias)) request {
    peali_ucx_pending *pending; /* NULL: it ended, as STATUS says */
    uint64_t bytes;
    uint32_t tag : 24, rail : 6, receives : 1, some : 1; /* some: a receive that a shorter message will do for */
    int32_t peer;
    int64_t status;
};
_Static_assert(sizeof(struct request) <= sizeof(((peali_net_req *)0)->word), "a request fits");

static peali_ucx_link *link_of(const struct ucx_net *u, int peer, int rail)
{
    return &u->links[(size_t)peer * (size_t)u->net.rails + (size_t)rail];
}

/* The rail of a message to PEER, or from it. */
static int rail_of(const struct ucx_net *u, int peer, uint32_t tag, bool sends)
{
    const peali_ucx_berth *mine = &u->berths[u->net.rank], *theirs = &u->berths[peer];
    return peali_ucx_rail(sends ? mine : theirs, sends ? theirs : mine, tag);
}

static peali_ucx_hub *lock(struct ucx_net *u, int rail)
{
    peali_ucx_hub_lock(u->hubs[rail]);
    return u->hubs[rail];
}

static uint64_t wire_tag(uint32_t receiver_id, int sender, uint32_t tag)
{
    return (uint64_t)receiver_id << (RANK_BITS + PEALI_NET_TAG_BITS) | (uint64_t)sender << PEALI_NET_TAG_BITS | tag;
}

/* "rail 1, eth1 of host a to eth1 of host b"; within a host, devices are not what a message goes by. */
static void say_way(const struct ucx_net *u, int peer, int rail, bool sends, char *text, size_t bytes)
{
    const peali_ucx_card *mine = &u->hubs[rail]->card, *theirs = &link_of(u, peer, rail)->peer->card;
    const peali_ucx_card *from = sends ? mine : theirs, *to = sends ? theirs : mine;
    if (u->berths[peer].host == u->berths[u->net.rank].host)
        snprintf(text, bytes, "within host %s", mine->host);
    else
        snprintf(text, bytes, "rail %d, %s of host %s to %s of host %s", rail, peali_ucx_card_device(from), from->host,
                 peali_ucx_card_device(to), to->host);
}

static void ucx_describe(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes)
{
    const struct ucx_net *u = (const struct ucx_net *)net;
    say_way(u, peer, rail_of(u, peer, tag, sends), sends, text, bytes);
}

static peal_status fail(const struct ucx_net *u, const struct request *r, ucs_status_t status)
{
    char way[PEALI_NET_WAY];
    say_way(u, r->peer, r->rail, !r->receives, way, sizeof(way));
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, u->net.rank, "%s of %llu bytes %s rank %d tag %u (%s) failed: ucx says %s",
              r->receives ? "receive" : "send", (unsigned long long)r->bytes, r->receives ? "from" : "to", r->peer, r->tag, way,
              u->ucp->ucs_status_string(status));
    return PEAL_ERR_NET;
}

/* UCX tells the length of most messages that were cut, but not of all. */
static peal_status wrong_length(const struct ucx_net *u, const struct request *r, size_t got, bool cut)
{
    char text[32] = "more";
    if (!cut || got > r->bytes)
        snprintf(text, sizeof(text), "%zu", got);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, u->net.rank,
              "message from rank %d tag %u has %s bytes, its receive %llu: make the same call with the same count on all ranks",
              r->peer, r->tag, text, (unsigned long long)r->bytes);
    return PEAL_ERR_NET;
}

/* What a request that UCX ended with STATUS means; GOT: bytes that came, of a receive. */
static peal_status verdict(const struct ucx_net *u, const struct request *r, ucs_status_t status, size_t got)
{
    if (status == UCS_ERR_MESSAGE_TRUNCATED)
        return wrong_length(u, r, got, true);
    if (status != UCS_OK)
        return fail(u, r, status);
    return r->receives && !r->some && got != r->bytes ? wrong_length(u, r, got, false) : PEAL_OK;
}

/* Notes in R what UCX made of a call: a request, an end, or an error. */
static void enter(struct ucx_net *u, struct request *r, ucs_status_ptr_t answer)
{
    if (UCS_PTR_IS_PTR(answer)) {
        r->pending = answer;
        peali_ucx_pending_begin(r->pending, &u->pending, u->hubs[r->rail]);
    } else {
        r->status = verdict(u, r, UCS_PTR_RAW_STATUS(answer), r->bytes);
    }
}

/* Peers that a process reaches alike share a line of the log. */
static void log_route(const struct ucx_net *u, int peer, int rail)
{
    char text[256], way[PEALI_NET_WAY];
    if (!peali_log_on(PEALI_LOG_INFO, PEALI_SUB_NET) ||
        !peali_ucx_hub_new_route(u->hubs[rail], link_of(u, peer, rail)->peer, text, sizeof(text)))
        return;
    say_way(u, peer, rail, true, way, sizeof(way));
    peali_log(PEALI_LOG_INFO, PEALI_SUB_NET, u->net.rank, "lanes: %d -> %d and the like via ucx by %s, %s", u->net.rank, peer,
              text[0] ? text : "what it does not say", way);
}

static ucs_status_t connect_to(const struct ucx_net *u, int peer, int rail)
{
    bool is_new;
    ucs_status_t status = peali_ucx_link_connect(u->hubs[rail], link_of(u, peer, rail), &is_new);
    if (status == UCS_OK && is_new)
        log_route(u, peer, rail);
    return status;
}

static peal_status ucx_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    int rail = rail_of(u, peer, tag, true);
    peali_ucx_link *link = link_of(u, peer, rail);
    struct request *r = (struct request *)req;
    *r = (struct request){.bytes = bytes, .tag = tag, .rail = (unsigned)rail, .peer = peer};
    ucp_request_param_t param = peali_ucx_memory_param(&u->memory, u->hubs[rail], rail, data);
    peali_ucx_hub *hub = lock(u, rail);
    ucs_status_t status = connect_to(u, peer, rail);
    if (status == UCS_OK) {
        uint64_t wire = wire_tag(u->ids[peer], net->rank, tag);
        enter(u, r, u->ucp->ucp_tag_send_nbx(link->peer->ep, data, bytes, wire, &param));
        if (peali_ucx_link_use(link, hub->copies || bytes == 0 || param.memory_type != UCS_MEMORY_TYPE_HOST))
            u->unflushed[u->nunflushed++] = (int)(link - u->links);
    }
    peali_ucx_hub_unlock(hub);
    return status == UCS_OK ? PEAL_OK : fail(u, r, status);
}

/* A request also where the message is there already: UCX 1.13 tells its length in no other way, whatever its manual says. */
static peal_status receive(peali_net *net, const struct request *like, void *data, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    *r = *like;
    r->rail = (unsigned)rail_of(u, r->peer, r->tag, false);
    ucp_request_param_t param = peali_ucx_memory_param(&u->memory, u->hubs[r->rail], r->rail, data);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    peali_ucx_hub *hub = lock(u, r->rail);
    ucs_status_ptr_t answer =
        u->ucp->ucp_tag_recv_nbx(hub->worker, data, r->bytes, wire_tag(u->id, r->peer, r->tag), ~(ucp_tag_t)0, &param);
    enter(u, r, answer);
    peali_ucx_hub_unlock(hub);
    return PEAL_OK;
}

static peal_status ucx_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return receive(net, &(struct request){.bytes = bytes, .tag = tag, .receives = 1, .peer = peer}, data, req);
}

static peal_status ucx_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return receive(net, &(struct request){.bytes = bytes, .tag = tag, .receives = 1, .some = 1, .peer = peer}, data, req);
}

static ucs_status_t state_of(const struct ucx_net *u, const struct request *r, size_t *got)
{
    ucp_tag_recv_info_t info = {.length = 0};
    ucs_status_t status = r->receives ? u->ucp->ucp_tag_recv_request_test(r->pending, &info)
                                      : u->ucp->ucp_request_check_status(r->pending);
    *got = info.length;
    return status;
}

/* Whether R ended, and how; what UCX keeps of one that did is given back. */
static peal_status look(struct ucx_net *u, struct request *r)
{
    size_t got;
    if (!r->pending)
        return (peal_status)r->status;
    ucs_status_t status = state_of(u, r, &got);
    if (status == UCS_INPROGRESS)
        return PEAL_IN_PROGRESS;
    peali_ucx_pending_end(r->pending);
    r->pending = NULL;
    return verdict(u, r, status, got);
}

static void drive(struct ucx_net *u, int rail)
{
    peali_ucx_hub *hub = lock(u, rail);
    u->ucp->ucp_worker_progress(hub->worker);
    peali_ucx_hub_unlock(hub);
}

static peal_status ucx_test(peali_net *net, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    peali_ucx_hub *hub = lock(u, r->rail);
    peal_status status = look(u, r);
    if (status == PEAL_IN_PROGRESS) {
        u->ucp->ucp_worker_progress(hub->worker);
        status = look(u, r);
    }
    peali_ucx_hub_unlock(hub);
    if (status == PEAL_IN_PROGRESS && net->rails > 1)
        drive(u, u->driven = (u->driven + 1) % net->rails); /* who waits for one rail may have to send on another one */
    return status;
}

/* UCX copies nothing here, and needs no door for it. */
static peal_status ucx_peek(peali_net *net, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    pthread_mutex_t *lock = &u->hubs[((struct request *)req)->rail]->lock;
    pthread_mutex_lock(lock);
    peal_status status = look(u, (struct request *)req);
    pthread_mutex_unlock(lock);
    return status;
}

/*
 * UCX takes back a receive that no message met. What it cannot take back ends by itself where the peer is there: a message that has
 * begun to arrive, and (as the peer throws away what nobody waits for, in forget_strays) a send. Else its memory has to stay.
 */
static bool ucx_cancel(peali_net *net, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    size_t got;
    if (!r->pending)
        return true;
    peali_ucx_hub *hub = lock(u, r->rail);
    u->ucp->ucp_request_cancel(hub->worker, r->pending);
    int64_t began_ns = peali_clock_ns(), *left_ns = &u->left_ns[r->receives];
    ucs_status_t status;
    while ((status = state_of(u, r, &got)) == UCS_INPROGRESS && peali_clock_ns() - began_ns < *left_ns)
        u->ucp->ucp_worker_progress(hub->worker);
    *left_ns -= peali_clock_ns() - began_ns;
    u->spoilt |= status == UCS_INPROGRESS;
    hub->spoilt |= status == UCS_INPROGRESS && r->receives;
    peali_ucx_pending_end(r->pending);
    r->pending = NULL;
    peali_ucx_hub_unlock(hub);
    if (status == UCS_INPROGRESS)
        peali_ucx_hub_retire(hub);
    return status != UCS_INPROGRESS;
}

static peal_status ucx_progress(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    for (int rail = 0; rail < net->rails; rail++)
        drive(u, rail);
    return u->host ? u->host->progress(u->host) : PEAL_OK;
}

static peal_status ucx_flush(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    ucs_status_t status = UCS_OK;
    int first = 0;
    while (u->nunflushed > 0 && status == UCS_OK) {
        first = u->unflushed[0];
        peali_ucx_hub *hub = lock(u, first % net->rails);
        status = peali_ucx_link_flush(hub, &u->links[first], &u->fence);
        peali_ucx_hub_unlock(hub);
        if (status == UCS_OK)
            u->unflushed[0] = u->unflushed[--u->nunflushed];
    }
    char way[PEALI_NET_WAY];
    if (status == UCS_OK || status == UCS_INPROGRESS)
        return status == UCS_OK ? PEAL_OK : PEAL_IN_PROGRESS;
    say_way(u, first / net->rails, first % net->rails, true, way, sizeof(way));
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, net->rank, "flush to rank %d (%s) failed: ucx says %s", first / net->rails, way,
              u->ucp->ucs_status_string(status));
    return PEAL_ERR_NET;
}

/* Takes in, to throw away, what peers sent to this net and nobody received: else their sends would not end. */
static void forget_strays(const struct ucx_net *u, peali_ucx_hub *hub)
{
    ucp_tag_t mine = wire_tag(u->id, 0, 0), mask = ~(ucp_tag_t)0 << (RANK_BITS + PEALI_NET_TAG_BITS);
    ucp_tag_recv_info_t info;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_HOST};
    ucp_tag_message_h message;
    u->ucp->ucp_worker_progress(hub->worker);
    while ((message = u->ucp->ucp_tag_probe_nb(hub->worker, mine, mask, 1, &info))) {
        ucs_status_ptr_t answer = u->ucp->ucp_tag_msg_recv_nbx(hub->worker, NULL, 0, message, &param);
        if (UCS_PTR_IS_PTR(answer))
            u->ucp->ucp_request_free(answer);
    }
}

static peal_status ucx_map(peali_net *net, const peali_net_memory *memory, peali_net_why *why)
{
    struct ucx_net *u = (struct ucx_net *)net;
    return peali_ucx_memory_map(&u->memory, u->hubs, net->rails, net->rank, memory, why);
}

static void ucx_unmap(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    peali_ucx_memory_unmap(&u->memory, u->hubs);
}

static void ucx_forsake(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    for (int rail = 0; rail < u->nhubs; rail++)
        peali_ucx_hub_retire(u->hubs[rail]);
}

static void net_free(struct ucx_net *u)
{
    peali_ucx_memory_unmap(&u->memory, u->hubs);
    if (u->spoilt)
        ucx_forsake(&u->net);
    while (u->nhubs > 0)
        peali_ucx_hub_leave(&u->hubs[--u->nhubs]);
    peali_free(u->card);
    peali_free(u->ids);
    peali_free(u->berths);
    peali_free(u->links);
    peali_free(u->unflushed);
    peali_free(u);
}

/* Requests are left over where the communicator failed and nobody cancelled them; their callers' memory may be gone. */
static void ucx_destroy(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    peali_net *host = u->host;
    u->spoilt |= u->pending || u->fence;
    for (int rail = 0; rail < u->nhubs; rail++) {
        peali_ucx_hub *hub = lock(u, rail);
        if (!hub->spoilt) /* that would go on with a message to memory which is its caller's again */
            forget_strays(u, hub);
        peali_ucx_hub_unlock(hub);
    }
    while (u->pending) {
        peali_ucx_hub *hub = u->pending->hub;
        peali_ucx_hub_lock(hub);
        u->ucp->ucp_request_cancel(hub->worker, u->pending);
        peali_ucx_pending_end(u->pending);
        peali_ucx_hub_unlock(hub);
    }
    if (u->fence) {
        peali_ucx_hub *hub = lock(u, u->unflushed[0] % net->rails);
        u->ucp->ucp_request_free(u->fence);
        peali_ucx_hub_unlock(hub);
    }
    net_free(u);
    if (host)
        host->destroy(host);
}

/*
 * Where a host has fewer devices than another, one of them is down as a rule, and the others are known by their names: the rails
 * are the devices that all have, if there are any.
 */
static void match_names(struct ucx_net *u, const char *cards, size_t stride)
{
    char names[PEALI_UCX_RAILS][PEALI_UCX_DEVICE];
    int n = peali_ucx_cards_common(cards, stride, u->net.nranks, names, u->berths);
    u->by_name = n > 0;
    u->net.rails = u->by_name ? n : u->net.rails;
    for (int rail = 0; rail < n; rail++) {
        int at = rail;
        while (strcmp(u->hubs[at]->card.device, names[rail]) != 0)
            at++;
        peali_ucx_hub *hub = u->hubs[at];
        u->hubs[at] = u->hubs[rail];
        u->hubs[rail] = hub;
    }
}

/* What all ranks are, and how many rails all of them have. A host that has fewer than another is named once. */
static peal_status read_heads(struct ucx_net *u, const char *cards, size_t stride)
{
    int least = PEALI_UCX_RAILS + 1, most = 0, poorest = 0;
    for (int r = 0; r < u->net.nranks; r++) {
        peali_ucx_head head;
        if (!peali_ucx_head_open(cards + (size_t)r * stride, stride, u->net.rank, r, &head))
            return PEAL_ERR_NET;
        u->ids[r] = head.id;
        u->berths[r] = (peali_ucx_berth){.host = head.host, .near = head.near};
        most = (int)head.nrails > most ? (int)head.nrails : most;
        poorest = (int)head.nrails < least ? r : poorest;
        least = (int)head.nrails < least ? (int)head.nrails : least;
    }
    u->net.rails = least;
    if (least < most)
        match_names(u, cards, stride);
    if (least < most && u->net.rank == poorest)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, u->net.rank, "%d network devices of host %s, %d of another: all hosts use %d%s",
                  least, u->hubs[0]->card.host, most, u->net.rails, u->by_name ? ", of the same names" : "");
    u->near = u->berths[u->net.rank].near;
    peali_ucx_berths(u->berths, u->net.nranks, u->net.rails);
    return PEAL_OK;
}

/* Finds the workers of rank R, which lie AT in its card. */
static peal_status find_peers(struct ucx_net *u, int r, const char *card)
{
    for (int rail = 0; rail < u->net.rails; rail++) {
        peali_ucx_card worker;
        int number = u->by_name ? peali_ucx_card_find(card, u->hubs[rail]->card.device) : rail;
        const void *address = peali_ucx_card_worker(card, number, &worker);
        link_of(u, r, rail)->peer = peali_ucx_hub_peer(u->hubs[rail], &worker, address);
        if (!link_of(u, r, rail)->peer)
            return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

/*
 * UCX tells when it connects that devices do not lead to each other, as a loopback, or tcp here and InfiniBand there. One rank of
 * each host connects to the next host: hosts of several kinds are next to each other somewhere.
 */
static peal_status try_ways(struct ucx_net *u)
{
    int peer = u->berths[u->net.rank].turn == 0 ? peali_ucx_next_host(u->berths, u->net.nranks, u->net.rank) : -1;
    for (int rail = 0; peer >= 0 && rail < u->net.rails; rail++) {
        char way[PEALI_NET_WAY];
        peali_ucx_hub *hub = lock(u, rail);
        ucs_status_t status = connect_to(u, peer, rail);
        peali_ucx_hub_unlock(hub);
        if (status == UCS_OK)
            continue;
        say_way(u, peer, rail, true, way, sizeof(way));
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, u->net.rank, "ucx has no way to rank %d, by %s: %s", peer, way,
                  u->ucp->ucs_status_string(status));
        return status == UCS_ERR_NO_MEMORY ? PEAL_ERR_MEMORY : PEAL_ERR_UNSUPPORTED;
    }
    return PEAL_OK;
}

static void log_rails(const struct ucx_net *u)
{
    char names[PEALI_UCX_RAILS * (PEALI_UCX_DEVICE + 1)] = "";
    size_t at = 0;
    for (int rail = 0; rail < u->net.rails; rail++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, " %s", u->hubs[rail]->card.device);
    peali_log(PEALI_LOG_INFO, PEALI_SUB_NET, u->net.rank, "ucx rails:%s (%d here, %d on all ranks)", names, u->nhubs, u->net.rails);
}

static peal_status ucx_meet(peali_net *net, const void *cards, size_t stride)
{
    struct ucx_net *u = (struct ucx_net *)net;
    peal_status status = read_heads(u, cards, stride);
    if (status != PEAL_OK)
        return status;
    size_t nlinks = (size_t)net->nranks * (size_t)net->rails;
    u->links = peali_alloc(nlinks, sizeof(*u->links));
    u->unflushed = peali_alloc(nlinks, sizeof(*u->unflushed));
    if (!u->links || !u->unflushed)
        return PEAL_ERR_MEMORY;
    for (int r = 0; r < net->nranks && status == PEAL_OK; r++)
        status = find_peers(u, r, (const char *)cards + (size_t)r * stride);
    if (status != PEAL_OK || !u->host)
        return status;
    log_rails(u);
    return try_ways(u);
}

static peal_status card_make(struct ucx_net *u, const peali_ucx_rails *rails)
{
    const peali_ucx_head head = {.rank = (uint32_t)u->net.rank, .id = u->id, .host = rails->host, .near = rails->near,
                                 .nrails = (uint32_t)u->nhubs};
    u->net.card = u->card = peali_ucx_card_make(&head, u->hubs, &u->net.card_bytes);
    return u->card ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status furnish(struct ucx_net *u, const peali_ucx_rails *rails)
{
    u->ids = peali_alloc((size_t)u->net.nranks, sizeof(*u->ids));
    u->berths = peali_alloc((size_t)u->net.nranks, sizeof(*u->berths));
    if (!u->ids || !u->berths)
        return PEAL_ERR_MEMORY;
    for (; u->nhubs < rails->n; u->nhubs++) {
        peal_status status = peali_ucx_hub_join(u->net.rank, rails, u->nhubs, &u->hubs[u->nhubs]);
        if (status != PEAL_OK)
            return status;
    }
    u->id = peali_ucx_hub_id();
    u->ucp = u->hubs[0]->ucp;
    return card_make(u, rails);
}

static peal_status make(int rank, int nranks, const peali_ucx_rails *rails, struct ucx_net **net)
{
    struct ucx_net *u = peali_alloc(1, sizeof(*u));
    if (!u)
        return PEAL_ERR_MEMORY;
    u->left_ns[0] = SEND_NS;
    u->left_ns[1] = RECV_NS;
    u->net = (peali_net){.name = "ucx", .rank = rank, .nranks = nranks, .meet = ucx_meet, .send = ucx_send,
                         .recv = ucx_recv, .recv_some = ucx_recv_some, .test = ucx_test, .peek = ucx_peek, .cancel = ucx_cancel,
                         .progress = ucx_progress, .flush = ucx_flush, .describe = ucx_describe, .map = ucx_map,
                         .unmap = ucx_unmap, .forsake = ucx_forsake, .destroy = ucx_destroy, .any_thread = true};
    peal_status status = furnish(u, rails);
    if (status == PEAL_OK)
        *net = u;
    else
        net_free(u);
    return status;
}

static peal_status ucx_beside(const peali_net *net, int number, peali_net **another)
{
    const struct ucx_net *u = (const struct ucx_net *)net;
    peali_ucx_rails rails = {.n = net->rails, .near = u->near, .host = u->card->host, .number = number};
    for (int i = 0; i < rails.n; i++)
        memcpy(rails.device[i], u->hubs[i]->card.device, PEALI_UCX_DEVICE);
    struct ucx_net *made;
    peal_status status = make(net->rank, net->nranks, &rails, &made);
    if (status == PEAL_OK)
        *another = &made->net;
    return status;
}

/* Where a device moves memory by itself, one thread is enough. */
static bool takes_threads(const peali_ucx_rails *rails)
{
    bool tcp = true;
    for (int i = 0; i < rails->n; i++)
        tcp &= peali_ucx_by_tcp(rails->device[i]);
    return tcp;
}

peal_status peali_net_ucx_create(peali_net *host, const peali_ucx_rails *rails, peali_net **net)
{
    if (host->nranks > 1 << RANK_BITS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, host->rank, "ucx: %d ranks are more than the %d that its tags can tell apart",
                  host->nranks, 1 << RANK_BITS);
        return PEAL_ERR_CONFIG;
    }
    struct ucx_net *u;
    peal_status status = make(host->rank, host->nranks, rails, &u);
    if (status != PEAL_OK)
        return status;
    u->host = u->net.aside = host;
    u->net.beside = takes_threads(rails) ? ucx_beside : NULL;
    *net = &u->net;
    return PEAL_OK;
}

peali_net *peali_net_ucx_undo(peali_net **net)
{
    struct ucx_net *u = (struct ucx_net *)*net;
    peali_net *host = u->host;
    *net = u->host = NULL;
    ucx_destroy(&u->net);
    return host;
}
