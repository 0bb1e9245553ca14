/*
 * Large blocks of the heap: memory of this process' pool, which peers reach. Threads: any; nothing is locked here, so a fork has
 * nothing to wait for.
 */
#ifndef PEALI_BLOCK_H
#define PEALI_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes of a block. To take, write and free one of 64 KiB takes as long as with glibc (1.7 to 2.8 us), and an allreduce of that on
 * 16 ranks 15 us, 22 in memory of glibc (16 cores of Xeon); of 256 KiB 44 and 75.
 *
 * Blocks that are private after a fork, with others between them, are mappings by themselves, of which Linux has 65530 for a
 * process (vm.max_map_count): where there are MANY blocks, small ones are none.
 */
enum { PEALI_BLOCK_LEAST = 64 << 10, PEALI_BLOCK_SMALL = 256 << 10, PEALI_BLOCK_MANY = 8192 };

/*
 * BYTES, with ROOM in all to grow in place, aligned to ALIGN, a power of two, and to a page. *ZERO: they are all 0. NULL: the pool
 * has none, nor has a process that a fork made of one with a pool; or it is small, and there are many. A new block with neither
 * takes its memory now, in huge pages, as far as it lies idle (idle.h); else it takes each page when that is written.
 */
void *peali_block_get(size_t bytes, size_t room, size_t align, bool *zero);
void peali_block_drop(void *block);

/* Is AT memory of the pool, and so a block where it is what malloc gave? */
bool peali_block_is(const void *at);

size_t peali_block_bytes(const void *block);

/* Gives BLOCK another number of bytes where it lies; false where it has no room. */
bool peali_block_resize(void *block, size_t bytes);

#endif
