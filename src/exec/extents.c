/*
 * Boundary tags (Knuth, The Art of Computer Programming, volume 1, section 2.5): the first and last page of an extent know its
 * length, so that whoever frees one finds its neighbours at once. Free extents are listed by powers of two; the last one freed is
 * the first one tried.
 */
#include "exec/extents.h"

#include <assert.h>
#include <stddef.h>
#include <sys/mman.h>

enum {
    FREE = 0,
    TRIES = 32 /* extents of a list that are looked at before larger ones are */
};

static uint32_t list_of(uint32_t pages)
{
    return 31 - (uint32_t)__builtin_clz(pages);
}

static void mark(peali_extents *e, uint32_t first, uint32_t pages, uint32_t use)
{
    e->of[first].pages = pages;
    e->of[first].use = use;
    e->of[first + pages - 1].pages = pages;
}

void peali_extents_list(peali_extents *e, uint32_t *head, uint32_t first)
{
    e->of[first].prev = PEALI_EXTENTS_NONE;
    e->of[first].next = *head;
    if (*head != PEALI_EXTENTS_NONE)
        e->of[*head].prev = first;
    *head = first;
}

void peali_extents_unlist(peali_extents *e, uint32_t *head, uint32_t first)
{
    uint32_t next = e->of[first].next, prev = e->of[first].prev;
    if (next != PEALI_EXTENTS_NONE)
        e->of[next].prev = prev;
    *(prev != PEALI_EXTENTS_NONE ? &e->of[prev].next : head) = next;
}

static void offer(peali_extents *e, uint32_t first, uint32_t pages)
{
    mark(e, first, pages, FREE);
    peali_extents_list(e, &e->list[list_of(pages)], first);
}

static void withdraw(peali_extents *e, uint32_t first)
{
    peali_extents_unlist(e, &e->list[list_of(e->of[first].pages)], first);
}

bool peali_extents_open(peali_extents *e, uint32_t pages)
{
    size_t bytes = pages * sizeof *e->of;
    e->of = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (e->of == MAP_FAILED)
        return false;
    e->pages = pages;
    for (int i = 0; i < PEALI_EXTENTS_LISTS; i++)
        e->list[i] = PEALI_EXTENTS_NONE;
    offer(e, 0, pages);
    return true;
}

void peali_extents_close(peali_extents *e)
{
    munmap(e->of, e->pages * sizeof *e->of);
    e->pages = 0;
}

/* The first aligned page of the free extent FIRST that PAGES fit behind. */
static uint32_t fit(const peali_extents *e, uint32_t first, uint32_t pages, uint32_t align)
{
    uint64_t at = ((uint64_t)first + align - 1) / align * align;
    return at + pages <= (uint64_t)first + e->of[first].pages ? (uint32_t)at : PEALI_EXTENTS_NONE;
}

/* A free extent that holds PAGES at *AT, of the TRIES first in each list. */
static uint32_t find(const peali_extents *e, uint32_t pages, uint32_t align, uint32_t tries, uint32_t *at)
{
    for (uint32_t i = list_of(pages); i < PEALI_EXTENTS_LISTS; i++) {
        uint32_t first = e->list[i];
        for (uint32_t t = 0; first != PEALI_EXTENTS_NONE && t < tries; t++) {
            *at = fit(e, first, pages, align);
            if (*at != PEALI_EXTENTS_NONE)
                return first;
            first = e->of[first].next;
        }
    }
    return PEALI_EXTENTS_NONE;
}

uint32_t peali_extents_take(peali_extents *e, uint32_t pages, uint32_t align, uint32_t use)
{
    uint32_t at, first = find(e, pages, align, TRIES, &at);
    if (first == PEALI_EXTENTS_NONE)
        first = find(e, pages, align, UINT32_MAX, &at);
    if (first == PEALI_EXTENTS_NONE)
        return PEALI_EXTENTS_NONE;
    withdraw(e, first);
    uint32_t end = first + e->of[first].pages;
    if (at > first)
        offer(e, first, at - first);
    if (end > at + pages)
        offer(e, at + pages, end - at - pages);
    mark(e, at, pages, use);
    return at;
}

void peali_extents_give(peali_extents *e, uint32_t first)
{
    uint32_t begin = first, end = first + e->of[first].pages;
    assert(e->of[first].use != FREE);
    if (begin > 0 && e->of[begin - e->of[begin - 1].pages].use == FREE) {
        begin -= e->of[begin - 1].pages;
        withdraw(e, begin);
    }
    if (end < e->pages && e->of[end].use == FREE) {
        withdraw(e, end);
        end += e->of[end].pages;
    }
    offer(e, begin, end - begin);
}

void peali_extents_split(peali_extents *e, uint32_t first, uint32_t pages)
{
    peali_extent whole = e->of[first];
    assert(pages > 0 && pages < whole.pages);
    mark(e, first, pages, whole.use);
    e->of[first + pages] = whole;
    mark(e, first + pages, whole.pages - pages, whole.use);
}
