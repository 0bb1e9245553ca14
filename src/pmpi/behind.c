/* MPI's own calls are the next of their names: after this library, and after tools that stand behind it by those names. */
#include "pmpi/behind.h"

#include <dlfcn.h>

struct peali_behind peali_behind;

/* Behind this library, or, where the program names MPI before it, the first there is. */
static void find(const char *name, void *function)
{
    void *f = dlsym(RTLD_NEXT, name);
    *(void **)function = f ? f : dlsym(RTLD_DEFAULT, name);
}

__attribute__((constructor)) static void find_all(void)
{
    find("PMPI_Allreduce", &peali_behind.allreduce);
    find("PMPI_Allgather", &peali_behind.allgather);
    find("PMPI_Reduce_scatter_block", &peali_behind.reduce_scatter_block);
    find("PMPI_Reduce_scatter", &peali_behind.reduce_scatter);
    find("PMPI_Bcast", &peali_behind.bcast);
    find("PMPI_Reduce", &peali_behind.reduce);
    find("PMPI_Barrier", &peali_behind.barrier);
    find("PMPI_Alloc_mem", &peali_behind.alloc_mem);
    find("PMPI_Free_mem", &peali_behind.free_mem);
}
