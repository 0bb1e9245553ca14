/* Memory in the pool, or plain memory: that of the user is the same to a call, only slower. */
#include <stdint.h>
#include <unistd.h>

#include "base/arena.h"
#include "exec/pool.h"

#include <peal/peal.h>

/* Plain memory in whole pages; where it really begins stands before it. */
static void *plain(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), more;
    if (__builtin_add_overflow(bytes, page + sizeof(void *), &more))
        return NULL;
    unsigned char *all = peali_alloc(1, more);
    if (!all)
        return NULL;
    unsigned char *first = all + sizeof(void *), *at = first + (-(uintptr_t)first & (page - 1));
    ((void **)(void *)at)[-1] = all;
    return at;
}

void *peal_mem_alloc(size_t bytes)
{
    void *at = peali_pool_alloc(bytes, PEALI_POOL_USER);
    return at ? at : plain(bytes);
}

void peal_mem_free(void *at)
{
    if (!at)
        return;
    if (peali_pool_owns(at))
        peali_pool_free(at);
    else
        peali_free(((void **)at)[-1]);
}
