/*
 * The shared memory of this process: one memfd, mapped whole by the processes of this host that it meets. Whatever peers may touch
 * lies in it: flags and staging of communicators, memory of peal_mem_alloc, large blocks of libpeal_heap. It is sparse: pages cost
 * memory when they are touched, and are given back when they are freed. It is gone when the last process that maps it is, however
 * they end. Under valgrind there is none, for it would touch all.
 *
 * A process has one, that of libpeal: what libpeal_heap needs of it is exported.
 */
#ifndef PEALI_POOL_H
#define PEALI_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

/* What other processes need to map it. */
typedef struct peali_pool_view {
    uint64_t id[2]; /* random: equal exactly for the same pool */
    int fd;         /* sealed against resizing; owned by the pool */
    unsigned char *base;
    size_t bytes;
} peali_pool_view;

/*
 * The view of this process' pool, which the first call makes. PEAL_ERR_UNSUPPORTED where the kernel or a limit refuses it (logged
 * once, at info), in a child of the process that made it too. Threads: any.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peali_pool_open(peali_pool_view *view);

/* Who may still need memory after a fork. */
typedef enum peali_pool_use {
    PEALI_POOL_PEERS, /* flags and staging: stays shared in the parent; a child must not touch it, for the parent would see that */
    PEALI_POOL_USER,  /* the user's data: after a fork parent and child each have a private copy on write, and it is unshared */
} peali_pool_use;

/*
 * Zeroed memory of the pool, in whole pages, from 2 MiB on aligned to 2 MiB; NULL where there is none left, in a child, and of the
 * user's kind while a fork is under way. Free gives its pages back; in a child, the child's alone. Neither calls an allocator of
 * the process. Threads: any.
 */
PEAL_PUBLIC void *peali_pool_alloc(size_t bytes, peali_pool_use use);
PEAL_PUBLIC void peali_pool_free(void *at);

/*
 * The same for a user who keeps the block in one: NOW, from 2 MiB on, taken at once, in huge pages, so that a first touch costs
 * each process one fault for 2 MiB, not for a page (where the kernel refuses that, next to nothing has changed). It is aligned to a
 * page, so that blocks of several ranks do not all share the same sets of a cache. Threads: any.
 */
PEAL_PUBLIC void *peali_pool_alloc_whole(size_t bytes, bool now);

/* Makes two blocks of the one at AT: the first BYTES, whole pages, and the rest. Threads: any. */
PEAL_PUBLIC void peali_pool_split(void *at, size_t bytes);

/*
 * Is all of [AT, AT + BYTES) memory that peers see too, now? A few instructions: every call asks it. Before that ends, by a free or
 * a fork, peali_regions_forget is called. Threads: any.
 */
PEAL_PUBLIC bool peali_pool_holds(const void *at, size_t bytes);

/*
 * What must be added to an address in the pool to reach the same page by a second mapping, which stays shared over forks; a child
 * has not got it. Threads: any, after peali_pool_open.
 */
ptrdiff_t peali_pool_alias(void);

/* Did peali_pool_alloc return AT, or a parent's before a fork? And is it a block still, as far as its page knows? Threads: any. */
bool peali_pool_owns(const void *at);
bool peali_pool_is_block(const void *at);

#endif
