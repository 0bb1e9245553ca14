/* MPI's own calls are the next of their names: after this library, and after tools that stand behind it by those names. */
#include "pmpi/behind.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#if MPI_VERSION >= 4
/*
 * Calls with counts of MPI_Count where the program's MPI, of version 3, has none: a program that looks which there are, as mpi4py
 * does, finds this library's.
 */
static int refuse(MPI_Comm comm, int error)
{
    PMPI_Comm_call_errhandler(comm, error);
    return error;
}

static int allreduce_c(const void *send, void *recv, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return n > INT_MAX ? refuse(comm, MPI_ERR_COUNT) : peali_behind.allreduce(send, recv, (int)n, type, op, comm);
}

static int allgather_c(const void *send, MPI_Count ns, MPI_Datatype type, void *recv, MPI_Count nr, MPI_Datatype as, MPI_Comm comm)
{
    if (ns > INT_MAX || nr > INT_MAX)
        return refuse(comm, MPI_ERR_COUNT);
    return peali_behind.allgather(send, (int)ns, type, recv, (int)nr, as, comm);
}

static int reduce_scatter_block_c(const void *send, void *recv, MPI_Count n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return n > INT_MAX ? refuse(comm, MPI_ERR_COUNT) : peali_behind.reduce_scatter_block(send, recv, (int)n, type, op, comm);
}

static int reduce_scatter_c(const void *send, void *recv, const MPI_Count counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int n = 0, error = PMPI_Comm_size(comm, &n);
    int *small = error == MPI_SUCCESS ? malloc((size_t)n * sizeof *small) : NULL;
    for (int r = 0; small && r < n; r++) {
        small[r] = (int)counts[r];
        error = counts[r] > INT_MAX ? MPI_ERR_COUNT : error;
    }
    if (error == MPI_SUCCESS && small)
        error = peali_behind.reduce_scatter(send, recv, small, type, op, comm);
    else
        error = refuse(comm, small ? error : MPI_ERR_NO_MEM);
    free(small);
    return error;
}

static int bcast_c(void *buf, MPI_Count n, MPI_Datatype type, int root, MPI_Comm comm)
{
    return n > INT_MAX ? refuse(comm, MPI_ERR_COUNT) : peali_behind.bcast(buf, (int)n, type, root, comm);
}

static int reduce_c(const void *send, void *recv, MPI_Count n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    return n > INT_MAX ? refuse(comm, MPI_ERR_COUNT) : peali_behind.reduce(send, recv, (int)n, type, op, root, comm);
}

struct peali_behind peali_behind = {
    .allreduce_c = allreduce_c, .allgather_c = allgather_c, .reduce_scatter_block_c = reduce_scatter_block_c,
    .reduce_scatter_c = reduce_scatter_c, .bcast_c = bcast_c, .reduce_c = reduce_c,
};
#else
struct peali_behind peali_behind;
#endif

/* Behind this library, or, where the program names MPI before it, the first there is; what FUNCTION was where there is none. */
static void find(const char *name, void *function)
{
    void *f = dlsym(RTLD_NEXT, name);
    f = f ? f : dlsym(RTLD_DEFAULT, name);
    *(void **)function = f ? f : *(void **)function;
}

__attribute__((constructor)) static void find_all(void)
{
    find("MPI_Init", &peali_behind.init); /* a tool behind this one sees it, too */
    find("MPI_Init_thread", &peali_behind.init_thread);
    find("PMPI_Init", &peali_behind.pinit);
    find("PMPI_Init_thread", &peali_behind.pinit_thread);
    find("PMPI_Allreduce", &peali_behind.allreduce);
    find("PMPI_Allgather", &peali_behind.allgather);
    find("PMPI_Reduce_scatter_block", &peali_behind.reduce_scatter_block);
    find("PMPI_Reduce_scatter", &peali_behind.reduce_scatter);
    find("PMPI_Bcast", &peali_behind.bcast);
    find("PMPI_Reduce", &peali_behind.reduce);
    find("PMPI_Barrier", &peali_behind.barrier);
    find("PMPI_Comm_idup", &peali_behind.comm_idup);
    find("PMPI_Comm_free", &peali_behind.comm_free);
    find("PMPI_Comm_disconnect", &peali_behind.comm_disconnect);
    find("PMPI_Alloc_mem", &peali_behind.alloc_mem);
    find("PMPI_Free_mem", &peali_behind.free_mem);
#if MPI_VERSION >= 4
    find("PMPI_Comm_idup_with_info", &peali_behind.comm_idup_with_info);
    find("PMPI_Type_get_envelope_c", &peali_behind.type_get_envelope_c);
    find("PMPI_Allreduce_c", &peali_behind.allreduce_c);
    find("PMPI_Allgather_c", &peali_behind.allgather_c);
    find("PMPI_Reduce_scatter_block_c", &peali_behind.reduce_scatter_block_c);
    find("PMPI_Reduce_scatter_c", &peali_behind.reduce_scatter_c);
    find("PMPI_Bcast_c", &peali_behind.bcast_c);
    find("PMPI_Reduce_c", &peali_behind.reduce_c);
#endif
}
