/*
 * Messages between threads of one process, always by rendezvous: the later of a send and its receive copies, straight from one
 * buffer to the other, and only then do both end. Nothing is stored on the way, so no message allocates, and an algorithm that
 * would hang on a network without buffers hangs here too.
 *
 * The queues are made of the callers' requests. Each pair of ranks has its own lock, so only the two of them ever meet at it,
 * and the copy is made outside of it.
 */
#include "net/net_loop.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/thread.h"

static const int64_t SOON_NS = 1500 * 1000000; /* who is late for longer is named */

enum state { PENDING, DONE, FAILED };

/* A peali_net_req, as this transport fills it. */
struct __attribute__((may_alias)) request {
    struct request *next;
    void *data;
    size_t bytes;
    uint32_t tag : 31, some : 1; /* some: a receive that a shorter message will do for */
    int state; /* released by `finish`, acquired by `test`: the copied bytes */
    struct pair *pair;
};
_Static_assert(sizeof(struct request) <= sizeof(((peali_net_req *)0)->word), "a request fits");

struct queue {
    struct request *head, **tail; /* tail: where the next one is hooked in */
};

/* What waits between one sender and one receiver; for each tag at most one of the queues holds any. */
struct pair {
    _Alignas(64) pthread_mutex_t lock;
    struct queue sends, recvs;
    int copying; /* copies under way; released by `match`, acquired by `forget`: they have let go of the requests */
};

struct loop_net {
    peali_net net;
    struct world *world;
};

/* One communicator: the nets of all ranks and what lies between them. It lives until the last of them is destroyed. */
struct world {
    struct world *next;
    peali_arena memory;
    peal_threads *threads;
    struct loop_net *nets; /* by rank */
    struct pair *pairs;    /* by sender, then receiver */
    int index;             /* how many were made before it */
    int left;              /* ranks that have not destroyed their net yet, */
    int here;              /* and those of them that have one */
};

struct peal_threads {
    int nranks;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t all_here;
    int waiting;
    unsigned turn; /* meetings so far */
    bool broken;   /* a rank gave up waiting, and its MINE may be gone */
    bool gone;     /* for its user: it ends with the last of its nets */
    unsigned *came; /* of each rank: the last meeting that it has come to, counted from 1 */
    const void **mine;
    int *made; /* nets that each rank has made */
    struct world *worlds;
};

static struct pair *between(const struct loop_net *l, int from, int to)
{
    return &l->world->pairs[(size_t)from * (size_t)l->net.nranks + (size_t)to];
}

static void queue_clear(struct queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

static void queue_put(struct queue *q, struct request *r)
{
    r->next = NULL;
    *q->tail = r;
    q->tail = &r->next;
}

/* Takes out of Q what AT, a link of it, leads to; or answers NULL. */
static struct request *queue_unlink(struct queue *q, struct request **at)
{
    struct request *r = *at;
    if (r) {
        *at = r->next;
        if (!r->next)
            q->tail = at;
    }
    return r;
}

/* Takes the first request with TAG out of Q, or answers NULL. */
static struct request *queue_take(struct queue *q, uint32_t tag)
{
    struct request **at = &q->head;
    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    return queue_unlink(q, at);
}

static void finish(struct request *r, enum state state)
{
    peali_store_release(&r->state, (int)state);
}

static void deliver(struct request *send, struct request *recv, int from, int to)
{
    bool fits = recv->some ? send->bytes <= recv->bytes : send->bytes == recv->bytes;
    enum state state = fits ? DONE : FAILED;
    if (state == FAILED)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, to,
                  "message from rank %d tag %u has %zu bytes, its receive %zu: make the same call with the same count on all ranks",
                  from, send->tag, send->bytes, recv->bytes);
    else if (send->bytes > 0)
        memcpy(recv->data, send->data, send->bytes);
    finish(send, state);
    finish(recv, state);
}

/* Delivers R and its counterpart from THEIRS, or leaves R in MINE. */
static void match(struct pair *pair, struct request *r, struct queue *mine, struct queue *theirs, int from, int to)
{
    pthread_mutex_lock(&pair->lock);
    struct request *other = queue_take(theirs, r->tag);
    if (other)
        peali_add_relaxed(&pair->copying, 1);
    else
        queue_put(mine, r);
    pthread_mutex_unlock(&pair->lock);
    if (!other)
        return;
    if (mine == &pair->sends)
        deliver(r, other, from, to);
    else
        deliver(other, r, from, to);
    __atomic_fetch_sub(&pair->copying, 1, __ATOMIC_RELEASE);
}

static struct request *fill(peali_net_req *req, struct pair *pair, uint32_t tag, void *data, size_t bytes)
{
    struct request *r = (struct request *)req;
    *r = (struct request){.data = data, .bytes = bytes, .tag = tag, .state = PENDING, .pair = pair};
    return r;
}

static peal_status loop_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    struct pair *pair = between((struct loop_net *)net, net->rank, peer);
    match(pair, fill(req, pair, tag, (void *)data, bytes), &pair->sends, &pair->recvs, net->rank, peer);
    return PEAL_OK;
}

static peal_status loop_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    struct pair *pair = between((struct loop_net *)net, peer, net->rank);
    match(pair, fill(req, pair, tag, data, bytes), &pair->recvs, &pair->sends, peer, net->rank);
    return PEAL_OK;
}

static peal_status loop_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    struct pair *pair = between((struct loop_net *)net, peer, net->rank);
    struct request *r = fill(req, pair, tag, data, bytes);
    r->some = 1;
    match(pair, r, &pair->recvs, &pair->sends, peer, net->rank);
    return PEAL_OK;
}

static peal_status loop_test(peali_net *net, peali_net_req *req)
{
    switch (peali_load_acquire(&((struct request *)req)->state)) {
    case PENDING: return PEAL_IN_PROGRESS;
    case DONE: return PEAL_OK;
    default: return PEAL_ERR_NET;
    }
}

static bool queue_remove(struct queue *q, const struct request *r)
{
    struct request **at = &q->head;
    while (*at && *at != r)
        at = &(*at)->next;
    return queue_unlink(q, at);
}

/* A request that is in no queue any more is in the hands of a peer that copies, and soon ends. */
static bool loop_cancel(peali_net *net, peali_net_req *req)
{
    struct request *r = (struct request *)req;
    pthread_mutex_lock(&r->pair->lock);
    bool waiting = queue_remove(&r->pair->sends, r) || queue_remove(&r->pair->recvs, r);
    pthread_mutex_unlock(&r->pair->lock);
    while (!waiting && peali_load_acquire(&r->state) == PENDING)
        peali_clock_yield();
    return true;
}

/* The peers are threads, and may be waiting for this very core. */
static peal_status loop_progress(peali_net *net)
{
    peali_clock_yield();
    return PEAL_OK;
}

/* A send has ended when its bytes are at the receiver. */
static peal_status loop_flush(peali_net *net)
{
    return PEAL_OK;
}

/* Leaves no request of a failed communicator behind, neither in Q nor in the hands of a peer that copies. */
static void forget(struct pair *pair, struct queue *q)
{
    pthread_mutex_lock(&pair->lock);
    queue_clear(q);
    pthread_mutex_unlock(&pair->lock);
    while (peali_load_acquire(&pair->copying) > 0)
        peali_clock_yield();
}

static void world_free(struct world *w, int nranks)
{
    for (size_t i = 0; i < (size_t)nranks * (size_t)nranks; i++)
        pthread_mutex_destroy(&w->pairs[i].lock);
    peali_arena memory = w->memory;
    peali_arena_free(&memory);
}

static void threads_free(peal_threads *t)
{
    pthread_cond_destroy(&t->all_here);
    pthread_mutex_destroy(&t->lock);
    peali_free(t->came);
    peali_free(t->mine);
    peali_free(t->made);
    peali_free(t);
}

/* Ends the worlds whose ranks have all gone, or where THREADS has gone, those that will come to nothing. */
static void end_worlds(peal_threads *t)
{
    for (struct world **at = &t->worlds; *at;) {
        struct world *w = *at;
        bool over = w->left == 0 || (t->gone && w->here == 0);
        if (over)
            *at = w->next;
        else
            at = &w->next;
        if (over)
            world_free(w, t->nranks);
    }
}

static void loop_destroy(peali_net *net)
{
    struct loop_net *l = (struct loop_net *)net;
    struct world *w = l->world;
    peal_threads *t = w->threads;
    for (int peer = 0; peer < net->nranks; peer++) {
        forget(between(l, net->rank, peer), &between(l, net->rank, peer)->sends);
        forget(between(l, peer, net->rank), &between(l, peer, net->rank)->recvs);
    }
    pthread_mutex_lock(&t->lock);
    w->left--;
    w->here--;
    end_worlds(t);
    bool last = t->gone && !t->worlds;
    pthread_mutex_unlock(&t->lock);
    if (last)
        threads_free(t);
}

static struct world *world_make(peal_threads *threads, int index)
{
    size_t n = (size_t)threads->nranks;
    peali_arena memory = {NULL};
    struct world *w = peali_arena_get(&memory, 1, sizeof(*w));
    struct loop_net *nets = peali_arena_get(&memory, n, sizeof(*nets));
    struct pair *pairs = peali_arena_get(&memory, n * n, sizeof(*pairs));
    if (!w || !nets || !pairs) {
        peali_arena_free(&memory);
        return NULL;
    }
    for (size_t i = 0; i < n * n; i++) {
        pthread_mutex_init(&pairs[i].lock, NULL);
        queue_clear(&pairs[i].sends);
        queue_clear(&pairs[i].recvs);
    }
    *w = (struct world){.next = threads->worlds, .memory = memory, .threads = threads, .nets = nets, .pairs = pairs};
    w->index = index;
    w->left = threads->nranks;
    threads->worlds = w;
    return w;
}

/* The world of the next net of RANK: made by the first rank that comes. Where that had no memory, others may still. */
static struct world *world_get(peal_threads *threads, int rank)
{
    pthread_mutex_lock(&threads->lock);
    int index = threads->made[rank]++;
    struct world *w = threads->worlds;
    while (w && w->index != index)
        w = w->next;
    if (!w)
        w = world_make(threads, index);
    if (w)
        w->here++;
    pthread_mutex_unlock(&threads->lock);
    return w;
}

peal_status peali_net_loop_create(peal_threads *threads, int rank, peali_net **net)
{
    struct world *w = world_get(threads, rank);
    if (!w) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no memory for a communicator of %d threads", threads->nranks);
        return PEAL_ERR_MEMORY;
    }
    struct loop_net *l = &w->nets[rank];
    l->world = w;
    l->net = (peali_net){.name = "loop", .rank = rank, .nranks = threads->nranks, .send = loop_send, .recv = loop_recv,
                         .recv_some = loop_recv_some, .test = loop_test, .cancel = loop_cancel, .progress = loop_progress,
                         .flush = loop_flush, .destroy = loop_destroy, .any_thread = true};
    *net = &l->net;
    return PEAL_OK;
}

peal_status peal_threads_create(int nranks, peal_threads **threads)
{
    if (nranks < 1 || !threads) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_threads_create: nranks %d, threads %p: use 1 or more, and the address "
                  "of a peal_threads *", nranks, (void *)threads);
        return PEAL_ERR_INVALID;
    }
    peal_threads *t = peali_alloc(1, sizeof(*t));
    const void **mine = peali_alloc((size_t)nranks, sizeof(*mine));
    int *made = peali_alloc((size_t)nranks, sizeof(*made));
    unsigned *came = peali_alloc((size_t)nranks, sizeof(*came));
    if (!t || !mine || !made || !came) {
        peali_free(t);
        peali_free(mine);
        peali_free(made);
        peali_free(came);
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_threads_create: no memory for nranks %d", nranks);
        return PEAL_ERR_MEMORY;
    }
    *t = (peal_threads){.nranks = nranks, .came = came, .mine = mine, .made = made};
    peali_thread_cond_init(&t->all_here);
    pthread_mutex_init(&t->lock, NULL);
    *threads = t;
    return PEAL_OK;
}

void peal_threads_destroy(peal_threads **threads)
{
    if (!threads || !*threads)
        return;
    peal_threads *t = *threads;
    *threads = NULL;
    pthread_mutex_lock(&t->lock);
    t->gone = true;
    end_worlds(t);
    bool used = t->worlds != NULL;
    pthread_mutex_unlock(&t->lock);
    if (used)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_threads_destroy: communicators that were made on it are not destroyed "
                  "yet; what they need of it stays until they are");
    else
        threads_free(t);
}

int peali_threads_size(const peal_threads *threads)
{
    return threads->nranks;
}

/* Waits at all_here up to UNTIL_NS of the clock; false where that has passed. */
static bool wait_until(peal_threads *t, int64_t until_ns)
{
    struct timespec at = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(&t->all_here, &t->lock, &at) == 0;
}

/* Names those that have not come; the lowest rank that has speaks for all. */
static void name_missing(const peal_threads *t, int rank, int64_t waited_ns)
{
    enum { NAMED = 16 };
    char who[12 * NAMED] = "", more[24] = "";
    size_t at = 0;
    int missing = 0;
    for (int r = 0; r < t->nranks; r++) {
        if (t->came[r] == t->turn + 1 && r < rank)
            return;
        if (t->came[r] != t->turn + 1 && missing++ < NAMED)
            at += (size_t)snprintf(who + at, sizeof who - at, "%s%d", missing > 1 ? ", " : "", r);
    }
    if (missing > NAMED)
        snprintf(more, sizeof more, " and %d more", missing - NAMED);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "peal_comm_create_threads waits since %.1f s: no word from rank%s %s%s of %d; "
              "each rank needs a thread that calls", (double)waited_ns * 1e-9, missing > 1 ? "s" : "", who, more, t->nranks);
}

/* Who gives up spoils it for all, so that nobody reads what is gone. */
static void give_up(peal_threads *t)
{
    t->broken = true;
    pthread_cond_broadcast(&t->all_here);
}

static void come(peal_threads *t, int rank)
{
    if (t->came[rank] == t->turn + 1) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "peal_comm_create_threads: two threads call as rank %d of %d; each needs a "
                  "rank of its own", rank, t->nranks);
        give_up(t);
        return;
    }
    t->came[rank] = t->turn + 1;
    if (++t->waiting < t->nranks)
        return;
    t->waiting = 0;
    t->turn++;
    pthread_cond_broadcast(&t->all_here);
}

/* Ends when all ranks have come, the lock being held. */
static peal_status meet(peal_threads *t, int rank)
{
    int64_t set = peali_config_get()->timeout_ns, limit = set > 0 ? set : set < 0 ? PEALI_DEFAULT_TIMEOUT_NS : INT64_MAX / 2;
    int64_t began = peali_clock_ns(), say = began + (limit / 4 * 3 < SOON_NS ? limit / 4 * 3 : SOON_NS), until = began + limit;
    unsigned turn = t->turn;
    if (!t->broken)
        come(t, rank);
    while (turn == t->turn && !t->broken) {
        if (wait_until(t, say < until ? say : until) || turn != t->turn || t->broken)
            continue;
        int64_t now = peali_clock_ns();
        if (now >= say)
            name_missing(t, rank, now - began);
        say = now >= say ? INT64_MAX : say;
        if (now < until)
            continue;
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "%d of %d threads came within PEAL_TIMEOUT %.3f s: each rank needs one",
                  t->waiting, t->nranks, (double)limit * 1e-9);
        give_up(t);
    }
    return t->broken ? PEAL_ERR_TIMEOUT : PEAL_OK;
}

peal_status peali_threads_allgather(peal_threads *threads, int rank, const void *mine, void *all, size_t bytes)
{
    pthread_mutex_lock(&threads->lock);
    threads->mine[rank] = mine;
    peal_status status = meet(threads, rank);
    for (int r = 0; status == PEAL_OK && bytes > 0 && r < threads->nranks; r++)
        memcpy((char *)all + (size_t)r * bytes, threads->mine[r], bytes);
    if (status == PEAL_OK)
        status = meet(threads, rank);
    pthread_mutex_unlock(&threads->lock);
    return status;
}

peal_status peali_threads_agree(peal_threads *threads, int rank, peal_status status)
{
    peal_status worst = status;
    pthread_mutex_lock(&threads->lock);
    threads->mine[rank] = &status;
    peal_status met = meet(threads, rank);
    for (int r = 0; met == PEAL_OK && r < threads->nranks; r++) {
        peal_status theirs = *(const peal_status *)threads->mine[r];
        worst = theirs < worst ? theirs : worst;
    }
    if (met == PEAL_OK)
        met = meet(threads, rank);
    pthread_mutex_unlock(&threads->lock);
    return met == PEAL_OK ? worst : met;
}
