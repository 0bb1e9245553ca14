/* A lock around each call: none of them waits for a peer. */
#include "net/net_shared.h"

#include <pthread.h>

#include "base/arena.h"

struct shared_net {
    peali_net net;
    peali_net *inner;
    pthread_mutex_t lock;
};

static peali_net *enter(peali_net *net)
{
    struct shared_net *s = (struct shared_net *)net;
    pthread_mutex_lock(&s->lock);
    return s->inner;
}

static peal_status leave(peali_net *net, peal_status status)
{
    pthread_mutex_unlock(&((struct shared_net *)net)->lock);
    return status;
}

static peal_status shared_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    peali_net *inner = enter(net);
    return leave(net, inner->send(inner, peer, tag, data, bytes, req));
}

static peal_status shared_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    peali_net *inner = enter(net);
    return leave(net, inner->recv(inner, peer, tag, data, bytes, req));
}

static peal_status shared_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    peali_net *inner = enter(net);
    return leave(net, inner->recv_some(inner, peer, tag, data, bytes, req));
}

static peal_status shared_test(peali_net *net, peali_net_req *req)
{
    peali_net *inner = enter(net);
    return leave(net, inner->test(inner, req));
}

static peal_status shared_peek(peali_net *net, peali_net_req *req)
{
    peali_net *inner = enter(net);
    return leave(net, inner->peek(inner, req));
}

static bool shared_cancel(peali_net *net, peali_net_req *req)
{
    peali_net *inner = enter(net);
    bool forgotten = inner->cancel(inner, req);
    (void)leave(net, PEAL_OK);
    return forgotten;
}

static peal_status shared_progress(peali_net *net)
{
    peali_net *inner = enter(net);
    return leave(net, inner->progress(inner));
}

static peal_status shared_flush(peali_net *net)
{
    peali_net *inner = enter(net);
    return leave(net, inner->flush(inner));
}

static void shared_describe(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes)
{
    peali_net *inner = enter(net);
    inner->describe(inner, peer, tag, sends, text, bytes);
    (void)leave(net, PEAL_OK);
}

static peal_status shared_map(peali_net *net, const peali_net_memory *memory, peali_net_why *why)
{
    peali_net *inner = enter(net);
    return leave(net, inner->map(inner, memory, why));
}

static void shared_unmap(peali_net *net)
{
    peali_net *inner = enter(net);
    inner->unmap(inner);
    (void)leave(net, PEAL_OK);
}

static void shared_forsake(peali_net *net)
{
    peali_net *inner = ((struct shared_net *)net)->inner;
    inner->forsake(inner);
}

static peal_status shared_beside(const peali_net *net, int number, peali_net **another)
{
    const peali_net *inner = ((const struct shared_net *)net)->inner;
    return inner->beside(inner, number, another);
}

static void shared_destroy(peali_net *net)
{
    struct shared_net *s = (struct shared_net *)net;
    s->inner->destroy(s->inner);
    pthread_mutex_destroy(&s->lock);
    peali_free(s);
}

peal_status peali_net_shared_create(peali_net *inner, peali_net **net)
{
    if (inner->destroy == shared_destroy) {
        *net = inner;
        return PEAL_OK;
    }
    struct shared_net *s = peali_alloc(1, sizeof *s);
    if (!s)
        return PEAL_ERR_MEMORY;
    pthread_mutex_init(&s->lock, NULL);
    s->inner = inner;
    s->net = *inner;
    s->net.card = NULL; /* the ranks have met */
    s->net.card_bytes = 0;
    s->net.meet = NULL;
    s->net.send = shared_send;
    s->net.recv = shared_recv;
    s->net.recv_some = shared_recv_some;
    s->net.test = shared_test;
    s->net.peek = inner->peek ? shared_peek : NULL;
    s->net.cancel = shared_cancel;
    s->net.progress = shared_progress;
    s->net.flush = shared_flush;
    s->net.describe = inner->describe ? shared_describe : NULL;
    s->net.map = inner->map ? shared_map : NULL;
    s->net.unmap = inner->unmap ? shared_unmap : NULL;
    s->net.forsake = inner->forsake ? shared_forsake : NULL;
    s->net.beside = inner->beside ? shared_beside : NULL;
    s->net.destroy = shared_destroy;
    *net = &s->net;
    return PEAL_OK;
}
