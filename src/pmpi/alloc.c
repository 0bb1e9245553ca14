/*
 * MPI_Alloc_mem gives memory that the processes of this host reach in place. It decides nothing, so each rank may get other memory:
 * where the program asks for what only MPI understands, or for less than a page, which it would take whole, where there is none, or
 * where PEAL_SHM is off, it is MPI's.
 *
 * Which blocks are Peal's is written down, since MPI's own may lie in shared memory too, under libpeal_heap. Open MPI's Fortran
 * frees by PMPI_Free_mem, MPICH's mpi_f08 allocates by PMPI_Alloc_mem and frees by MPI_Free_mem: so all four names are exported.
 */
#include <mpi.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <peal/peal.h>

#include "base/config.h"
#include "pmpi/attach.h"
#include "pmpi/behind.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *blocks; /* Peal's that are not freed, a tree of their addresses. Under lock */

static int compare(const void *a, const void *b)
{
    return (a > b) - (a < b);
}

static bool note(void *block)
{
    pthread_mutex_lock(&lock);
    bool noted = tsearch(block, &blocks, compare);
    pthread_mutex_unlock(&lock);
    return noted;
}

/* True, once, for a block that was noted. */
static bool forget(void *block)
{
    pthread_mutex_lock(&lock);
    bool found = tdelete(block, &blocks, compare);
    pthread_mutex_unlock(&lock);
    return found;
}

static long page(void)
{
    return sysconf(_SC_PAGESIZE);
}

/* Does INFO ask for nothing but an alignment that a page has? MPI 4.1, section 9.2. */
static bool modest(MPI_Info info)
{
    char value[16] = "";
    int keys = 0, found = 0;
    if (info == MPI_INFO_NULL)
        return true;
    if (PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS || keys > 1)
        return false;
    PMPI_Info_get(info, "mpi_minimum_memory_alignment", sizeof value - 1, value, &found);
    return keys == 0 || (found && strtoull(value, NULL, 10) <= (unsigned long long)page());
}

static void *get(MPI_Aint size, MPI_Info info)
{
    if (size < page() || !peali_attach_wanted() || !peali_attach_open() || !peali_config_get()->shm || !modest(info))
        return NULL;
    void *block = peal_mem_alloc((size_t)size);
    if (block && note(block))
        return block;
    peal_mem_free(block);
    return NULL;
}

PEAL_PUBLIC int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *to)
{
    void *block = to ? get(size, info) : NULL;
    if (!block)
        return peali_behind.alloc_mem(size, info, to);
    memcpy(to, &block, sizeof block);
    return MPI_SUCCESS;
}

PEAL_PUBLIC int MPI_Free_mem(void *block)
{
    if (!forget(block))
        return peali_behind.free_mem(block);
    peal_mem_free(block);
    return MPI_SUCCESS;
}

__attribute__((visibility("default"), alias("MPI_Alloc_mem"))) __typeof__(MPI_Alloc_mem) PMPI_Alloc_mem;
__attribute__((visibility("default"), alias("MPI_Free_mem"))) __typeof__(MPI_Free_mem) PMPI_Free_mem;
