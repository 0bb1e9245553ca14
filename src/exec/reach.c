/* Public memory counts who looks at it, because a rank may leave its communicator while a slower one still reads a flag. */
#include "exec/reach.h"

#include <pthread.h>

#include "base/atomics.h"
#include "exec/pool.h"

/* This process' publics in its pool that it left before a peer did. Process-wide like the pool. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static peali_public *abandoned;

/* They are the parent's, which frees them; what lies there then, a child must not read. Whoever held the lock is not in it. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    abandoned = NULL;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

static void sweep(void)
{
    pthread_mutex_lock(&lock);
    for (peali_public **at = &abandoned, *p; (p = *at);) {
        if (peali_load_acquire(&p->refs) == 0) { /* pairs with release() in the peer's process */
            *at = p->next;
            peali_public_drop(p);
        } else {
            at = &p->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void abandon(peali_public *p)
{
    pthread_mutex_lock(&lock);
    p->next = abandoned;
    abandoned = p;
    pthread_mutex_unlock(&lock);
}

peali_public *peali_public_create(long readers, const peali_lands *lands, bool pooled)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    size_t bytes = sizeof(peali_public) + (size_t)lands->areas * (PEALI_REACH_SLOTS * sizeof(peali_line) + lands->bytes);
    pthread_once(&watched, watch_forks);
    sweep();
    peali_public *p = pooled ? peali_pool_alloc(bytes, PEALI_POOL_PEERS) : peali_alloc_pages(bytes);
    if (!p)
        return NULL;
    p->refs = readers;
    peali_process_self(&p->process);
    p->pooled = pooled;
    p->bytes = bytes;
    return p;
}

void peali_public_drop(peali_public *p)
{
    for (int k = 0; k < 3; k++)
        if (!p->pooled)
            peali_free(p->kept[k]);
        else if (p->kept[k])
            peali_pool_free(p->kept[k]);
    if (p->pooled)
        peali_pool_free(p);
    else
        peali_free_pages(p, p->bytes);
}

void peali_public_release(peali_public *p, bool mine)
{
    bool pooled = p->pooled;
    /* The last release acquires what every other one released, so nobody reads freed memory. */
    bool last = __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0;
    if (last && (mine || !pooled))
        peali_public_drop(p);
    else if (mine && pooled)
        abandon(p);
    if (mine)
        sweep();
}
