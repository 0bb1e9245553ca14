/*
 * A kernel cannot wake a thread: while something moves, and a little longer, a clerk looks again and again; then it naps, for
 * longer and longer, so that what a graph orders after a pause waits a millisecond at most, and what is under way much less. What
 * the host enqueues wakes those who are to serve it: that took 3 us of the caller each, and 20 to 40 until they looked. Who has
 * nothing but errands that are called, and nothing under way, sleeps at once.
 */
#include "exec/clerk.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/thread.h"

enum {
    LOOKS = 100000, /* about 10 ms: calls of GPUs that follow each other sooner find their clerks awake */
    CALLED_LOOKS = 20, /* of who is woken for what there is, and should be gone when the program has threads for all its cores */
    YIELD_EVERY = 16, /* looks in vain */
    NAP_NS = 20000,
    LONGEST_NAP_NS = 1000000, /* where nothing is under way, each nap being twice as long as the one before; else */
    NAPS = 128,               /* are as long as the first, so many again twice that, and so on, so that */
    DOUBLED = 4,              /* what has been waited for comes late by no more than a hundredth of that: 320 us at most */
};

/* Errands and what was seen of them are under the lock; the thread is under turn. */
typedef struct clerk {
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t news;
    peali_errand *errands;
    bool ending;
    int wanted;    /* threads that want the lock, which the clerk leaves to them */
    uint32_t seen; /* of calls, before its last nap */
    unsigned idle; /* passes in which nothing moved */
    bool busy;     /* something was under way in the last one */
    bool looks;    /* there may be something to do that nobody calls for */
    pthread_t thread;
    _Alignas(64) uint32_t calls; /* enqueued: of a line of their own, which a clerk that is awake leaves to who counts */
    int napping;                 /* 1, or 0 */
} clerk;

static const int64_t SLEEP_NS = 60 * 1000000000LL; /* of who is called */

static clerk clerks[PEALI_CLERKS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* of who starts and ends threads */

static void take_lock(clerk *c)
{
    (void)peali_add_relaxed(&c->wanted, 1);
    pthread_mutex_lock(&c->lock);
    (void)peali_add_relaxed(&c->wanted, -1);
}

void peali_clerk_lock(const peali_errand *errand)
{
    take_lock(&clerks[errand->clerk]);
}

void peali_clerk_unlock(const peali_errand *errand)
{
    pthread_mutex_unlock(&clerks[errand->clerk].lock);
}

/* Looks in vain before it naps. */
static unsigned patience(const clerk *c)
{
    return c->looks ? LOOKS : CALLED_LOOKS;
}

/* A pass over all errands: did anything move? */
static bool pass(clerk *c)
{
    bool moved = false, rested = c->idle > patience(c);
    c->busy = c->looks = false;
    for (peali_errand *j = c->errands; j; j = j->next) {
        moved |= j->pass(j, rested);
        c->busy |= j->busy;
        c->looks |= j->busy || !j->called;
    }
    return moved;
}

/* Either the clerk sees the call, or who enqueues it the nap. */
static void nap(clerk *c)
{
    const unsigned naps = c->idle - patience(c);
    const unsigned doubled = c->busy ? naps / NAPS : naps, most = c->busy ? DOUBLED : 16;
    const int64_t ns = (int64_t)NAP_NS << (doubled < most ? doubled : most);
    (void)peali_add_ordered(&c->napping, 1);
    if (peali_load_ordered(&c->calls) == c->seen)
        peali_thread_cond_wait(&c->news, &c->lock, !c->looks ? SLEEP_NS : ns < LONGEST_NAP_NS ? ns : LONGEST_NAP_NS);
    peali_store_relaxed(&c->napping, 0);
    const uint32_t calls = peali_load_acquire(&c->calls); /* pairs with wake: what was to be done is seen in the next pass */
    if (calls != c->seen)
        c->idle = 0;
    c->seen = calls;
}

static void *work(void *arg)
{
    clerk *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        c->idle = pass(c) ? 0 : c->idle + 1;
        if (c->idle > patience(c)) {
            nap(c);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        if (c->idle % YIELD_EVERY == 1)
            peali_clock_give_way();
        while (peali_load_relaxed(&c->wanted) > 0)
            peali_clock_yield();
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void freshen(void)
{
    for (int i = 0; i < PEALI_CLERKS; i++) {
        pthread_mutex_init(&clerks[i].lock, NULL);
        peali_thread_cond_init(&clerks[i].news);
    }
}

/*
 * A child has no such threads, and must not wait for them: it begins anew. Who forks takes no lock here: who holds the watch's may
 * wait for one of these, and handlers of a fork run in the order in which the two were first used.
 */
static void in_child(void)
{
    pthread_mutex_init(&turn, NULL);
    memset(clerks, 0, sizeof clerks);
    freshen();
}

static void prepare(void)
{
    freshen();
    pthread_atfork(NULL, NULL, in_child);
}

/* Returns whether there were others. */
static bool enlist(clerk *c, peali_errand *errand)
{
    take_lock(c);
    errand->next = c->errands;
    c->errands = errand;
    pthread_mutex_unlock(&c->lock);
    pthread_cond_signal(&c->news); /* it may sleep as its others let it */
    return errand->next;
}

/* Returns whether it was the last. */
static bool delist(clerk *c, const peali_errand *errand)
{
    take_lock(c);
    peali_errand **at = &c->errands;
    while (*at != errand)
        at = &(*at)->next;
    *at = errand->next;
    c->ending = !c->errands;
    bool last = c->ending;
    pthread_mutex_unlock(&c->lock);
    return last;
}

static int start_thread(clerk *c)
{
    c->ending = false;
    c->idle = 0;
    return peali_thread_start(&c->thread, work, c);
}

int peali_clerk_give(peali_errand *errand)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    clerk *c = &clerks[errand->clerk];
    pthread_once(&once, prepare);
    pthread_mutex_lock(&turn);
    int error = enlist(c, errand) ? 0 : start_thread(c);
    if (error)
        delist(c, errand);
    pthread_mutex_unlock(&turn);
    return error;
}

void peali_clerk_take_back(peali_errand *errand)
{
    clerk *c = &clerks[errand->clerk];
    pthread_mutex_lock(&turn);
    if (delist(c, errand)) {
        pthread_cond_signal(&c->news);
        pthread_join(c->thread, NULL);
    }
    pthread_mutex_unlock(&turn);
}

void peali_clerk_wake(unsigned first)
{
    for (unsigned i = 0; i < first; i++) {
        clerk *c = &clerks[i];
        (void)peali_add_ordered(&c->calls, 1);
        if (peali_exchange_ordered(&c->napping, 0) == 0) /* awake, or being woken */
            continue;
        take_lock(c); /* it waits */
        pthread_mutex_unlock(&c->lock);
        pthread_cond_signal(&c->news);
    }
}
