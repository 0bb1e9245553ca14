/*
 * Arenas are chains of zeroed chunks, each at least twice as large as the one before it up to a limit, so that a plan is a
 * few allocations however many pieces it has.
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/atomics.h"

enum { ALIGN = 64, CHUNK_LEAST = 4096, CHUNK_MOST = 1 << 20 };

struct peali_chunk {
    struct peali_chunk *next;
    char *data; /* aligned */
    size_t used, size;
};

/* Process-wide, for tests only: nothing but their fault injection reads them. */
static long count;
static long fail_in;

/* True where this allocation is the one that a test wants to fail. Two threads at once cannot both take the 1. */
static bool failing(void)
{
    peali_add_relaxed(&count, 1);
    return peali_load_relaxed(&fail_in) > 0 && peali_add_relaxed(&fail_in, -1) == 1;
}

/* Writes N times SIZE to BYTES, 1 at least, so that NULL always means that there is no memory; false where it is too much. */
static bool product(size_t n, size_t size, size_t *bytes)
{
    bool fits = !__builtin_mul_overflow(n, size, bytes) && *bytes <= PTRDIFF_MAX;
    if (*bytes == 0)
        *bytes = 1;
    return fits;
}

void *peali_alloc(size_t n, size_t size)
{
    size_t bytes;
    return failing() || !product(n, size, &bytes) ? NULL : calloc(1, bytes);
}

void *peali_realloc(void *old, size_t n, size_t size)
{
    size_t bytes;
    return failing() || !product(n, size, &bytes) ? NULL : realloc(old, bytes);
}

void peali_free(void *old)
{
    free(old);
}

void *peali_alloc_pages(size_t bytes)
{
    void *at = failing() ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void peali_free_pages(void *old, size_t bytes)
{
    munmap(old, bytes);
}

long peali_alloc_count(void)
{
    return peali_load_relaxed(&count);
}

void peali_alloc_fail_at(long n)
{
    peali_store_relaxed(&fail_in, n);
}

static struct peali_chunk *grow(peali_arena *arena, size_t bytes)
{
    size_t size = arena->head ? arena->head->size * 2 : CHUNK_LEAST;
    if (size > CHUNK_MOST)
        size = CHUNK_MOST;
    if (size < bytes)
        size = bytes;
    struct peali_chunk *c = peali_alloc(1, sizeof(*c) + ALIGN + size);
    if (!c)
        return NULL;
    uintptr_t first = (uintptr_t)(c + 1);
    c->data = (char *)(c + 1) + (-first & (ALIGN - 1));
    c->size = size;
    c->next = arena->head;
    arena->head = c;
    return c;
}

void *peali_arena_get(peali_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (!product(n, size, &bytes))
        return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct peali_chunk *c = arena->head;
    if (!c || c->size - c->used < bytes)
        c = grow(arena, bytes);
    if (!c)
        return NULL;
    void *got = c->data + c->used;
    c->used += bytes;
    return got;
}

void peali_arena_free(peali_arena *arena)
{
    while (arena->head) {
        struct peali_chunk *c = arena->head;
        arena->head = c->next;
        peali_free(c);
    }
}
