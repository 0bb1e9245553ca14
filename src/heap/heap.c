/*
 * malloc and its kin, for LD_PRELOAD=libpeal_heap.so: blocks from 64 KiB up lie where peers reach them (block.h). Smaller ones,
 * and those that cannot, are the business of the allocator behind: glibc's, or one that the program brings along.
 *
 * Source: the GNU C library's manual, 3.2.5, "Replacing malloc", says which functions must be here, and that free keeps errno.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <peal/status.h>

#include "heap/block.h"

/* The allocator behind, found by the first call: before there are threads, as to make one takes memory. */
static struct {
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *old, size_t bytes);
    void (*free)(void *block);
    void *(*memalign)(size_t align, size_t bytes);
    void *(*aligned_alloc)(size_t align, size_t bytes);
    int (*posix_memalign)(void **block, size_t align, size_t bytes);
    size_t (*usable)(void *block);
} behind;

/* False inside itself: until glibc 2.34 dlsym allocates, and can do without. */
static bool find_behind(void)
{
    static bool finding;
    if (finding)
        return false;
    finding = true;
    behind.calloc = dlsym(RTLD_NEXT, "calloc");
    behind.realloc = dlsym(RTLD_NEXT, "realloc");
    behind.free = dlsym(RTLD_NEXT, "free");
    behind.memalign = dlsym(RTLD_NEXT, "memalign");
    behind.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    behind.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    behind.usable = dlsym(RTLD_NEXT, "malloc_usable_size");
    behind.malloc = dlsym(RTLD_NEXT, "malloc");
    return true;
}

static bool have_behind(void)
{
    return behind.malloc || find_behind();
}

/* A large block, or NULL where it is none or cannot be had. */
static void *large(size_t bytes, size_t align, bool *zero)
{
    const int kept = errno;
    const bool may = bytes >= PEALI_BLOCK_LEAST && align && (align & (align - 1)) == 0;
    void *block = may ? peali_block_get(bytes, bytes, align, zero) : NULL;
    errno = kept;
    return block;
}

static void *get(size_t bytes)
{
    bool zero;
    void *block = large(bytes, 1, &zero);
    return block ? block : have_behind() ? behind.malloc(bytes) : NULL;
}

static void drop(void *block)
{
    int kept = errno;
    if (peali_block_is(block))
        peali_block_drop(block);
    else if (have_behind())
        behind.free(block);
    errno = kept;
}

static size_t usable(void *block)
{
    return peali_block_is(block) ? peali_block_bytes(block) : have_behind() ? behind.usable(block) : 0;
}

PEAL_PUBLIC void *malloc(size_t bytes)
{
    return get(bytes);
}

PEAL_PUBLIC void free(void *block)
{
    drop(block);
}

PEAL_PUBLIC void *calloc(size_t count, size_t size)
{
    size_t bytes;
    bool zero;
    void *block = __builtin_mul_overflow(count, size, &bytes) ? NULL : large(bytes, 1, &zero);
    if (!block)
        return have_behind() ? behind.calloc(count, size) : NULL;
    return zero ? block : memset(block, 0, bytes);
}

/* OLD, which had HAD bytes, is now at TO. */
static void *move(void *old, size_t had, void *to, size_t bytes)
{
    if (!to)
        return NULL;
    memcpy(to, old, bytes < had ? bytes : had);
    drop(old);
    return to;
}

/*
 * A large block that outgrows itself gets room to grow further in place, which costs addresses alone until it is written: it is
 * copied where glibc moves pages.
 */
static void *resize_large(void *old, size_t bytes)
{
    size_t had = peali_block_bytes(old);
    if (bytes < PEALI_BLOCK_LEAST)
        return move(old, had, get(bytes), bytes);
    if (peali_block_resize(old, bytes))
        return old;
    bool zero;
    void *to = bytes < SIZE_MAX / 2 ? peali_block_get(bytes, 2 * bytes, 1, &zero) : NULL;
    return move(old, had, to ? to : get(bytes), bytes);
}

PEAL_PUBLIC void *realloc(void *old, size_t bytes)
{
    if (!old)
        return get(bytes);
    if (!peali_block_is(old)) {
        bool zero;
        void *to = large(bytes, 1, &zero);
        return to ? move(old, behind.usable(old), to, bytes) : behind.realloc(old, bytes);
    }
    if (bytes > 0)
        return resize_large(old, bytes);
    drop(old); /* as glibc does */
    return NULL;
}

/* glibc's calls realloc, but others go past it, to what knows nothing of large blocks. */
PEAL_PUBLIC void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes))
        return realloc(old, bytes);
    errno = ENOMEM;
    return NULL;
}

PEAL_PUBLIC int posix_memalign(void **out, size_t align, size_t bytes)
{
    bool zero;
    void *block = align % sizeof(void *) == 0 ? large(bytes, align, &zero) : NULL;
    if (!block)
        return have_behind() ? behind.posix_memalign(out, align, bytes) : ENOMEM;
    *out = block;
    return 0;
}

PEAL_PUBLIC void *aligned_alloc(size_t align, size_t bytes)
{
    bool zero;
    void *block = large(bytes, align, &zero);
    return block ? block : have_behind() ? behind.aligned_alloc(align, bytes) : NULL;
}

static void *get_aligned(size_t align, size_t bytes)
{
    bool zero;
    void *block = large(bytes, align, &zero);
    return block ? block : have_behind() ? behind.memalign(align, bytes) : NULL;
}

PEAL_PUBLIC void *memalign(size_t align, size_t bytes)
{
    return get_aligned(align, bytes);
}

PEAL_PUBLIC void *valloc(size_t bytes)
{
    return get_aligned((size_t)sysconf(_SC_PAGESIZE), bytes);
}

PEAL_PUBLIC void *pvalloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
    if (!__builtin_add_overflow(bytes, -bytes % page, &whole))
        return get_aligned(page, whole);
    errno = ENOMEM;
    return NULL;
}

PEAL_PUBLIC size_t malloc_usable_size(void *block)
{
    return usable(block);
}
