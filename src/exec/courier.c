/*
 * Whoever calls leaves orders in a list, which the clerk takes whole; from then on the request is the clerk's, until its status
 * says that it is over. So no call waits for a pass of the clerk's but one that cancels, or flushes.
 */
#include "exec/courier.h"

#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/log.h"
#include "exec/clerk.h"

/* What a request holds until the clerk starts it. */
typedef struct __attribute__((may_alias)) order {
    void *data;
    uint64_t bytes;
    int32_t peer;
    uint32_t tag : 30, sends : 1, some : 1; /* some: a shorter message will do */
} order;
_Static_assert(sizeof(order) <= sizeof(((peali_net_req *)0)->word), "a request has room for an order");

typedef struct courier {
    peali_net net;
    peali_net *inner;
    char apart[2][64];     /* no line of a cache is of two threads */
    peali_net_req *orders; /* the latest, and from there to the first */
    peali_errand errand;
    peali_net_req *begun;  /* the clerk's: what is under way */
    peali_net_req **last;
    peal_status failed;    /* of what could not be started: what follows it would be taken for it */
} courier;

/* Pairs with take(): who takes the order sees what its data holds. */
static peal_status leave(peali_net *net, order o, peali_net_req *req)
{
    courier *c = (courier *)net;
    memcpy(req->word, &o, sizeof o);
    req->status = PEAL_IN_PROGRESS;
    req->next = peali_load_relaxed(&c->orders);
    while (!peali_push_release(&c->orders, &req->next, req))
        ;
    peali_clerk_wake(c->errand.clerk + 1);
    return PEAL_OK;
}

static peal_status courier_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    return leave(net, (order){(void *)(uintptr_t)data, bytes, peer, tag, true, false}, req);
}

static peal_status courier_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return leave(net, (order){data, bytes, peer, tag, false, false}, req);
}

static peal_status courier_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return leave(net, (order){data, bytes, peer, tag, false, true}, req);
}

/* Pairs with over(). */
static peal_status courier_test(peali_net *net, peali_net_req *req)
{
    return (peal_status)peali_load_acquire(&req->status);
}

/* The caller's again. */
static void over(peali_net_req *req, peal_status status)
{
    peali_store_release(&req->status, (int64_t)status);
}

/* All orders, the first one first. */
static peali_net_req *take(courier *c)
{
    if (!peali_load_relaxed(&c->orders)) /* of a line that is left to who adds to it */
        return NULL;
    peali_net_req *latest = peali_take_acquire(&c->orders), *first = NULL;
    while (latest) {
        peali_net_req *before = latest->next;
        latest->next = first;
        first = latest;
        latest = before;
    }
    return first;
}

static peal_status start(const courier *c, peali_net_req *req)
{
    const order o = *(const order *)req->word; /* which is INNER's from now on */
    if (c->failed != PEAL_OK)
        return c->failed;
    if (o.sends)
        return c->inner->send(c->inner, o.peer, o.tag, o.data, o.bytes, req);
    return (o.some ? c->inner->recv_some : c->inner->recv)(c->inner, o.peer, o.tag, o.data, o.bytes, req);
}

static bool begin_orders(courier *c)
{
    peali_net_req *req = take(c), *next;
    const bool any = req;
    for (; req; req = next) {
        next = req->next;
        peal_status status = start(c, req);
        if (status != PEAL_OK) {
            c->failed = status;
            over(req, status);
            continue;
        }
        req->next = NULL;
        *c->last = req;
        c->last = &req->next;
    }
    return any;
}

/* Takes the one at AT out of what is under way. */
static void drop(courier *c, peali_net_req **at)
{
    peali_net_req *req = *at;
    *at = req->next;
    if (c->last == &req->next)
        c->last = at;
}

static bool work(peali_errand *errand, bool rested)
{
    courier *c = (courier *)((char *)errand - offsetof(courier, errand));
    bool moved = begin_orders(c), driven = false;
    peali_net_req **at = &c->begun;
    while (*at) {
        peali_net_req *req = *at;
        peal_status status = (driven && c->inner->peek ? c->inner->peek : c->inner->test)(c->inner, req);
        driven = true;
        if (status == PEAL_IN_PROGRESS) {
            at = &req->next;
            continue;
        }
        drop(c, at);
        over(req, status);
        moved = true;
    }
    c->errand.busy = c->begun;
    return moved;
}

static bool cancel(courier *c, peali_net_req *req)
{
    peali_net_req **at = &c->begun;
    while (*at && *at != req)
        at = &(*at)->next;
    if (*at) {
        drop(c, at);
        return c->inner->cancel(c->inner, req);
    }
    at = &c->orders; /* nobody else takes any now, or leaves them */
    while (*at && *at != req)
        at = &(*at)->next;
    if (*at)
        *at = req->next;
    return true;
}

static bool courier_cancel(peali_net *net, peali_net_req *req)
{
    courier *c = (courier *)net;
    peali_clerk_lock(&c->errand);
    const bool forgotten = cancel(c, req);
    peali_clerk_unlock(&c->errand);
    return forgotten;
}

/*
 * The clerk drives INNER where it has messages of this net, but never the host library, which may be for this thread alone. Where
 * that is INNER, it is one that both may call.
 */
static peal_status courier_progress(peali_net *net)
{
    peali_net *driven = net->aside ? net->aside : ((courier *)net)->inner;
    return driven->progress(driven);
}

static peal_status courier_flush(peali_net *net)
{
    courier *c = (courier *)net;
    peali_clerk_lock(&c->errand);
    peal_status status = c->inner->flush(c->inner);
    peali_clerk_unlock(&c->errand);
    return status;
}

static void courier_describe(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes)
{
    peali_net *inner = ((courier *)net)->inner;
    inner->describe(inner, peer, tag, sends, text, bytes);
}

static void courier_forsake(peali_net *net)
{
    peali_net *inner = ((courier *)net)->inner;
    inner->forsake(inner);
}

static void courier_destroy(peali_net *net)
{
    courier *c = (courier *)net;
    peali_clerk_take_back(&c->errand);
    peali_free(c);
}

static void stand_before(courier *c, peali_net *inner)
{
    c->inner = inner;
    c->net = (peali_net){.name = inner->name, .rank = inner->rank, .nranks = inner->nranks, .aside = inner->aside,
                         .rails = inner->rails, .send = courier_send, .recv = courier_recv, .recv_some = courier_recv_some,
                         .test = courier_test, .cancel = courier_cancel, .progress = courier_progress, .flush = courier_flush,
                         .describe = inner->describe ? courier_describe : NULL,
                         .forsake = inner->forsake ? courier_forsake : NULL, .destroy = courier_destroy};
}

void peali_courier_move(peali_net *net, peali_net *inner)
{
    courier *c = (courier *)net;
    peali_clerk_lock(&c->errand);
    stand_before(c, inner);
    peali_clerk_unlock(&c->errand);
}

peal_status peali_courier_create(peali_net *inner, peali_net **net)
{
    courier *c = peali_alloc(1, sizeof *c);
    if (!c)
        return PEAL_ERR_MEMORY;
    c->errand = (peali_errand){.clerk = 0, .pass = work, .called = true};
    c->last = &c->begun;
    stand_before(c, inner);
    const int error = peali_clerk_give(&c->errand);
    if (error) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, inner->rank, "no thread to move messages while this rank computes: %s; raise the "
                  "limit of threads, or take PEAL_PROGRESS_THREAD=0", strerror(error));
        peali_free(c);
        return PEAL_ERR_SYSTEM;
    }
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, inner->rank, "messages of long calls are moved by a thread");
    *net = &c->net;
    return PEAL_OK;
}
