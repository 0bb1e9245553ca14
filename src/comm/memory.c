/* Memory in the pool, or plain memory: that of the user is the same to a call, only slower. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/idle.h"
#include "base/log.h"
#include "exec/memfile.h"
#include "exec/pool.h"

#include <peal/peal.h>

/*
 * Plain memory in whole pages, and a page before it that says how much it is. Not of malloc, which may give memory of the pool
 * (libpeal_heap) that is not the pool's to free.
 */
static void *plain(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), all;
    bytes += bytes == 0; /* a block too: behind the first page may lie something else's */
    if (__builtin_add_overflow(bytes, page, &all))
        return NULL;
    unsigned char *first = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (first == MAP_FAILED)
        return NULL;
    *(size_t *)(void *)first = all;
    return first + page;
}

static void plain_free(unsigned char *at)
{
    unsigned char *first = at - sysconf(_SC_PAGESIZE);
    munmap(first, *(size_t *)(void *)first);
}

void *peal_mem_alloc(size_t bytes)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN); /* each may have a rank that asks for as much at the same time */
    const bool now = bytes >= PEALI_HUGE && cores >= 1 && bytes <= peali_idle_all() / 2 / (size_t)cores;
    void *at = peali_pool_alloc_whole(bytes, now);
    return at ? at : plain(bytes);
}

void peal_mem_free(void *at)
{
    if (!at)
        return;
    if (!peali_pool_owns(at))
        plain_free(at);
    else if (peali_pool_is_block(at))
        peali_pool_free(at);
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_mem_free: %p is not what peal_mem_alloc returned, or is free already; "
                  "nothing was freed", at);
}
