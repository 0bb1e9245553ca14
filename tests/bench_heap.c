/*
 * What large blocks cost that peers reach (LD_PRELOAD=libpeal_heap.so), beside glibc's own in the same run: microseconds to take,
 * write and free one, the best of twenty turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t bytes);
extern void __libc_free(void *block);

struct heap {
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *old, size_t bytes);
    void (*free)(void *block);
};

static const struct heap heaps[2] = {{malloc, calloc, realloc, free}, {__libc_malloc, __libc_calloc, __libc_realloc, __libc_free}};

typedef void work(const struct heap *heap, size_t bytes);

static void write_one(const struct heap *heap, size_t bytes)
{
    void *block = heap->malloc(bytes);
    memset(block, 1, bytes);
    __asm__ __volatile__("" : : "r"(block) : "memory");
    heap->free(block);
}

static void write_four(const struct heap *heap, size_t bytes)
{
    void *block[4];
    for (int i = 0; i < 4; i++)
        memset(block[i] = heap->malloc(bytes), 1, bytes);
    __asm__ __volatile__("" : : "r"(block) : "memory");
    for (int i = 0; i < 4; i++)
        heap->free(block[i]);
}

static void zero_one(const struct heap *heap, size_t bytes)
{
    char *block = heap->calloc(1, bytes);
    for (size_t i = 0; i < bytes; i += 64)
        block[i] = 1;
    __asm__ __volatile__("" : : "r"(block) : "memory");
    heap->free(block);
}

/* By 64 KiB a time, written as it grows. */
static void grow(const struct heap *heap, size_t bytes)
{
    char *block = NULL;
    for (size_t now = 0; now < bytes; now += 65536) {
        block = heap->realloc(block, now + 65536);
        memset(block + now, 1, 65536);
    }
    heap->free(block);
}

static double microseconds(work *f, const struct heap *heap, size_t bytes)
{
    int rounds = (int)(((size_t)64 << 20) / bytes) + 1;
    int64_t start = peali_clock_ns();
    for (int i = 0; i < rounds; i++)
        f(heap, bytes);
    return (double)(peali_clock_ns() - start) / 1e3 / rounds;
}

int main(void)
{
    enum { TURNS = 20 };
    static const struct {
        const char *name;
        work *f;
    } works[] = {{"malloc, write, free", write_one}, {"four of them", write_four}, {"calloc, write, free", zero_one},
                 {"realloc by 64 KiB", grow}};
    printf("%-20s %6s %12s %12s %8s\n", "us", "KiB", "peal", "glibc", "ratio");
    for (size_t w = 0; w < sizeof works / sizeof *works; w++)
        for (size_t kib = 64; kib <= 64 << 10; kib *= 4) {
            double best[2] = {1e30, 1e30};
            for (int turn = 0; turn < TURNS; turn++) {
                double us = microseconds(works[w].f, &heaps[turn % 2], kib << 10);
                best[turn % 2] = us < best[turn % 2] ? us : best[turn % 2];
            }
            printf("%-20s %6zu %12.1f %12.1f %8.2f\n", works[w].name, kib, best[0], best[1], best[0] / best[1]);
        }
    return 0;
}
