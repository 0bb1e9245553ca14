/*
 * A kernel cannot wake a thread: while something moves, and a little longer, the proxy looks again and again; then it naps, for
 * longer and longer, so that what a graph orders after a pause waits a millisecond at most, and what is under way much less. What
 * the host enqueues wakes it.
 *
 * Orders of a lane are started in their order, which is that of both ends' programs, so that messages of one peer, lane of the
 * algorithm and lane of the kernel meet in pairs by one tag.
 */
#include "exec/proxy.h"

#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    LOOKS = 16000,
    YIELD_EVERY = 16, /* looks in vain */
    NAP_NS = 20000,
    LONGEST_NAP_NS = 1000000, /* where nothing is under way; else a nap is as short as the first */
    LISTEN_EVERY = 256, /* passes; what is heard then is no news to who is at work */
    LANE_BITS = 6,
};

/* Behind the tags of the host's calls and their leads: those of messages, and the one of words. */
enum {
    TAGS = PEALI_PROXY_TAGS + 1,
    WORD_TAG = TAGS + (1 << 2 * LANE_BITS),
};

/* An order, from when it was taken to when it is over. */
typedef struct letter {
    peali_post_order order;
    bool over, head_over;
    peali_post_head head; /* sent ahead, or as it arrived */
    peali_net_req req, head_req;
} letter;

/* Orders up to `over` are over, those up to `taken` under way; numbers go round. */
typedef struct desk {
    uint32_t over, taken;
    letter letters[PEALI_POST_ORDERS];
} desk;

/* Words to another rank, and from it. */
typedef struct line {
    bool listening, sending;
    peali_net_req send, recv;
    peali_proxy_word heard;
} line;

struct peali_proxy {
    peali_net *net;
    peali_proxy_word told; /* by this rank */
    line *lines;           /* per rank */
    peali_proxy_box box;
    peali_proxy_news news;
    bool driven; /* in this pass */
    peali_proxy *next;
    desk desks[];
};

/* Of the process: the list under lock; thread, under turn, is for who starts and ends it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;
static peali_proxy *all;
static bool ending, napping;
static int wanted; /* threads that want the lock, which the proxy leaves to them */
static unsigned idle; /* passes in which nothing moved; the proxy's own, as is: */
static bool busy;     /* something was under way in the last one */
static pthread_t thread;

static void take_lock(void)
{
    (void)peali_add_relaxed(&wanted, 1);
    pthread_mutex_lock(&lock);
    (void)peali_add_relaxed(&wanted, -1);
}

static unsigned char *message_of(const peali_proxy *p, const peali_post_order *o)
{
    return p->box.messages + (size_t)o->at * PEALI_POST_UNIT;
}

static peali_post_head head_of(const peali_post_order *o)
{
    return (peali_post_head){o->signature, o->epoch, (uint64_t)o->units * PEALI_POST_UNIT};
}

static uint32_t tag_of(const peali_post_order *o, uint32_t lane)
{
    return TAGS + (lane << LANE_BITS | o->lane);
}

static void fail(peali_proxy *p, const peali_post_order *o, peal_status status, uint32_t its)
{
    if (p->news.status == PEAL_OK)
        p->news = (peali_proxy_news){status, o->peer, o->signature, its};
}

static bool serves(const peali_proxy *p)
{
    return p->news.status == PEAL_OK;
}

/* The head of a message in a device's memory goes ahead of it, from and to where the host sees it. */
static peal_status start_head(const peali_proxy *p, uint32_t tag, letter *l)
{
    const peali_post_order *o = &l->order;
    l->head = head_of(o);
    l->head_over = !p->box.device;
    if (!p->box.device && o->sends)
        memcpy(message_of(p, o), &l->head, sizeof l->head);
    if (!p->box.device)
        return PEAL_OK;
    return o->sends ? p->net->send(p->net, o->peer, tag, &l->head, sizeof l->head, &l->head_req)
                    : p->net->recv(p->net, o->peer, tag, &l->head, sizeof l->head, &l->head_req);
}

static peal_status start(const peali_proxy *p, uint32_t lane, letter *l)
{
    const peali_post_order *o = &l->order;
    const uint32_t tag = tag_of(o, lane);
    const size_t apart = p->box.device ? sizeof l->head : 0, bytes = (size_t)o->units * PEALI_POST_UNIT - apart;
    unsigned char *at = message_of(p, o) + apart;
    peal_status status = start_head(p, tag, l);
    if (status != PEAL_OK)
        return status;
    status = o->sends ? p->net->send(p->net, o->peer, tag, at, bytes, &l->req)
                      : p->net->recv_some(p->net, o->peer, tag, at, p->box.most - apart, &l->req);
    if (status != PEAL_OK && !l->head_over)
        p->net->cancel(p->net, &l->head_req);
    return status;
}

/* Starts what kernels have ordered; the number is released by them when the order stands beside it. */
static void take(peali_proxy *p, uint32_t lane)
{
    desk *d = &p->desks[lane];
    for (;;) {
        const peali_post_order *order = &p->box.post->orders[lane][(d->taken + 1) % PEALI_POST_ORDERS];
        if (peali_load_acquire(&order->number) != d->taken + 1)
            return;
        letter *l = &d->letters[++d->taken % PEALI_POST_ORDERS];
        l->order = *order;
        peal_status status = start(p, lane, l);
        l->over = status != PEAL_OK; /* it was not started */
        if (l->over)
            fail(p, &l->order, status, 0);
    }
}

/* Two calls that differ do not take each other's data. */
static peal_status compare(const letter *l)
{
    const peali_post_head mine = head_of(&l->order);
    return l->order.sends || memcmp(&mine, &l->head, sizeof mine) == 0 ? PEAL_OK : PEAL_ERR_MISMATCH;
}

/* To drive the transport for each of what is under way, which are hundreds, takes longer than their messages. */
static peal_status ask(peali_proxy *p, peali_net_req *req)
{
    if (p->driven && p->net->peek)
        return p->net->peek(p->net, req);
    p->driven = true;
    return p->net->test(p->net, req);
}

static peal_status test_head(peali_proxy *p, letter *l)
{
    peal_status status = ask(p, &l->head_req);
    l->head_over = status != PEAL_IN_PROGRESS;
    if (status == PEAL_OK)
        status = compare(l);
    if (status < 0)
        p->net->cancel(p->net, &l->req);
    return status;
}

/* PEAL_OK: L is over, and what it brought is where kernels see it. */
static peal_status test(peali_proxy *p, letter *l)
{
    peal_status status = l->head_over ? PEAL_OK : test_head(p, l);
    if (status == PEAL_OK)
        status = ask(p, &l->req);
    if (status != PEAL_OK || l->order.sends)
        return status;
    if (p->box.device)
        return p->box.device->flush(p->box.device->ctx);
    memcpy(&l->head, message_of(p, &l->order), sizeof l->head);
    return compare(l);
}

/* The data is there before the flag (bulk::begin acquires it). */
static void look(peali_proxy *p, uint32_t lane, letter *l)
{
    const peali_post_order *o = &l->order;
    peal_status status = test(p, l);
    if (status == PEAL_IN_PROGRESS)
        return;
    l->over = true;
    if (status != PEAL_OK)
        fail(p, o, status, status == PEAL_ERR_MISMATCH ? l->head.signature : 0);
    else if (!o->sends)
        peali_store_release(&p->box.post->flags[lane][o->epoch & 1][o->slot], o->flag);
}

/* Does anything move? A kernel takes the areas of what is over (get_areas acquires it). */
static bool serve(peali_proxy *p, uint32_t lane)
{
    desk *d = &p->desks[lane];
    const uint32_t taken = d->taken, before = d->over;
    take(p, lane);
    for (uint32_t n = d->over + 1; n != d->taken + 1 && serves(p); n++)
        if (!d->letters[n % PEALI_POST_ORDERS].over)
            look(p, lane, &d->letters[n % PEALI_POST_ORDERS]);
    if (!serves(p))
        return false;
    while (d->over != d->taken && d->letters[(d->over + 1) % PEALI_POST_ORDERS].over)
        d->over++;
    if (d->over != before)
        peali_store_release(&p->box.post->over[lane].number, d->over);
    return d->over != before || d->taken != taken;
}

/* Serves all lanes: does anything move? */
static bool serve_all(peali_proxy *p)
{
    bool moved = false;
    p->driven = false;
    for (uint32_t lane = 0; lane < p->box.lanes && serves(p); lane++)
        moved |= serve(p, lane);
    return moved;
}

/* Is anything under way, of messages that have not failed? */
static bool is_busy(const peali_proxy *p)
{
    bool any = false;
    for (uint32_t lane = 0; lane < p->box.lanes && serves(p); lane++)
        any |= p->desks[lane].over != p->desks[lane].taken;
    return any;
}

/* What cannot be told need not be: the ranks that wait have deadlines. */
static void tell(peali_proxy *p)
{
    for (int r = 0; r < p->net->nranks; r++)
        if (r != p->net->rank)
            p->lines[r].sending = p->net->send(p->net, r, WORD_TAG, &p->told, sizeof p->told, &p->lines[r].send) == PEAL_OK;
}

/* Are words of this rank still under way? */
static bool listen(peali_proxy *p)
{
    bool left = false;
    for (int r = 0; r < p->net->nranks; r++) {
        line *l = &p->lines[r];
        if (l->sending)
            left |= l->sending = p->net->test(p->net, &l->send) == PEAL_IN_PROGRESS;
        peal_status status = l->listening ? p->net->test(p->net, &l->recv) : PEAL_IN_PROGRESS;
        l->listening &= status == PEAL_IN_PROGRESS;
        if (status != PEAL_OK && status != PEAL_IN_PROGRESS)
            l->heard.status = PEAL_OK;
    }
    return left;
}

/* A pass over all lanes of all posts: did anything move? */
static bool pass(void)
{
    static unsigned passes;
    bool moved = false, listens = idle > LOOKS || ++passes % LISTEN_EVERY == 0;
    busy = false;
    for (peali_proxy *p = all; p; p = p->next) {
        moved |= serve_all(p);
        busy |= is_busy(p);
        if (listens)
            (void)listen(p);
    }
    return moved;
}

static void nap(void)
{
    int64_t ns = (int64_t)NAP_NS << (busy ? 0 : idle - LOOKS < 16 ? idle - LOOKS : 16);
    peali_store_relaxed(&napping, true);
    if (peali_thread_cond_wait(&news, &lock, ns < LONGEST_NAP_NS ? ns : LONGEST_NAP_NS))
        idle = 0;
    peali_store_relaxed(&napping, false);
}

static void *work(void *arg)
{
    pthread_mutex_lock(&lock);
    while (!ending) {
        idle = pass() ? 0 : idle + 1;
        if (idle > LOOKS) {
            nap();
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (idle % YIELD_EVERY == 1)
            peali_clock_yield();
        while (peali_load_relaxed(&wanted) > 0)
            peali_clock_yield();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A child has no such thread, and must not wait for it. */
static void before_fork(void)
{
    pthread_mutex_lock(&turn);
    take_lock();
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&turn);
}

static void in_child(void)
{
    all = NULL;
    after_fork();
}

static void prepare(void)
{
    peali_thread_cond_init(&news);
    pthread_atfork(before_fork, after_fork, in_child);
}

static int start_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    ending = false;
    idle = 0;
    return peali_thread_start(&thread, work);
}

/* Returns whether there were others. */
static bool enlist(peali_proxy *p)
{
    take_lock();
    p->next = all;
    all = p;
    pthread_mutex_unlock(&lock);
    return p->next;
}

/* Returns whether it was the last. From here on P is the caller's alone. */
static bool delist(const peali_proxy *p)
{
    take_lock();
    peali_proxy **at = &all;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    ending = !all;
    bool last = ending;
    pthread_mutex_unlock(&lock);
    return last;
}

static void cancel(const peali_proxy *p, letter *l)
{
    if (!l->head_over)
        p->net->cancel(p->net, &l->head_req);
    p->net->cancel(p->net, &l->req);
}

static void forget(const peali_proxy *p, desk *d)
{
    for (uint32_t n = d->over + 1; n != d->taken + 1; n++)
        if (!d->letters[n % PEALI_POST_ORDERS].over)
            cancel(p, &d->letters[n % PEALI_POST_ORDERS]);
}

static peali_proxy *make(peali_net *net, const peali_proxy_box *box)
{
    peali_proxy *p = peali_alloc(1, sizeof *p + box->lanes * sizeof *p->desks);
    line *lines = peali_alloc((size_t)net->nranks, sizeof *lines);
    if (!p || !lines) {
        peali_free(p);
        peali_free(lines);
        return NULL;
    }
    p->net = net;
    p->box = *box;
    p->lines = lines;
    for (int r = 0; r < net->nranks; r++) {
        line *l = &lines[r];
        l->listening = r != net->rank && net->recv(net, r, WORD_TAG, &l->heard, sizeof l->heard, &l->recv) == PEAL_OK;
    }
    return p;
}

/* Forgets what is under way. */
static void discard(peali_proxy *p)
{
    for (uint32_t lane = 0; lane < p->box.lanes; lane++)
        forget(p, &p->desks[lane]);
    for (int r = 0; r < p->net->nranks; r++) {
        if (p->lines[r].sending)
            p->net->cancel(p->net, &p->lines[r].send);
        if (p->lines[r].listening)
            p->net->cancel(p->net, &p->lines[r].recv);
    }
    peali_free(p->lines);
    peali_free(p);
}

peal_status peali_proxy_begin(peali_net *net, const peali_proxy_box *box, peali_proxy **proxy)
{
    peali_proxy *p = make(net, box);
    *proxy = NULL;
    if (!p)
        return PEAL_ERR_MEMORY;
    pthread_mutex_lock(&turn);
    int error = enlist(p) ? 0 : start_thread();
    if (error)
        delist(p);
    pthread_mutex_unlock(&turn);
    if (!error) {
        *proxy = p;
        return PEAL_OK;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, net->rank, "no thread for the messages of GPUs: %s; raise the limit of threads",
              strerror(error));
    discard(p);
    return PEAL_ERR_SYSTEM;
}

/* What the kernels sent last may be under way: the calls of their receivers may depend on it. */
static void finish(peali_proxy *p, int64_t patience_ns)
{
    const int64_t end_ns = peali_clock_ns() + patience_ns;
    for (bool left = true; left && peali_clock_ns() < end_ns; peali_clock_yield()) {
        left = listen(p);
        (void)serve_all(p);
        left |= is_busy(p);
        left |= p->net->flush(p->net) == PEAL_IN_PROGRESS;
    }
}

void peali_proxy_end(peali_proxy **proxy, int64_t patience_ns)
{
    peali_proxy *p = *proxy;
    *proxy = NULL;
    if (!p)
        return;
    pthread_mutex_lock(&turn);
    if (delist(p)) {
        pthread_cond_signal(&news);
        pthread_join(thread, NULL);
    }
    pthread_mutex_unlock(&turn);
    finish(p, patience_ns);
    discard(p);
}

peali_proxy_news peali_proxy_ask(const peali_proxy *proxy)
{
    take_lock();
    const peali_proxy_news latest = proxy->news;
    pthread_mutex_unlock(&lock);
    return latest;
}

void peali_proxy_tell(peali_proxy *proxy, const peali_proxy_word *word)
{
    take_lock();
    if (proxy->told.status == PEAL_OK) {
        proxy->told = *word;
        fail(proxy, &(peali_post_order){.peer = (uint16_t)proxy->net->rank}, (peal_status)word->status, 0);
        tell(proxy);
    }
    pthread_mutex_unlock(&lock);
}

bool peali_proxy_heard(peali_proxy *proxy, int32_t *from, peali_proxy_word *word)
{
    bool heard = false;
    take_lock();
    for (int r = 0; r < proxy->net->nranks && !heard; r++) {
        line *l = &proxy->lines[r];
        heard = r != proxy->net->rank && !l->listening && l->heard.status != PEAL_OK;
        if (heard) {
            *from = r;
            *word = l->heard;
            l->heard.status = PEAL_OK;
        }
    }
    pthread_mutex_unlock(&lock);
    return heard;
}

/* The oldest of any lane. */
static const letter *late(const peali_proxy *p, uint32_t lane)
{
    const desk *d = &p->desks[lane];
    for (uint32_t n = d->over + 1; n != d->taken + 1; n++) {
        const letter *l = &d->letters[n % PEALI_POST_ORDERS];
        if (!l->over && !l->order.sends)
            return l;
    }
    return NULL;
}

int32_t peali_proxy_waits(peali_proxy *proxy, char *text, size_t bytes)
{
    int32_t peer = -1;
    text[0] = '\0';
    take_lock();
    for (uint32_t lane = 0; lane < proxy->box.lanes && peer < 0; lane++) {
        const letter *l = late(proxy, lane);
        peer = l ? l->order.peer : -1;
        if (l && proxy->net->describe)
            proxy->net->describe(proxy->net, peer, tag_of(&l->order, lane), false, text, bytes);
    }
    pthread_mutex_unlock(&lock);
    return peer;
}

void peali_proxy_wake(void)
{
    if (peali_load_relaxed(&napping))
        pthread_cond_signal(&news);
}
