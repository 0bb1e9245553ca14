/* A lock that is held while it looks. */
#include "comm/watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

static const int64_t PAUSE_NS = 100 * 1000000;

/* Of the process: all of it under lock, but for thread, which only who starts and ends it touches. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, turn = PTHREAD_MUTEX_INITIALIZER; /* turn: to start or end the thread */
static pthread_cond_t news;
static peali_watched *all;
static bool ending;
static pthread_t thread;

static void *watch(void *arg)
{
    pthread_mutex_lock(&lock);
    while (!ending) {
        for (peali_watched *w = all; w; w = w->next)
            w->look(w);
        peali_thread_cond_wait(&news, &lock, PAUSE_NS);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/*
 * A child has no such thread, and must not wait for it: it begins anew. Who forks takes no lock here: who looks holds this one and
 * takes the proxy's, and handlers of a fork run in the order in which the two were first used.
 */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&turn, NULL);
    peali_thread_cond_init(&news);
    all = NULL;
}

static void prepare(void)
{
    peali_thread_cond_init(&news);
    pthread_atfork(NULL, NULL, in_child);
}

static int start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    ending = false;
    return peali_thread_start(&thread, watch, NULL);
}

/* Returns whether there were others. */
static bool enlist(peali_watched *watched)
{
    pthread_mutex_lock(&lock);
    watched->next = all;
    all = watched;
    pthread_mutex_unlock(&lock);
    return watched->next;
}

/* Returns whether it was the last. */
static bool delist(const peali_watched *watched)
{
    pthread_mutex_lock(&lock);
    peali_watched **at = &all;
    while (*at && *at != watched)
        at = &(*at)->next;
    bool was = *at;
    if (was)
        *at = watched->next;
    ending = was && !all;
    bool last = ending;
    pthread_mutex_unlock(&lock);
    return last;
}

peal_status peali_watch_begin(peali_watched *watched)
{
    pthread_mutex_lock(&turn);
    int error = enlist(watched) ? 0 : start();
    if (error)
        delist(watched);
    pthread_mutex_unlock(&turn);
    if (error)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "no thread to watch GPUs: %s; raise the limit of threads", strerror(error));
    return error ? PEAL_ERR_SYSTEM : PEAL_OK;
}

void peali_watch_end(peali_watched *watched)
{
    pthread_mutex_lock(&turn);
    if (delist(watched)) {
        pthread_cond_signal(&news);
        pthread_join(thread, NULL);
    }
    pthread_mutex_unlock(&turn);
}
