/*
 * Memory that is given back all at once. One arena holds one plan, program or schedule.
 *
 * Every allocation of Peal goes through here, so that tests can make each of them fail and count those on the fast path.
 */
#ifndef PEALI_ARENA_H
#define PEALI_ARENA_H

#include <stddef.h>

#include <peal/status.h>

typedef struct peali_arena {
    struct peali_chunk *head;
} peali_arena;

/* Zeroed memory for COUNT things of SIZE bytes, aligned to 64; NULL where there is none. Lives as long as ARENA. */
void *peali_arena_get(peali_arena *arena, size_t count, size_t size);

/* Gives all of it back; the arena is empty again. */
void peali_arena_free(peali_arena *arena);

/* As malloc (zeroed), realloc and free; counted, and made to fail by tests. Exported for libpeal_mpi alone. */
PEAL_PUBLIC void *peali_alloc(size_t count, size_t size);
PEAL_PUBLIC void *peali_realloc(void *old, size_t count, size_t size);
PEAL_PUBLIC void peali_free(void *old);

/* Zeroed whole pages, of which only what is touched takes memory: for BYTES that are many, and seldom used all. Else the same. */
void *peali_alloc_pages(size_t bytes);
void peali_free_pages(void *old, size_t bytes);

/* For tests: allocations so far; and: the N-th from now fails (0: none does). */
long peali_alloc_count(void);
void peali_alloc_fail_at(long n);

#endif
