/*
 * Which pages of a range are taken: extents of whole pages, found and joined again in a time that does not depend on how many there
 * are. It touches no memory but its own, which it gets from the kernel, so that an allocator may stand on it.
 *
 * Threads: one at a time.
 */
#ifndef PEALI_EXTENTS_H
#define PEALI_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { PEALI_EXTENTS_NONE = UINT32_MAX, PEALI_EXTENTS_LISTS = 32 };

/* One for each page; only those of an extent's first and last page mean something. */
typedef struct peali_extent {
    uint32_t pages; /* of the extent */
    uint32_t use;   /* first page: 0 free, else what the user of this says */
    uint32_t next, prev; /* first page: in a list of free extents, or in one of the user's */
    uint32_t note[2];    /* first page: the user's, who sets them before he reads them */
} peali_extent;

typedef struct peali_extents {
    peali_extent *of; /* by page */
    uint32_t pages;
    uint32_t list[PEALI_EXTENTS_LISTS]; /* free extents of 2^i to 2^(i+1)-1 pages */
} peali_extents;

/* Makes a range of PAGES free pages; false where there is no memory. */
bool peali_extents_open(peali_extents *e, uint32_t pages);
void peali_extents_close(peali_extents *e);

/* Takes PAGES of them, 1 or more, from a multiple of ALIGN (a power of 2) on, for USE; PEALI_EXTENTS_NONE where there are none. */
uint32_t peali_extents_take(peali_extents *e, uint32_t pages, uint32_t align, uint32_t use);

/* Frees the taken extent that begins at page FIRST. */
void peali_extents_give(peali_extents *e, uint32_t first);

/* Makes two extents of one: PAGES, fewer than it has, and the rest. Both have its use and notes. */
void peali_extents_split(peali_extents *e, uint32_t first, uint32_t pages);

/* Puts an extent into the list at HEAD, and takes it out. */
void peali_extents_list(peali_extents *e, uint32_t *head, uint32_t first);
void peali_extents_unlist(peali_extents *e, uint32_t *head, uint32_t first);

#endif
