/*
 * Regions that are kept lie in an array in the order of their addresses, and never overlap: where a new one would, it covers the
 * old ones too, or takes their place. An array, because it is searched far more often than changed, and a change comes with a
 * registration, beside which moving a few pointers is nothing.
 *
 * The lock of a cache is held for such steps alone. An entry that is being registered is in a list of its own, so that what is
 * forgotten meanwhile is known: it serves its caller, who vouches for the memory, and is not kept.
 */
#include "net/regions.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "net/envelope.h"

typedef struct entry entry;
struct entry {
    peali_region region; /* the first member */
    entry *next, *prev;  /* in the ring of idle ones, or of those being registered; in the chain of those to be released */
    uint64_t id;
    int users;
    bool kept;   /* in the array */
    bool spoilt; /* forgotten while it was registered */
    char envelope[];
};

struct peali_regions {
    pthread_mutex_t lock; /* of all below it */
    entry idle;           /* a ring: kept and not in use, the one that was used longest ago first */
    entry making;         /* a ring */
    entry *gone;          /* a chain: to be released */
    int n;
    size_t bytes; /* of those that are kept */
    entry **kept;
    int most;
    size_t bytes_most, page;
    peali_provider provider;
    peali_regions *next; /* under caches_lock */
};

/* All caches of the process, for those who free memory know none of them. */
static peali_regions *caches;
static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the lock of a cache */

static void put_last(entry *ring, entry *e)
{
    e->next = ring;
    e->prev = ring->prev;
    e->prev->next = ring->prev = e;
}

static void take_out(entry *e)
{
    e->prev->next = e->next;
    e->next->prev = e->prev;
}

static void discard(peali_regions *c, entry *e)
{
    e->next = c->gone;
    c->gone = e;
}

static entry *take_gone(peali_regions *c)
{
    entry *gone = c->gone;
    c->gone = NULL;
    return gone;
}

/* No lock is held. */
static void release(const peali_regions *c, entry *gone)
{
    while (gone) {
        entry *next = gone->next;
        c->provider.leave(c->provider.ctx, gone->region.handle);
        peali_free(gone);
        gone = next;
    }
}

static size_t length(const entry *e)
{
    return e->region.end - e->region.first;
}

/* The index of the first kept region that ends behind ADDRESS. */
static int behind(const peali_regions *c, uintptr_t address)
{
    int low = 0, high = c->n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (c->kept[middle]->region.end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool overlaps(const peali_region *r, uintptr_t first, uintptr_t end)
{
    return r->first < end && first < r->end;
}

/* Takes the kept region at index I out of the array; where nobody uses it, it is to be released. */
static void drop(peali_regions *c, int i)
{
    entry *e = c->kept[i];
    memmove(&c->kept[i], &c->kept[i + 1], (size_t)(--c->n - i) * sizeof *c->kept);
    c->bytes -= length(e);
    e->kept = false;
    if (e->users > 0)
        return;
    take_out(e);
    discard(c, e);
}

static void drop_range(peali_regions *c, uintptr_t first, uintptr_t end)
{
    int i = behind(c, first);
    while (i < c->n && overlaps(&c->kept[i]->region, first, end))
        drop(c, i);
}

/* The kept region of memory ID that covers all from FIRST to END, with one user more; NULL: there is none. */
static entry *find(peali_regions *c, uintptr_t first, uintptr_t end, uint64_t id)
{
    int i = behind(c, first);
    entry *e = i < c->n ? c->kept[i] : NULL;
    if (!e || e->id != id || e->region.first > first || e->region.end < end)
        return NULL;
    if (e->users++ == 0)
        take_out(e);
    return e;
}

/* Extends RANGE over the kept regions of host memory that it overlaps, so that calls that take turns do not drive them out. */
static void widen(const peali_regions *c, peali_region *range)
{
    peali_region wide = *range;
    for (int i = behind(c, range->first); i < c->n && overlaps(&c->kept[i]->region, range->first, range->end); i++) {
        const entry *e = c->kept[i];
        if (e->id != 0)
            continue; /* of memory that is there no more */
        wide.first = e->region.first < wide.first ? e->region.first : wide.first;
        wide.end = e->region.end > wide.end ? e->region.end : wide.end;
    }
    if (wide.end - wide.first <= c->bytes_most)
        *range = wide;
}

/* Makes room for one region of BYTES; false where those in use leave none. */
static bool make_room(peali_regions *c, size_t bytes)
{
    if (bytes > c->bytes_most)
        return false;
    while ((c->n >= c->most || c->bytes > c->bytes_most - bytes) && c->idle.next != &c->idle)
        drop(c, behind(c, c->idle.next->region.first));
    return c->n < c->most && c->bytes <= c->bytes_most - bytes;
}

static void insert(peali_regions *c, entry *e)
{
    int i = behind(c, e->region.first);
    memmove(&c->kept[i + 1], &c->kept[i], (size_t)(c->n++ - i) * sizeof *c->kept);
    c->kept[i] = e;
    c->bytes += length(e);
    e->kept = true;
}

/*
 * Keeps E, which has been registered, where it may be; else it serves its one user. Another thread may have been faster. Returns
 * the entry to use.
 */
static entry *keep(peali_regions *c, entry *e, bool may)
{
    take_out(e);
    entry *other = find(c, e->region.first, e->region.end, e->id);
    if (other) {
        discard(c, e);
        return other;
    }
    drop_range(c, e->region.first, e->region.end);
    if (may && !e->spoilt && make_room(c, length(e)))
        insert(c, e);
    return e;
}

static peal_status enter(const peali_regions *c, entry *e)
{
    peali_region *r = &e->region;
    return c->provider.enter(c->provider.ctx, (void *)r->first, length(e), e->id != 0, &r->handle);
}

/*
 * What a transport refuses may be for want of what idle regions hold, as memory that may be locked; or because what RANGE was
 * widened by is gone by now.
 */
static peal_status enter_or_do_with_less(peali_regions *c, entry *e, const peali_region *range)
{
    peal_status status = enter(c, e);
    bool wider = length(e) > range->end - range->first;
    if (status == PEAL_OK)
        return status;
    pthread_mutex_lock(&c->lock);
    e->region = *range;
    while (c->idle.next != &c->idle)
        drop(c, behind(c, c->idle.next->region.first));
    entry *gone = take_gone(c);
    pthread_mutex_unlock(&c->lock);
    release(c, gone);
    return gone || wider ? enter(c, e) : status;
}

static void seal(const peali_regions *c, entry *e)
{
    size_t bytes = c->provider.key(c->provider.ctx, e->region.handle, e->envelope + PEALI_ENVELOPE_HEAD);
    assert(bytes <= c->provider.key_most);
    peali_envelope_seal(e->envelope, PEALI_ENVELOPE_KEY, bytes);
    e->region.key = e->envelope;
    e->region.key_bytes = PEALI_ENVELOPE_HEAD + bytes;
}

/* An entry of RANGE, in the list of those being registered. The lock is held, but not to allocate it. */
static void begin(peali_regions *c, entry *e, const peali_region *range, const peali_allocation *of)
{
    *e = (entry){.region = *range, .id = of ? of->id : 0, .users = 1};
    if (!of)
        widen(c, &e->region);
    put_last(&c->making, e);
}

/*
 * Whether host memory is told is asked when E is in the list already: if it is and that changes, peali_regions_forget finds E.
 * What is not told must not be widened either, to memory that nobody vouches for.
 */
static peal_status fill(peali_regions *c, entry *e, const peali_region *range, int rank, bool *may)
{
    const peali_provider *p = &c->provider;
    *may = e->id != 0 || (p->told && p->told(p->ctx, (void *)range->first, range->end - range->first));
    if (!*may) {
        pthread_mutex_lock(&c->lock);
        e->region = *range;
        pthread_mutex_unlock(&c->lock);
    }
    peal_status status = enter_or_do_with_less(c, e, range);
    if (status == PEAL_OK)
        seal(c, e);
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no registration of %zu bytes at %p (ulimit -l may be low): %s",
                  length(e), (void *)e->region.first, peal_status_text(status));
    return status;
}

/* Registers RANGE and keeps it, if it may. */
static peal_status make(peali_regions *c, int rank, const peali_region *range, const peali_allocation *of, entry **out)
{
    bool may;
    entry *e = peali_alloc(1, sizeof *e + PEALI_ENVELOPE_HEAD + c->provider.key_most);
    if (!e)
        return PEAL_ERR_MEMORY;
    pthread_mutex_lock(&c->lock);
    begin(c, e, range, of);
    pthread_mutex_unlock(&c->lock);
    peal_status status = fill(c, e, range, rank, &may);
    pthread_mutex_lock(&c->lock);
    if (status == PEAL_OK)
        *out = keep(c, e, may);
    else
        take_out(e);
    entry *gone = take_gone(c);
    pthread_mutex_unlock(&c->lock);
    release(c, gone);
    if (status != PEAL_OK)
        peali_free(e);
    return status;
}

/* What is registered for the BYTES at AT: the whole allocation, or their pages. */
static peali_region range_of(const peali_regions *c, void *at, size_t bytes, const peali_allocation *of)
{
    uintptr_t first = (uintptr_t)at, end = first + bytes, mask = c->page - 1;
    if (of)
        return (peali_region){.first = (uintptr_t)of->at, .end = (uintptr_t)of->at + of->bytes};
    return (peali_region){.first = first & ~mask, .end = (end + mask) & ~mask};
}

peal_status peali_regions_take(peali_regions *c, int rank, void *at, size_t bytes, const peali_allocation *of,
                               const peali_region **region)
{
    peali_region range = range_of(c, at, bytes, of);
    assert(bytes > 0 && range.first <= (uintptr_t)at && (uintptr_t)at + bytes <= range.end);
    pthread_mutex_lock(&c->lock);
    entry *e = find(c, range.first, range.end, of ? of->id : 0);
    pthread_mutex_unlock(&c->lock);
    peal_status status = e ? PEAL_OK : make(c, rank, &range, of, &e);
    if (status == PEAL_OK)
        *region = &e->region;
    return status;
}

void peali_regions_give(peali_regions *c, const peali_region *region)
{
    entry *e = (entry *)region; /* its first member */
    pthread_mutex_lock(&c->lock);
    assert(e->users > 0);
    if (--e->users == 0 && e->kept)
        put_last(&c->idle, e);
    else if (e->users == 0)
        discard(c, e);
    entry *gone = take_gone(c);
    pthread_mutex_unlock(&c->lock);
    release(c, gone);
}

static void forget(peali_regions *c, uintptr_t first, uintptr_t end)
{
    pthread_mutex_lock(&c->lock);
    drop_range(c, first, end);
    for (entry *e = c->making.next; e != &c->making; e = e->next)
        e->spoilt |= overlaps(&e->region, first, end);
    pthread_mutex_unlock(&c->lock);
}

void peali_regions_forget(const void *at, size_t bytes)
{
    pthread_mutex_lock(&caches_lock);
    for (peali_regions *c = caches; c; c = c->next)
        forget(c, (uintptr_t)at, (uintptr_t)at + bytes);
    pthread_mutex_unlock(&caches_lock);
}

peali_regions *peali_regions_create(const peali_provider *provider, int most, size_t bytes_most)
{
    peali_regions *c = peali_alloc(1, sizeof *c);
    entry **kept = peali_alloc((size_t)most + 1, sizeof *kept);
    if (!c || !kept) {
        peali_free(c);
        peali_free(kept);
        return NULL;
    }
    *c = (peali_regions){.provider = *provider, .most = most, .bytes_most = bytes_most, .kept = kept};
    c->page = (size_t)sysconf(_SC_PAGESIZE);
    c->idle.next = c->idle.prev = &c->idle;
    c->making.next = c->making.prev = &c->making;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_lock(&caches_lock);
    c->next = caches;
    caches = c;
    pthread_mutex_unlock(&caches_lock);
    return c;
}

void peali_regions_destroy(peali_regions **cache)
{
    peali_regions *c = *cache, **at = &caches;
    *cache = NULL;
    if (!c)
        return;
    pthread_mutex_lock(&caches_lock);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&caches_lock);
    for (int i = 0; i < c->n; i++) {
        assert(c->kept[i]->users == 0);
        discard(c, c->kept[i]);
    }
    release(c, c->gone);
    pthread_mutex_destroy(&c->lock);
    peali_free(c->kept);
    peali_free(c);
}
