/*
 * A provider of registered memory that has no device but knows the truth: it notes what memory lay at each page when that was
 * registered, and a key is stale where other memory lies there when it is used. Addresses are numbers that nobody reads.
 */
#ifndef REGION_TRUTH_H
#define REGION_TRUTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/envelope.h"
#include "net/regions.h"

enum { PAGES = 256, TOLD = 1, MOST_KEYS = 1 << 16 };
#define BASE ((uintptr_t)1 << 40)

/* What lies at a page: another number for all memory that was ever there; 0: none. Odd numbers are told. */
typedef struct truth {
    pthread_mutex_t lock;
    size_t page;
    uint64_t at[PAGES];
    uint64_t last;
    int entered, left;      /* registrations so far, and those that ended */
    uintptr_t first, end;   /* of the last registration */
    bool device;            /* likewise */
    int refuse;             /* so many of the next registrations */
} truth;

/* A registration, as the provider keeps it. */
typedef struct pinned {
    uint64_t serial;
    int first, end;
    uint64_t at[]; /* the memory that it reaches */
} pinned;

static pinned *alive[MOST_KEYS]; /* by serial, modulo */

static inline void *address(const truth *t, int page)
{
    return (void *)(BASE + (uintptr_t)page * t->page);
}

static inline peal_status enter(void *ctx, void *at, size_t bytes, bool device, void **handle)
{
    truth *t = ctx;
    int first = (int)(((uintptr_t)at - BASE) / t->page), pages = (int)(bytes / t->page);
    pthread_mutex_lock(&t->lock);
    bool refused = t->refuse > 0;
    t->refuse -= refused;
    pinned *p = refused ? NULL : malloc(sizeof *p + (size_t)pages * sizeof *p->at);
    if (p) {
        *p = (pinned){.serial = (uint64_t)++t->entered, .first = first, .end = first + pages};
        memcpy(p->at, &t->at[first], (size_t)pages * sizeof *p->at);
        alive[p->serial % MOST_KEYS] = p;
        t->first = (uintptr_t)at;
        t->end = (uintptr_t)at + bytes;
        t->device = device;
    }
    pthread_mutex_unlock(&t->lock);
    *handle = p;
    return p ? PEAL_OK : PEAL_ERR_MEMORY;
}

static inline size_t key(void *ctx, void *handle, void *to)
{
    memcpy(to, &((pinned *)handle)->serial, sizeof(uint64_t));
    return sizeof(uint64_t);
}

static inline void leave(void *ctx, void *handle)
{
    truth *t = ctx;
    pinned *p = handle;
    pthread_mutex_lock(&t->lock);
    t->left++;
    alive[p->serial % MOST_KEYS] = NULL;
    pthread_mutex_unlock(&t->lock);
    free(p);
}

static inline bool told(void *ctx, const void *at, size_t bytes)
{
    truth *t = ctx;
    size_t first = ((uintptr_t)at - BASE) / t->page, all = 1;
    pthread_mutex_lock(&t->lock);
    for (size_t i = first; i < first + bytes / t->page; i++)
        all &= t->at[i] & TOLD;
    pthread_mutex_unlock(&t->lock);
    return all;
}

static inline void open_truth(truth *t, peali_provider *provider)
{
    *t = (truth){.page = (size_t)sysconf(_SC_PAGESIZE)};
    pthread_mutex_init(&t->lock, NULL);
    *provider = (peali_provider){.ctx = t, .key_most = 16, .enter = enter, .key = key, .leave = leave, .told = told};
}

/* New memory of PAGES at FIRST. */
static inline uint64_t put(truth *t, int first, int pages, bool is_told)
{
    pthread_mutex_lock(&t->lock);
    uint64_t what = (t->last += 2) | is_told;
    for (int i = first; i < first + pages; i++)
        t->at[i] = what;
    pthread_mutex_unlock(&t->lock);
    return what;
}

/* Does the key of REGION reach the memory that is now at the BYTES from ADDRESS? */
static inline bool reaches(truth *t, const peali_region *region, const void *at, size_t bytes)
{
    char why[PEALI_ENVELOPE_WHY];
    size_t got;
    uint64_t serial;
    const void *inside = peali_envelope_open(region->key, region->key_bytes, PEALI_ENVELOPE_KEY, &got, why);
    if (!inside || got != sizeof serial)
        return false;
    memcpy(&serial, inside, sizeof serial);
    int first = (int)(((uintptr_t)at - BASE) / t->page), end = (int)(((uintptr_t)at + bytes - BASE + t->page - 1) / t->page);
    pthread_mutex_lock(&t->lock);
    const pinned *p = alive[serial % MOST_KEYS];
    bool right = p && p == region->handle && p->serial == serial && p->first <= first && end <= p->end;
    for (int i = first; right && i < end; i++)
        right = p->at[i - p->first] == t->at[i];
    pthread_mutex_unlock(&t->lock);
    return right;
}

static inline const peali_region *take(peali_regions *c, void *at, size_t bytes, const peali_allocation *of)
{
    const peali_region *region = NULL;
    assert_int_equal(peali_regions_take(c, 0, at, bytes, of, &region), PEAL_OK);
    return region;
}

/* Takes and gives back; the key reaches the memory. */
static inline void use(truth *t, peali_regions *c, void *at, size_t bytes, const peali_allocation *of)
{
    const peali_region *region = take(c, at, bytes, of);
    assert_true(reaches(t, region, at, bytes));
    peali_regions_give(c, region);
}

#endif
