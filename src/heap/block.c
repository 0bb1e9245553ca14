/*
 * A block is an extent of the pool by itself, so no block depends on another. Where blocks start is written in a table beside the
 * pool, not in front of them: a block of 4 MiB is 4 MiB of whole pages, huge ones where there are any.
 *
 * To give pages back and fault them in again costs more than most uses of a block, so freed extents wait here for the next block of
 * about their size, the oldest making room for the newest. Threads hand them over by atomic words, because a lock would have to be
 * taken around fork too.
 */
#include "heap/block.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/idle.h"
#include "exec/pool.h"

/* The largest extent that waits, and the most that all come to: as glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, mallopt(3). */
static const size_t KEPT_BLOCK = (size_t)32 << 20, KEPT_ALL = (size_t)64 << 20;
enum { KEPT = (64 << 20) / PEALI_BLOCK_LEAST, WHOLE = 2 << 20 }; /* as many as there may be; bytes of a huge page */

/* One word is all of an extent: its first page, above whether it was TAKEN at once, and the number of its pages, which is not 0. */
#define TAKEN ((uint64_t)1 << 31)
static struct label {
    uint64_t extent;
    size_t bytes;
} *labels; /* for each PEALI_BLOCK_LEAST of the pool: of the one block that starts there */

/* Like labels, from before pool_bytes, which is 0 without a pool. That is released in see_pool and acquired in bytes_seen. */
static unsigned char *pool_base;
static size_t page;
static size_t pool_bytes;

static uint64_t kept[KEPT]; /* extents that wait, or 0: a ring in which KEPT_TURN counts to the oldest */
static unsigned kept_turn;
static size_t kept_bytes; /* at least what waits */
static size_t blocks;     /* that are the program's */
static size_t taken;      /* bytes of extents that were taken at once and are not back in the pool */

static uint64_t extent_of(const unsigned char *start, size_t bytes)
{
    return (size_t)(start - pool_base) / page << 32 | bytes / page;
}

static unsigned char *start_of(uint64_t extent)
{
    return pool_base + (extent >> 32) * page;
}

static size_t bytes_of(uint64_t extent)
{
    return (extent & (TAKEN - 1)) * page;
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + page - 1) / page * page;
}

static size_t bytes_seen(void)
{
    return peali_load_acquire(&pool_bytes);
}

bool peali_block_is(const void *at)
{
    size_t bytes = bytes_seen();
    return bytes && (uintptr_t)at - (uintptr_t)pool_base < bytes;
}

static struct label *label_of(const void *block)
{
    return &labels[(size_t)((const unsigned char *)block - pool_base) / PEALI_BLOCK_LEAST];
}

size_t peali_block_bytes(const void *block)
{
    return label_of(block)->bytes;
}

/*
 * The kept extent that fits BYTES best, now the caller's; 0: none. The newest first: it is most often what fits, and in the caches.
 */
static uint64_t take(size_t bytes)
{
    uint64_t best = 0, *slot = NULL;
    const unsigned newest = peali_load_relaxed(&kept_turn) - 1;
    for (unsigned i = 0; i < KEPT && bytes_of(best) != bytes; i++) {
        uint64_t *at = &kept[(newest - i) % KEPT], extent = peali_load_relaxed(at);
        size_t has = bytes_of(extent);
        if (has >= bytes && has - bytes <= bytes / 4 && (!best || has < bytes_of(best))) {
            best = extent;
            slot = at;
        }
    }
    /* Acquires what put released: all that its last owner did there is done. */
    if (!best || !__atomic_compare_exchange_n(slot, &best, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0;
    peali_add_relaxed(&kept_bytes, -bytes_of(best));
    return best;
}

static void give(uint64_t extent)
{
    if (extent & TAKEN)
        peali_add_relaxed(&taken, -bytes_of(extent));
    peali_pool_free(start_of(extent));
}

/* EXTENT, or 0, takes the place of the oldest. */
static void put(uint64_t extent)
{
    uint64_t *slot = &kept[peali_add_relaxed(&kept_turn, 1) % KEPT];
    peali_add_relaxed(&kept_bytes, bytes_of(extent));
    uint64_t out = __atomic_exchange_n(slot, extent, __ATOMIC_ACQ_REL); /* released to take, or to the next put here */
    peali_add_relaxed(&kept_bytes, -bytes_of(out));
    if (out)
        give(out);
}

/* Before a fork, after which what waits would be shared no more, and what is taken near it as little. */
static void empty(void)
{
    for (int i = 0; i < KEPT; i++)
        put(0);
}

/* What lived through a fork is not, until it has been back in the pool. */
static bool shared(uint64_t extent)
{
    return peali_pool_holds(start_of(extent), bytes_of(extent));
}

/* LAZY: a new one takes memory when it is written; else at once, in huge pages, which others map by a fault for 2 MiB. */
static uint64_t find(size_t bytes, bool lazy, bool *zero)
{
    uint64_t extent = take(bytes);
    *zero = false;
    if (extent && shared(extent))
        return extent;
    if (extent)
        give(extent);
    *zero = true;
    const bool takes = !lazy && bytes >= WHOLE && bytes + peali_load_relaxed(&taken) <= peali_idle_bytes();
    unsigned char *start = takes ? peali_pool_alloc_whole(bytes, true) : peali_pool_alloc(bytes, PEALI_POOL_USER);
    if (start && takes)
        peali_add_relaxed(&taken, bytes);
    return start ? extent_of(start, bytes) | (takes ? TAKEN : 0) : 0;
}

static void see_pool(void)
{
    peali_pool_view view;
    if (peali_pool_open(&view) != PEAL_OK)
        return;
    page = (size_t)sysconf(_SC_PAGESIZE);
    assert(view.bytes / page < TAKEN);
    size_t bytes = view.bytes / PEALI_BLOCK_LEAST * sizeof *labels;
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return;
    labels = table;
    pool_base = view.base;
    (void)pthread_atfork(empty, NULL, NULL); /* runs before the pool's, which came first; refused: then find() sees to it */
    peali_store_release(&pool_bytes, view.bytes);
}

void *peali_block_get(size_t bytes, size_t room, size_t align, bool *zero)
{
    static pthread_once_t seen = PTHREAD_ONCE_INIT;
    assert(bytes >= PEALI_BLOCK_LEAST && room >= bytes);
    pthread_once(&seen, see_pool);
    size_t most = bytes_seen();
    const bool small = room < PEALI_BLOCK_SMALL;
    if (room > most || align > most || (small && peali_load_relaxed(&blocks) >= PEALI_BLOCK_MANY))
        return NULL;
    uint64_t extent = find(whole_pages(align > page ? room + align : room), room > bytes || align > page, zero);
    if (!extent)
        return NULL;
    void *block = (void *)(((uintptr_t)start_of(extent) + align - 1) & -align);
    *label_of(block) = (struct label){.extent = extent, .bytes = bytes};
    peali_add_relaxed(&blocks, 1);
    return block;
}

void peali_block_drop(void *block)
{
    struct label *label = label_of(block);
    uint64_t extent = label->extent;
    assert(extent && start_of(extent) <= (unsigned char *)block); /* else it is no block, or not any more */
    label->extent = 0;
    peali_add_relaxed(&blocks, -(size_t)1);
    if (bytes_of(extent) > KEPT_BLOCK || !shared(extent)) {
        give(extent);
        return;
    }
    put(extent);
    for (int i = 0; i < KEPT && peali_load_relaxed(&kept_bytes) > KEPT_ALL; i++)
        put(0);
}

/* What it does not need goes back where it is most of it; a block that was given room to grow keeps that. */
bool peali_block_resize(void *block, size_t bytes)
{
    struct label *label = label_of(block);
    unsigned char *start = start_of(label->extent);
    size_t has = bytes_of(label->extent), before = (size_t)((unsigned char *)block - start);
    if (bytes > has - before)
        return false;
    size_t need = whole_pages(before + bytes);
    if (need < has / 3) {
        const uint64_t how = label->extent & TAKEN;
        peali_pool_split(start, need);
        give(extent_of(start + need, has - need) | how);
        label->extent = extent_of(start, need) | how;
    }
    label->bytes = bytes;
    return true;
}
