/*
 * Messages are UCX's tag messages with an exact match. All nets of a process share one worker, so a tag says whose message it is:
 * it names the receiving net by the number that its own process gave it (its card tells the peers), the sender's rank, and the
 * tag. Ranks need not agree on any number, and may even be threads of one process.
 *
 * A card carries an address that UCX unpacks without looking at a length, so it travels in an envelope and is checked first.
 */
#include "net/net_ucx.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/ucx_hub.h"

enum { RANK_BITS = 64 - PEALI_NET_TAG_BITS - PEALI_UCX_ID_BITS };
static const int64_t SEND_NS = 200000000;   /* how long what UCX cannot take back may need to end: a send, */
static const int64_t RECV_NS = 2000000000LL; /* and a receive, which goes on to read the sender's memory */

enum { CARD_TYPE = 0x6c616570, CARD_VERSION = 1 };
struct card {
    uint32_t type, version;
    uint32_t rank, id;
    uint64_t bytes;    /* of the address behind it */
    uint64_t checksum; /* of all of the card, this being 0 */
};

/* A rank as this net meets it. */
struct link {
    peali_ucx_peer *peer;
    uint32_t id; /* of its net */
    bool unflushed;
};

struct ucx_net {
    peali_net net;
    peali_net *host;
    peali_ucx_hub *hub;
    uint32_t id;
    struct card *card;
    struct link *links; /* by rank */
    int *unflushed;     /* ranks that were sent to since the last flush */
    int nunflushed;
    void *fence;        /* to the last of them; NULL: none is under way */
    peali_ucx_pending *pending;
    bool spoilt;        /* a send that was cancelled has not ended */
};

/* A peali_net_req, as this transport fills it. */
struct __attribute__((may_alias)) request {
    peali_ucx_pending *pending; /* NULL: it ended, as STATUS says */
    uint64_t bytes;
    uint32_t tag : 30, receives : 1, some : 1; /* some: a receive that a shorter message will do for */
    int32_t peer;
    int64_t status;
};
_Static_assert(sizeof(struct request) <= sizeof(peali_net_req), "a request fits");

static void lock(struct ucx_net *u)
{
    pthread_mutex_lock(&u->hub->lock);
}

static void unlock(struct ucx_net *u)
{
    pthread_mutex_unlock(&u->hub->lock);
}

static uint64_t wire_tag(uint32_t receiver_id, int sender, uint32_t tag)
{
    return (uint64_t)receiver_id << (RANK_BITS + PEALI_NET_TAG_BITS) | (uint64_t)sender << PEALI_NET_TAG_BITS | tag;
}

static peal_status fail(const struct ucx_net *u, const struct request *r, ucs_status_t status)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, u->net.rank, "%s of %llu bytes %s rank %d tag %u failed: ucx says %s",
              r->receives ? "receive" : "send", (unsigned long long)r->bytes, r->receives ? "from" : "to", r->peer, r->tag,
              u->hub->ucp->ucs_status_string(status));
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

static void hook_in(struct ucx_net *u, peali_ucx_pending *p)
{
    p->next = u->pending;
    p->from = &u->pending;
    if (p->next)
        p->next->from = &p->next;
    u->pending = p;
}

/* Takes P out of the chain and gives it back to UCX. */
static void let_go(struct ucx_net *u, peali_ucx_pending *p)
{
    *p->from = p->next;
    if (p->next)
        p->next->from = p->from;
    u->hub->ucp->ucp_request_free(p);
}

/* Notes in R what UCX made of a call: a request, an end, or an error. */
static void enter(struct ucx_net *u, struct request *r, ucs_status_ptr_t answer)
{
    if (UCS_PTR_IS_PTR(answer)) {
        r->pending = answer;
        hook_in(u, r->pending);
    } else {
        r->status = verdict(u, r, UCS_PTR_RAW_STATUS(answer), r->bytes);
    }
}

static void note_unflushed(struct ucx_net *u, int peer)
{
    if (!u->links[peer].unflushed)
        u->unflushed[u->nunflushed++] = peer;
    u->links[peer].unflushed = true;
}

/* Peers that a process reaches alike share a line of the log. */
static void log_route(struct ucx_net *u, int peer)
{
    char text[256];
    if (peali_log_on(PEALI_LOG_INFO, PEALI_SUB_NET) && peali_ucx_hub_new_route(u->hub, u->links[peer].peer, text, sizeof(text)))
        peali_log(PEALI_LOG_INFO, PEALI_SUB_NET, u->net.rank, "lanes: %d -> %d and the like via ucx by %s", u->net.rank, peer,
                  text[0] ? text : "what it does not say");
}

static ucs_status_t connect_to(struct ucx_net *u, int peer)
{
    peali_ucx_peer *p = u->links[peer].peer;
    if (p->ep)
        return UCS_OK;
    ucs_status_t status = peali_ucx_hub_connect(u->hub, p);
    if (status == UCS_OK)
        log_route(u, peer);
    return status;
}

static peal_status ucx_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct link *link = &u->links[peer];
    struct request *r = (struct request *)req;
    *r = (struct request){.bytes = bytes, .tag = tag, .peer = peer};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_HOST};
    lock(u);
    ucs_status_t status = connect_to(u, peer);
    if (status == UCS_OK) {
        uint64_t wire = wire_tag(link->id, net->rank, tag);
        enter(u, r, u->hub->ucp->ucp_tag_send_nbx(link->peer->ep, data, bytes, wire, &param));
        note_unflushed(u, peer);
    }
    unlock(u);
    return status == UCS_OK ? PEAL_OK : fail(u, r, status);
}

/* A request also where the message is there already: UCX 1.13 tells its length in no other way, whatever its manual says. */
static peal_status receive(peali_net *net, const struct request *like, void *data, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    *r = *like;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
    lock(u);
    ucs_status_ptr_t answer =
        u->hub->ucp->ucp_tag_recv_nbx(u->hub->worker, data, r->bytes, wire_tag(u->id, r->peer, r->tag), ~(ucp_tag_t)0, &param);
    enter(u, r, answer);
    unlock(u);
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
    ucs_status_t status = r->receives ? u->hub->ucp->ucp_tag_recv_request_test(r->pending, &info)
                                      : u->hub->ucp->ucp_request_check_status(r->pending);
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
    let_go(u, r->pending);
    r->pending = NULL;
    return verdict(u, r, status, got);
}

static peal_status ucx_test(peali_net *net, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    lock(u);
    peal_status status = look(u, r);
    if (status == PEAL_IN_PROGRESS) {
        u->hub->ucp->ucp_worker_progress(u->hub->worker);
        status = look(u, r);
    }
    unlock(u);
    return status;
}

/*
 * UCX takes back a receive that no message met. What it cannot take back ends by itself where the peer is there: a message that has
 * begun to arrive, and (as the peer throws away what nobody waits for, in forget_strays) a send. Else its memory has to stay. Sends
 * are waited for until one of them is stuck.
 */
static void ucx_cancel(peali_net *net, peali_net_req *req)
{
    struct ucx_net *u = (struct ucx_net *)net;
    struct request *r = (struct request *)req;
    size_t got;
    if (!r->pending)
        return;
    lock(u);
    u->hub->ucp->ucp_request_cancel(u->hub->worker, r->pending);
    int64_t until_ns = peali_clock_ns() + (r->receives ? RECV_NS : u->spoilt ? 0 : SEND_NS);
    ucs_status_t status;
    while ((status = state_of(u, r, &got)) == UCS_INPROGRESS && peali_clock_ns() < until_ns)
        u->hub->ucp->ucp_worker_progress(u->hub->worker);
    u->spoilt |= status == UCS_INPROGRESS;
    let_go(u, r->pending);
    r->pending = NULL;
    unlock(u);
}

static peal_status ucx_progress(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    lock(u);
    u->hub->ucp->ucp_worker_progress(u->hub->worker);
    unlock(u);
    return u->host->progress(u->host);
}

/* Sends a fence to the last rank of the list, or looks after the one under way. */
static ucs_status_t fence_last(struct ucx_net *u)
{
    const peali_ucx_library *ucp = u->hub->ucp;
    ucp_ep_h ep = u->links[u->unflushed[u->nunflushed - 1]].peer->ep;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .flags = UCP_AM_SEND_FLAG_EAGER, .memory_type = UCS_MEMORY_TYPE_HOST};
    if (!u->fence) {
        ucs_status_ptr_t answer = ucp->ucp_am_send_nbx(ep, PEALI_UCX_FENCE, NULL, 0, NULL, 0, &param);
        if (!UCS_PTR_IS_PTR(answer))
            return UCS_PTR_RAW_STATUS(answer);
        u->fence = answer;
    }
    ucp->ucp_worker_progress(u->hub->worker);
    ucs_status_t status = ucp->ucp_request_check_status(u->fence);
    if (status != UCS_INPROGRESS) {
        ucp->ucp_request_free(u->fence);
        u->fence = NULL;
    }
    return status;
}

/*
 * What UCX calls sent may still wait here for room in a socket (FACTS). A fence, a message that says nothing, queues up behind it:
 * when it has left, so has all before it. UCX's own flush waits for more, and that is fatal over tcp: for the peer's UCX to
 * answer, every time, while the peer may be done with this call and wait for this rank outside of Peal.
 */
static peal_status ucx_flush(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    ucs_status_t status = UCS_OK;
    lock(u);
    while (u->nunflushed > 0 && (status = fence_last(u)) == UCS_OK)
        u->links[u->unflushed[--u->nunflushed]].unflushed = false;
    unlock(u);
    if (status == UCS_OK || status == UCS_INPROGRESS)
        return status == UCS_OK ? PEAL_OK : PEAL_IN_PROGRESS;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, net->rank, "flush to rank %d failed: ucx says %s", u->unflushed[u->nunflushed - 1],
              u->hub->ucp->ucs_status_string(status));
    return PEAL_ERR_NET;
}

/* Takes in, to throw away, what peers sent to this net and nobody received: else their sends would not end. */
static void forget_strays(struct ucx_net *u)
{
    const peali_ucx_library *ucp = u->hub->ucp;
    ucp_tag_t mine = wire_tag(u->id, 0, 0), mask = ~(ucp_tag_t)0 << (RANK_BITS + PEALI_NET_TAG_BITS);
    ucp_tag_recv_info_t info;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_HOST};
    ucp_tag_message_h message;
    ucp->ucp_worker_progress(u->hub->worker);
    while ((message = ucp->ucp_tag_probe_nb(u->hub->worker, mine, mask, 1, &info))) {
        ucs_status_ptr_t answer = ucp->ucp_tag_msg_recv_nbx(u->hub->worker, NULL, 0, message, &param);
        if (UCS_PTR_IS_PTR(answer))
            ucp->ucp_request_free(answer);
    }
}

static void net_free(struct ucx_net *u)
{
    peali_free(u->card);
    peali_free(u->links);
    peali_free(u->unflushed);
    peali_free(u);
}

/* Requests are left over where the communicator failed and nobody cancelled them; their callers' memory may be gone. */
static void ucx_destroy(peali_net *net)
{
    struct ucx_net *u = (struct ucx_net *)net;
    peali_net *host = u->host;
    lock(u);
    forget_strays(u);
    u->spoilt |= u->pending || u->fence;
    while (u->pending) {
        u->hub->ucp->ucp_request_cancel(u->hub->worker, u->pending);
        let_go(u, u->pending);
    }
    if (u->fence)
        u->hub->ucp->ucp_request_free(u->fence);
    unlock(u);
    peali_ucx_hub_leave(&u->hub, u->spoilt);
    net_free(u);
    host->destroy(host);
}

static uint64_t checksum(struct card head, const void *address)
{
    head.checksum = 0;
    return XXH3_64bits_withSeed(address, head.bytes, XXH3_64bits(&head, sizeof(head)));
}

/* The address of RANK in the STRIDE bytes at CARD, or NULL where they are not what it sent. */
static const void *card_open(const void *card, size_t stride, int rank, struct card *head)
{
    if (stride < sizeof(*head))
        return NULL;
    memcpy(head, card, sizeof(*head));
    if (head->type != CARD_TYPE || head->version != CARD_VERSION || head->rank != (uint32_t)rank)
        return NULL;
    const char *address = (const char *)card + sizeof(*head);
    return head->bytes <= stride - sizeof(*head) && head->checksum == checksum(*head, address) ? address : NULL;
}

static peal_status ucx_meet(peali_net *net, const void *cards, size_t stride)
{
    struct ucx_net *u = (struct ucx_net *)net;
    for (int r = 0; r < net->nranks; r++) {
        struct card head;
        const void *address = card_open((const char *)cards + (size_t)r * stride, stride, r, &head);
        if (!address) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, net->rank, "the ucx address of rank %d came damaged, or of another Peal", r);
            return PEAL_ERR_NET;
        }
        u->links[r] = (struct link){.peer = peali_ucx_hub_peer(u->hub, address, head.bytes), .id = head.id};
        if (!u->links[r].peer)
            return PEAL_ERR_MEMORY;
    }
    return PEAL_OK;
}

static peal_status card_make(struct ucx_net *u)
{
    u->net.card_bytes = sizeof(struct card) + u->hub->address_bytes;
    u->card = peali_alloc(1, u->net.card_bytes);
    u->net.card = u->card;
    if (!u->card)
        return PEAL_ERR_MEMORY;
    *u->card = (struct card){.type = CARD_TYPE, .version = CARD_VERSION, .rank = (uint32_t)u->net.rank, .id = u->id,
                             .bytes = u->hub->address_bytes};
    memcpy(u->card + 1, u->hub->address, u->hub->address_bytes);
    u->card->checksum = checksum(*u->card, u->card + 1);
    return PEAL_OK;
}

static peal_status furnish(struct ucx_net *u, size_t nranks)
{
    u->links = peali_alloc(nranks, sizeof(*u->links));
    u->unflushed = peali_alloc(nranks, sizeof(*u->unflushed));
    if (!u->links || !u->unflushed)
        return PEAL_ERR_MEMORY;
    peal_status status = peali_ucx_hub_join(u->net.rank, &u->hub, &u->id);
    if (status != PEAL_OK)
        return status;
    status = card_make(u);
    if (status != PEAL_OK)
        peali_ucx_hub_leave(&u->hub, false);
    return status;
}

peal_status peali_net_ucx_create(peali_net *host, peali_net **net)
{
    if (host->nranks > 1 << RANK_BITS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, host->rank, "ucx: %d ranks are more than the %d that its tags can tell apart",
                  host->nranks, 1 << RANK_BITS);
        return PEAL_ERR_CONFIG;
    }
    struct ucx_net *u = peali_alloc(1, sizeof(*u));
    if (!u)
        return PEAL_ERR_MEMORY;
    u->host = host;
    u->net = (peali_net){.name = "ucx", .rank = host->rank, .nranks = host->nranks, .meet = ucx_meet, .send = ucx_send,
                         .recv = ucx_recv, .recv_some = ucx_recv_some, .test = ucx_test, .cancel = ucx_cancel,
                         .progress = ucx_progress, .flush = ucx_flush, .destroy = ucx_destroy};
    peal_status status = furnish(u, (size_t)host->nranks);
    if (status != PEAL_OK) {
        net_free(u);
        return status;
    }
    *net = &u->net;
    return PEAL_OK;
}
