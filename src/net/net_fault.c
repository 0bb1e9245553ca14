/*
 * Time is the number of calls that drive progress. A message gets a moment at random, and its turn then; one that follows another
 * of its channel (rank, tag, direction) gets no earlier one, for a channel keeps its order. What counts as an operation does not
 * depend on how often a rank asks in vain.
 */
#include "net/net_fault.h"

#include "base/arena.h"
#include "base/log.h"

/* A message of the caller: held back, or under way in the inner net. */
struct message {
    struct message *next, *before; /* among those held, in the order they came; `next` also links the unused */
    bool held, receives, some; /* some: a receive that a shorter message will do for */
    int peer;
    uint32_t tag;
    void *data;
    size_t bytes;
    uint64_t due;
    peali_net_req req;
};

/* A peali_net_req, as this transport fills it. */
struct __attribute__((may_alias)) request {
    struct message *message;
};

struct fault_net {
    peali_net net;
    peali_net *inner;
    peali_fault fault;
    uint64_t random, now;
    int64_t operations;
    peali_arena memory;
    struct message *unused, *first, *last; /* of those held */
};

/* Source: Vigna's splitmix64, public domain. */
static uint64_t random_next(struct fault_net *f)
{
    uint64_t z = f->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* One operation more: PEAL_OK, or its failure. */
static peal_status operate(struct fault_net *f, const char *what, int peer)
{
    int64_t n = ++f->operations, at = f->fault.fail_at;
    if (at == 0 || n < at || (n > at && !f->fault.lasting))
        return PEAL_OK;
    if (n == at)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, f->net.rank, "fault: operation %lld, %s rank %d, fails by request of seed %llu",
                  (long long)n, what, peer, (unsigned long long)f->fault.seed);
    return PEAL_ERR_NET;
}

static struct message *message_get(struct fault_net *f)
{
    enum { MORE = 64 };
    if (!f->unused) {
        struct message *more = peali_arena_get(&f->memory, MORE, sizeof(*more));
        for (int i = 0; more && i < MORE; i++) {
            more[i].next = f->unused;
            f->unused = &more[i];
        }
    }
    struct message *m = f->unused;
    if (m)
        f->unused = m->next;
    return m;
}

static void message_put(struct fault_net *f, struct message *m)
{
    m->next = f->unused;
    f->unused = m;
}

static void hold(struct fault_net *f, struct message *m)
{
    m->held = true;
    m->due = f->now + (f->fault.delay > 0 ? random_next(f) % (uint64_t)f->fault.delay : 0);
    for (const struct message *b = f->last; b; b = b->before)
        if (b->peer == m->peer && b->tag == m->tag && b->receives == m->receives) {
            m->due = m->due > b->due ? m->due : b->due;
            break;
        }
    m->next = NULL;
    m->before = f->last;
    *(f->last ? &f->last->next : &f->first) = m;
    f->last = m;
}

static void release(struct fault_net *f, struct message *m)
{
    m->held = false;
    *(m->before ? &m->before->next : &f->first) = m->next;
    *(m->next ? &m->next->before : &f->last) = m->before;
}

static peal_status post(peali_net *inner, struct message *m)
{
    if (!m->receives)
        return inner->send(inner, m->peer, m->tag, m->data, m->bytes, &m->req);
    return (m->some ? inner->recv_some : inner->recv)(inner, m->peer, m->tag, m->data, m->bytes, &m->req);
}

/* Lets those go on whose turn it is. */
static peal_status let_due(struct fault_net *f)
{
    peal_status status = PEAL_OK;
    for (struct message *m = f->first, *next; m && status == PEAL_OK; m = next) {
        next = m->next;
        if (m->due > f->now)
            continue;
        status = post(f->inner, m);
        if (status == PEAL_OK)
            release(f, m);
    }
    return status;
}

static peal_status pass_time(struct fault_net *f)
{
    f->now++;
    return let_due(f);
}

static peal_status start(struct fault_net *f, const struct message *like, peali_net_req *req)
{
    peal_status status = operate(f, like->receives ? "a receive from" : "a send to", like->peer);
    if (status != PEAL_OK)
        return status;
    struct message *m = message_get(f);
    if (!m) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, f->net.rank, "fault: no memory to hold a message back");
        return PEAL_ERR_MEMORY;
    }
    *m = *like;
    ((struct request *)req)->message = m;
    hold(f, m);
    return let_due(f);
}

static peal_status fault_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    struct message like = {.peer = peer, .tag = tag, .data = (void *)data, .bytes = bytes};
    return start((struct fault_net *)net, &like, req);
}

static peal_status fault_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    struct message like = {.receives = true, .peer = peer, .tag = tag, .data = data, .bytes = bytes};
    return start((struct fault_net *)net, &like, req);
}

static peal_status fault_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    struct message like = {.receives = true, .some = true, .peer = peer, .tag = tag, .data = data, .bytes = bytes};
    return start((struct fault_net *)net, &like, req);
}

static peal_status fault_test(peali_net *net, peali_net_req *req)
{
    struct fault_net *f = (struct fault_net *)net;
    struct message *m = ((struct request *)req)->message;
    peal_status status = pass_time(f);
    if (status != PEAL_OK)
        return status;
    status = m->held ? PEAL_IN_PROGRESS : f->inner->test(f->inner, &m->req);
    if (status == PEAL_IN_PROGRESS)
        return status;
    if (status == PEAL_OK)
        status = operate(f, m->receives ? "the end of a receive from" : "the end of a send to", m->peer);
    message_put(f, m);
    return status;
}

static bool fault_cancel(peali_net *net, peali_net_req *req)
{
    struct fault_net *f = (struct fault_net *)net;
    struct message *m = ((struct request *)req)->message;
    bool forgotten = m->held || f->inner->cancel(f->inner, &m->req);
    if (m->held)
        release(f, m);
    message_put(f, m);
    return forgotten;
}

static peal_status fault_progress(peali_net *net)
{
    struct fault_net *f = (struct fault_net *)net;
    peal_status status = pass_time(f);
    return status == PEAL_OK ? f->inner->progress(f->inner) : status;
}

static peal_status fault_flush(peali_net *net)
{
    struct fault_net *f = (struct fault_net *)net;
    peal_status status = f->inner->flush(f->inner);
    return status == PEAL_OK ? operate(f, "the end of a flush by", net->rank) : status;
}

static peal_status fault_meet(peali_net *net, const void *cards, size_t stride)
{
    struct fault_net *f = (struct fault_net *)net;
    peal_status status = f->inner->meet(f->inner, cards, stride);
    net->rails = f->inner->rails;
    return status;
}

static void fault_describe(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes)
{
    struct fault_net *f = (struct fault_net *)net;
    f->inner->describe(f->inner, peer, tag, sends, text, bytes);
}

static peal_status fault_map(peali_net *net, const peali_net_memory *memory, peali_net_why *why)
{
    struct fault_net *f = (struct fault_net *)net;
    return f->inner->map(f->inner, memory, why);
}

static void fault_unmap(peali_net *net)
{
    struct fault_net *f = (struct fault_net *)net;
    f->inner->unmap(f->inner);
}

static void fault_destroy(peali_net *net)
{
    struct fault_net *f = (struct fault_net *)net;
    f->inner->destroy(f->inner);
    peali_arena_free(&f->memory);
    peali_free(f);
}

peal_status peali_net_fault_create(peali_net *inner, const peali_fault *fault, peali_net **net)
{
    struct fault_net *f = peali_alloc(1, sizeof(*f));
    if (!f)
        return PEAL_ERR_MEMORY;
    f->inner = inner;
    f->fault = *fault;
    f->random = fault->seed * 1000003u + (uint64_t)inner->rank;
    f->net = (peali_net){.name = inner->name, .rank = inner->rank, .nranks = inner->nranks,
                         .device_memory = inner->device_memory, .any_thread = inner->any_thread,
                         .card = inner->card, .card_bytes = inner->card_bytes,
                         .meet = fault_meet, .send = fault_send, .recv = fault_recv,
                         .recv_some = fault_recv_some, .test = fault_test, .cancel = fault_cancel,
                         .progress = fault_progress, .flush = fault_flush, .destroy = fault_destroy};
    f->net.describe = inner->describe ? fault_describe : NULL;
    f->net.map = inner->map ? fault_map : NULL;
    f->net.unmap = inner->unmap ? fault_unmap : NULL;
    *net = &f->net;
    return PEAL_OK;
}
