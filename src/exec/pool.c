/*
 * One sparse memfd, mapped shared; extents.h says which of its pages are taken. Freed pages are punched out of the file, because
 * dropping them from a shared mapping neither zeroes them nor gives them back. A page costs memory when it is only read, and a core
 * dump would read all; so what was never used is not dumped, and not accessible.
 *
 * fork. The user's blocks must be private to parent and child afterwards, as all memory is. So before each fork they are mapped
 * anew, privately, from the same pages of the file: nothing is copied, nothing that another thread writes meanwhile is lost, and
 * what it writes later goes to a copy. To do this in the child alone would be too late for what the parent writes first; and pages
 * marked not to be inherited would be missing in the child. A peer that reads such a block for a call that is under way reads the
 * file's pages, which hold what the block held at the fork, and the user may not change it before the call ends.
 *
 * A rank's own stores for such a call must reach the file as well, so they go through a second mapping (exec/room.c).
 *
 * A page of the file that neither has written yet is seen by both. So when the parent frees such a block, its pages are kept until
 * the children that were forked meanwhile have gone (kin.h); punched or used again, they would change under the child.
 *
 * The lock is not held over the fork: an allocator that stands on the pool takes its own locks before a fork, and a thread of it
 * that waits for ours would hold them. So between the handlers other threads go on, but get no new memory of the user's kind, which
 * nobody would have made private. The child may find the table half changed where another thread was at work; it reads of it but
 * the extents that it has, which were complete.
 */
#include "exec/pool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/log.h"
#include "exec/extents.h"
#include "exec/kin.h"
#include "exec/memfile.h"
#include "net/regions.h"

/* More than a process has use for cost nothing but page tables; peers map all of it, and addresses end at 128 TiB. */
#define BYTES_MOST ((size_t)128 << 30)
#define BYTES_LEAST ((size_t)1 << 30)

enum { COLLAPSE = 25 }; /* MADV_COLLAPSE, of Linux 6.1 and newer: headers may be older */

/* By so much at least the part grows that was ever used. */
#define BYTES_AT_ONCE ((size_t)64 << 20)

/*
 * What one way of a core's L2 holds, of Intel's with 2 MiB and of EPYC 9004: lines so far apart share a set of 8 or 16, and in huge
 * pages addresses tell how far apart they are. Where all ranks' blocks begin at a huge page, an owner's part of each is in the same
 * few sets. Allreduce by two_shot, 16 ranks on 16 cores of Xeon, 4 buffers in turn, all at a huge page and not: 16 KiB 10.0 6.9 us,
 * 64 KiB 21.5 11, 128 KiB 31.6 17.5 to 26; 8 ranks 64 KiB 13.6 8.3; 4 ranks 128 KiB 14.1 11.1.
 */
#define WAY ((size_t)128 << 10)

enum use {
    FREE,
    PEERS,
    USER,
    PRIVATE, /* the user's, and no longer shared. notes: first fork whose child sees its pages, last one */
    RETIRED, /* freed when it was private; its pages may still be seen by a child */
    GOING,   /* on its way to be free */
    INNER    /* not the first page: pages behind that of its extent lies what the user has of it */
};

/* A process has one pool, because its memory is one and a child gets a copy of all. */
static struct {
    pthread_mutex_t lock; /* of all but what holds() reads */
    bool watches, tried, inherited; /* watches: forks */
    int forks; /* under way */
    size_t page;
    peali_memfile file;
    peali_pool_view view;
    unsigned char *alias; /* the second mapping */
    peali_extents extents;
    uint32_t retired; /* list of extents */
    size_t used;      /* bytes from the start that are accessible, because they were used at some time */
    size_t bytes;         /* of the pool. Pair: acquire in owns(), release in try(): view.base is there */
    size_t shared;        /* the same, but 0 in a child. Pair: acquire in holds(), release in try(): likewise */
    uint16_t *private_in; /* pages of each 2 MiB that are not free and not shared any more */
    size_t private_pages; /* their sum */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A thread that is cancelled must not end with the lock, nor in malloc and free at all: system calls would be where it ends. */
static int lock(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&pool.lock);
    return cancel;
}

/* CANCEL is what lock returned. */
static void unlock(int cancel)
{
    pthread_mutex_unlock(&pool.lock);
    pthread_setcancelstate(cancel, &(int){0});
}

static unsigned char *address(uint32_t page)
{
    return pool.view.base + page * pool.page;
}

static uint32_t page_of(const void *at)
{
    return (uint32_t)((size_t)((const unsigned char *)at - pool.view.base) / pool.page);
}

static peali_extent *extent(const void *at)
{
    assert(peali_pool_owns(at) && ((uintptr_t)at & (pool.page - 1)) == 0);
    peali_extent *e = &pool.extents.of[page_of(at)];
    return e->use == INNER ? e - e->pages : e;
}

static size_t length(const peali_extent *e)
{
    return e->pages * pool.page;
}

/* Counts the pages of [AT, AT + BYTES) in the 2 MiB that hold them: as private, or (BY -1) not any more. */
static void count_private(const unsigned char *at, size_t bytes, int by)
{
    size_t begin = (size_t)(at - pool.view.base), end = begin + bytes;
    while (begin < end) {
        size_t unit = begin / PEALI_HUGE, next = (unit + 1) * PEALI_HUGE;
        size_t pages = ((next < end ? next : end) - begin) / pool.page;
        peali_store_relaxed(&pool.private_in[unit], (uint16_t)(pool.private_in[unit] + by * (int)pages));
        peali_store_relaxed(&pool.private_pages, pool.private_pages + (size_t)((ptrdiff_t)pages * by));
        begin = next;
    }
}

/* Makes [AT, AT + BYTES), which is shared, zeros that take no memory. */
static void zero(void *at, size_t bytes)
{
    if (madvise(at, bytes, MADV_REMOVE) != 0)
        memset(at, 0, bytes); /* locked into memory */
}

/*
 * TSan takes mmap() for a write, and a block that is mapped anew is what it was. Others have to hear of it: libraries that keep
 * memory registered watch mmap(), as a network would go on in the file's pages while the process writes to its own.
 */
#ifdef __SANITIZE_THREAD__
static void *map_anew(void *at, size_t bytes, long protection, long flags, long fd, long offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
#else
#define map_anew mmap
#endif

/* Maps [AT, AT + BYTES) anew; false, with errno, where that is refused. */
static bool remap(unsigned char *at, size_t bytes, int sharing)
{
    int flags = sharing | MAP_FIXED | MAP_NORESERVE;
    errno = EBADF;
    if (!peali_memfile_ours(&pool.file))
        return false;
    return map_anew(at, bytes, PROT_READ | PROT_WRITE, flags, pool.file.fd, at - pool.view.base) != MAP_FAILED;
}

/* Makes the pages before END accessible; false where that is refused. */
static bool use_up_to(uint32_t end)
{
    size_t least = end * pool.page, bytes = (least + BYTES_AT_ONCE - 1) / BYTES_AT_ONCE * BYTES_AT_ONCE;
    if (least <= pool.used)
        return true;
    if (bytes > pool.view.bytes)
        bytes = pool.view.bytes;
    if (mprotect(pool.view.base + pool.used, bytes - pool.used, PROT_READ | PROT_WRITE) != 0)
        return false;
    (void)madvise(pool.view.base + pool.used, bytes - pool.used, MADV_DODUMP);
    pool.used = bytes;
    return true;
}

/* Frees the retired extents that no child sees any more. */
static void release_retired(void)
{
    if (pool.retired == PEALI_EXTENTS_NONE)
        return;
    peali_kin_count();
    for (uint32_t next, first = pool.retired; first != PEALI_EXTENTS_NONE; first = next) {
        peali_extent *e = &pool.extents.of[first];
        next = e->next;
        if (peali_kin_lives(e->note[0], e->note[1]) || !remap(address(first), length(e), MAP_SHARED))
            continue;
        zero(address(first), length(e));
        count_private(address(first), length(e), -1);
        peali_extents_unlist(&pool.extents, &pool.retired, first);
        peali_extents_give(&pool.extents, first);
    }
}

/*
 * Makes the user's block of pages [FIRST, END) private for fork number FORK. It is counted first: what another thread stores into a
 * private page, which peers do not see, holds() must not call seen. The kernel orders the count before the new mapping.
 */
static void make_private(uint32_t first, uint32_t end, uint32_t fork)
{
    size_t bytes = (end - first) * pool.page;
    count_private(address(first), bytes, 1);
    peali_regions_forget(address(first), bytes);
    if (!remap(address(first), bytes, MAP_PRIVATE)) {
        int reason = errno;
        remap(address(first), bytes, MAP_SHARED); /* a mapping that fails may have removed the old one */
        count_private(address(first), bytes, -1);
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "fork: %zu bytes of shared memory cannot be made private: %s; what parent "
                  "and child write there, both see", bytes, strerror(reason));
        return;
    }
    for (uint32_t at = first; at < end; at += pool.extents.of[at].pages) {
        pool.extents.of[at].use = PRIVATE;
        pool.extents.of[at].note[0] = fork;
    }
}

/* Makes all of the user's blocks private. Those that lie side by side are mapped as one: mappings are few. */
static void make_all_private(void)
{
    const peali_extent *of = pool.extents.of;
    bool any = false;
    for (uint32_t first = 0; first < pool.extents.pages && !any; first += of[first].pages)
        any = of[first].use == USER || of[first].use == PRIVATE;
    if (!any)
        return;
    uint32_t fork = peali_kin_expect();
    for (uint32_t end, first = 0; first < pool.extents.pages; first = end) {
        end = first + of[first].pages;
        if (of[first].use != USER)
            continue;
        while (end < pool.extents.pages && of[end].use == USER)
            end += of[end].pages;
        make_private(first, end, fork);
    }
}

static void before_fork(void)
{
    int cancel = lock();
    pool.forks++;
    if (!pool.inherited)
        make_all_private();
    unlock(cancel);
}

static void after_fork(void)
{
    int cancel = lock();
    if (--pool.forks == 0 && !pool.inherited)
        peali_kin_settle();
    unlock(cancel);
}

/* Whoever held the lock is not in the child. */
static void in_child(void)
{
    pool.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool.inherited = pool.bytes > 0;
    pool.forks = 0;
    peali_store_relaxed(&pool.shared, 0);
    peali_kin_leave();
    peali_memfile_close(&pool.file);
}

static void watch_now(void)
{
    pool.watches = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

/*
 * Before the lock is ever taken, which a fork meanwhile would leave held in the child; and so before most handlers of others, whose
 * children may take large blocks in theirs. Libraries whose constructors come before may take blocks in them.
 */
__attribute__((constructor)) static void watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_now);
}

/* As much as the machine has, so that no program meets the end of it before that of memory. */
static size_t wanted(void)
{
    size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * pool.page & ~(size_t)(PEALI_HUGE - 1);
    return bytes > BYTES_MOST ? BYTES_MOST : bytes < BYTES_LEAST ? BYTES_LEAST : bytes;
}

/* What to try where BYTES are refused; 0: nothing. */
static size_t less(size_t bytes)
{
    size_t half = bytes / 2 & ~(size_t)(PEALI_HUGE - 1);
    return half >= BYTES_LEAST ? half : bytes > BYTES_LEAST ? BYTES_LEAST : 0;
}

/* Makes a pool of BYTES; false, with errno and nothing made, where that is refused. */
static bool make(size_t bytes)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    size_t counts = bytes / PEALI_HUGE * sizeof *pool.private_in;
    if (!peali_memfile_open(&pool.file, bytes))
        return false;
    unsigned char *base = peali_memfile_map(pool.file.fd, bytes, PROT_NONE);
    pool.alias = peali_memfile_map(pool.file.fd, bytes, PROT_READ | PROT_WRITE);
    pool.private_in = mmap(NULL, counts, PROT_READ | PROT_WRITE, flags, -1, 0);
    bool mapped = base && pool.alias && madvise(pool.alias, bytes, MADV_DONTFORK) == 0 && pool.private_in != MAP_FAILED;
    bool listed = mapped && peali_extents_open(&pool.extents, (uint32_t)(bytes / pool.page));
    if (listed && fcntl(pool.file.fd, F_ADD_SEALS, seals) == 0) {
        pool.view.fd = pool.file.fd;
        pool.view.base = base;
        pool.view.bytes = bytes;
        return true;
    }
    int reason = errno;
    if (listed)
        peali_extents_close(&pool.extents);
    if (pool.private_in != MAP_FAILED)
        munmap(pool.private_in, counts);
    if (base)
        munmap(base, bytes);
    if (pool.alias)
        munmap(pool.alias, bytes);
    peali_memfile_close(&pool.file);
    errno = reason;
    return false;
}

/* When a process ends, valgrind looks for pointers in all that it can read, peers' pools too: that would make all of it real. */
static bool watched(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "/vgpreload_");
}

/*
 * Addresses that are few are the program's: two mappings of the pool, and one of each peer's, leave it next to none. Of a limit on
 * data what is shared takes nothing, but all that a fork makes private does at once: who forks there could not.
 */
static bool few_addresses(void)
{
    static const __rlimit_resource_t kinds[] = {RLIMIT_AS, RLIMIT_DATA};
    struct rlimit most;
    bool few = false;
    for (int i = 0; i < 2; i++)
        few |= getrlimit(kinds[i], &most) == 0 && most.rlim_cur != RLIM_INFINITY;
    return few;
}

/* Makes the pool, smaller where the process may not have so much; called once. */
static void try(void)
{
    size_t bytes = 0, id = sizeof pool.view.id;
    pool.tried = true;
    pool.page = (size_t)sysconf(_SC_PAGESIZE);
    pool.retired = PEALI_EXTENTS_NONE;
    if (watched())
        errno = EPERM;
    else if (few_addresses() || !pool.watches)
        errno = ENOMEM;
    else if (getrandom(pool.view.id, id, 0) == (ssize_t)id)
        for (bytes = wanted(); bytes > 0 && !make(bytes); bytes = less(bytes))
            continue;
    if (bytes == 0) {
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, -1, "no memory shared between processes: %s; %s", strerror(errno),
                  watched() ? "valgrind would touch all of it" : "see ulimit -v, -d, -f and -n");
        return;
    }
    peali_store_release(&pool.bytes, bytes);
    peali_store_release(&pool.shared, bytes);
    peali_log(PEALI_LOG_DEBUG, PEALI_SUB_INIT, -1, "memory shared between processes: %zu bytes", bytes);
}

/* Is there a pool of this process? The lock is held. */
static bool ready(void)
{
    if (!pool.tried)
        try();
    return pool.bytes > 0 && !pool.inherited;
}

peal_status peali_pool_open(peali_pool_view *view)
{
    watch_forks();
    int cancel = lock();
    bool fine = ready() && peali_memfile_ours(&pool.file), made = pool.bytes > 0, inherited = pool.inherited;
    if (fine)
        *view = pool.view;
    unlock(cancel);
    if (fine)
        return PEAL_OK;
    if (made)
        peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, -1, "no memory shared between processes: %s", inherited ?
                  "this is a child of the process that made it" : "the program closed its descriptor");
    return PEAL_ERR_UNSUPPORTED;
}

ptrdiff_t peali_pool_alias(void)
{
    return pool.alias - pool.view.base;
}

void *peali_pool_alloc(size_t bytes, peali_pool_use use)
{
    uint32_t first = PEALI_EXTENTS_NONE;
    watch_forks();
    int cancel = lock();
    if (ready() && bytes <= pool.view.bytes && (use == PEALI_POOL_PEERS || pool.forks == 0)) {
        uint32_t pages = bytes ? (uint32_t)((bytes + pool.page - 1) / pool.page) : 1;
        uint32_t align = bytes < PEALI_HUGE ? 1 : (uint32_t)(PEALI_HUGE / pool.page);
        release_retired();
        first = peali_extents_take(&pool.extents, pages, align, use == PEALI_POOL_USER ? USER : PEERS);
        if (first != PEALI_EXTENTS_NONE && !use_up_to(first + pages)) {
            peali_extents_give(&pool.extents, first);
            first = PEALI_EXTENTS_NONE;
        }
    }
    unlock(cancel);
    if (first == PEALI_EXTENTS_NONE)
        return NULL;
    if (use == PEALI_POOL_USER && bytes >= PEALI_HUGE)
        (void)madvise(address(first), bytes, MADV_HUGEPAGE); /* a hint: refused where there are none */
    return address(first);
}

/*
 * How far behind a huge page the N-th block of a process begins, from 0 on: by the core, of which each rank has its own as a rule,
 * and blocks of one half of WAY apart, then quarters. By the numbers of processes, between which there are gaps, the ranks of a job
 * had places of their own in one run, and one for three in the next.
 */
static size_t colour(unsigned n)
{
    const int core = sched_getcpu();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = WAY / page;
    size_t at = core < 0 ? 0 : (size_t)core;
    for (size_t bit = pages / 2; bit > 0; bit /= 2, n /= 2)
        at += n % 2 * bit;
    return at % pages * page;
}

/*
 * Advice alone gets shared memory no huge pages: by default, Linux does not heed it. To collapse pages is an order, which wants one
 * page to begin with.
 */
static void populate(unsigned char *at, size_t bytes)
{
    size_t whole = bytes / PEALI_HUGE * PEALI_HUGE;
    for (size_t unit = 0; unit < whole; unit += PEALI_HUGE)
        ((volatile unsigned char *)at)[unit] = 0;
    (void)madvise(at, whole, COLLAPSE);
}

void *peali_pool_alloc_whole(size_t bytes, bool now)
{
    static unsigned blocks;
    if (bytes < PEALI_HUGE || bytes > SIZE_MAX - WAY)
        return peali_pool_alloc(bytes, PEALI_POOL_USER);
    const size_t behind = colour(peali_add_relaxed(&blocks, 1));
    unsigned char *at = peali_pool_alloc(behind + bytes, PEALI_POOL_USER);
    if (!at)
        return NULL;
    if (behind > 0) /* of the block's own extent, so that nobody else writes there */
        pool.extents.of[page_of(at + behind)] = (peali_extent){.use = INNER, .pages = (uint32_t)(behind / pool.page)};
    if (now)
        populate(at, behind + bytes);
    return at + behind;
}

/* Frees a private block of the parent: its own copies at once, and the pages that children see when they have gone. */
static void retire(peali_extent *e)
{
    uint32_t first = (uint32_t)(e - pool.extents.of);
    e->use = RETIRED;
    e->note[1] = peali_kin_last();
    peali_extents_list(&pool.extents, &pool.retired, first);
    (void)madvise(address(first), length(e), MADV_DONTNEED); /* refused where it is locked into memory: then later */
    release_retired();
}

/* In a child nothing is used again; a block gives back what the child has of it. */
static void forget(peali_extent *e, void *at)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    e->use = GOING;
    (void)mmap(at, length(e), PROT_NONE, flags, -1, 0); /* refused: it stays until the child ends */
}

void peali_pool_free(void *at)
{
    int cancel = lock();
    peali_extent *e = extent(at);
    at = address((uint32_t)(e - pool.extents.of));
    assert(e->use == PEERS || e->use == USER || e->use == PRIVATE);
    if (pool.inherited) {
        forget(e, at);
    } else if (e->use == PRIVATE) {
        retire(e);
    } else {
        peali_regions_forget(at, length(e));
        e->use = GOING; /* no fork makes it private from now on */
        unlock(cancel);
        zero(at, length(e)); /* takes long where the block is large */
        cancel = lock();
        peali_extents_give(&pool.extents, page_of(at));
    }
    unlock(cancel);
}

void peali_pool_split(void *at, size_t bytes)
{
    int cancel = lock();
    const uint32_t first = (uint32_t)(extent(at) - pool.extents.of);
    assert(page_of(at) == first || bytes > pool.page); /* else what is known of AT would be lost (extents.h) */
    peali_extents_split(&pool.extents, first, page_of(at) - first + (uint32_t)(bytes / pool.page));
    unlock(cancel);
}

bool peali_pool_holds(const void *at, size_t bytes)
{
    size_t shared = peali_load_acquire(&pool.shared), begin = (size_t)((uintptr_t)at - (uintptr_t)pool.view.base);
    if (begin >= shared || bytes > shared - begin)
        return false;
    if (peali_load_relaxed(&pool.private_pages) == 0)
        return true;
    size_t last = (begin + (bytes ? bytes - 1 : 0)) / PEALI_HUGE;
    for (size_t unit = begin / PEALI_HUGE; unit <= last; unit++)
        if (peali_load_relaxed(&pool.private_in[unit]))
            return false;
    return true;
}

bool peali_pool_is_block(const void *at)
{
    int cancel = lock();
    const int use = (uintptr_t)at % pool.page == 0 ? (int)extent(at)->use : GOING;
    unlock(cancel);
    return use == PEERS || use == USER || use == PRIVATE;
}

bool peali_pool_owns(const void *at)
{
    size_t bytes = peali_load_acquire(&pool.bytes);
    return (uintptr_t)at - (uintptr_t)pool.view.base < bytes;
}
