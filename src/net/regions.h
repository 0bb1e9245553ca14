/*
 * Memory that a transport has registered, kept so for later calls: registering costs more than many messages do.
 *
 * Never a stale key. What is kept must be known to be the same memory still, so it depends on how its end is learnt:
 *
 * - An allocation of a device has an id that no other ever has (CUDA's buffer id). It is registered whole, and each use compares
 *   the id: where another is there now, the old registration is not used again.
 * - Host memory whose provider is told before it goes (`told`) is registered in whole pages, and peali_regions_forget ends it.
 *   That is Peal's pool: peal_mem_alloc, and large blocks under libpeal_heap.
 * - Of other host memory (malloc, mmap, a stack) nobody hears when it goes and other pages come in its place. It is registered for
 *   its use alone, and released when the last user gives it back; a program that needs it faster takes memory of the pool.
 *
 * Registered memory may be freed: the transport holds its pages until the registration is released, which here is at the end of the
 * next use, because a thread that frees memory may be inside an allocator, where no transport can be called.
 *
 * A cache serves any number of threads. After a fork, the child must not use its parent's.
 */
#ifndef PEALI_REGIONS_H
#define PEALI_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

/* What a transport gives. It may be called by several threads at once, and never with a lock of the cache held. */
typedef struct peali_provider {
    void *ctx;
    size_t key_most; /* bytes of a key at most */

    /* Registers the BYTES at AT, host memory or (DEVICE) a device's, and puts into HANDLE what names them. */
    peal_status (*enter)(void *ctx, void *at, size_t bytes, bool device, void **handle);

    /* Writes what a peer needs to reach HANDLE's memory to KEY; its bytes. */
    size_t (*key)(void *ctx, void *handle, void *key);

    void (*leave)(void *ctx, void *handle);

    /* Is peali_regions_forget called before any of these bytes of host memory are freed? NULL: of no memory. */
    bool (*told)(void *ctx, const void *at, size_t bytes);
} peali_provider;

/* An allocation of a device, all of it. */
typedef struct peali_allocation {
    void *at;
    size_t bytes;
    uint64_t id; /* not 0, and never another's */
} peali_allocation;

/* What one use of memory gets; constant until it is given back. */
typedef struct peali_region {
    uintptr_t first, end; /* addresses that are registered */
    void *handle;
    const void *key; /* for peers: sealed, of PEALI_ENVELOPE_KEY */
    size_t key_bytes;
} peali_region;

typedef struct peali_regions peali_regions;

/* A cache that keeps at most MOST regions of BYTES_MOST in all: those in use, and of the others the last used. NULL: no memory. */
peali_regions *peali_regions_create(const peali_provider *provider, int most, size_t bytes_most);

/* Releases all; none is in use. */
void peali_regions_destroy(peali_regions **cache);

/*
 * A region that covers the BYTES (1 or more) at AT, which lie in ALLOCATION of a device or (NULL) in host memory. Where it is kept
 * already this allocates nothing and takes O(log MOST) steps. PEAL_OK, or what the provider answers, which was logged for RANK;
 * PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_regions_take(peali_regions *cache, int rank, void *at, size_t bytes,
                                               const peali_allocation *allocation, const peali_region **region);

/* Ends a use. Threads: any. */
void peali_regions_give(peali_regions *cache, const peali_region *region);

/*
 * The BYTES at AT are about to be freed, or to become other memory: no cache of this process keeps them any more. To be called by
 * whoever frees memory that a provider calls told; it calls neither an allocator nor a provider. Threads: any.
 */
void peali_regions_forget(const void *at, size_t bytes);

#endif
