/*
 * An MPI that errs, by LD_PRELOAD: MPI_Allreduce of more than 64 floats gives rank 1 a wrong last element (PEERS_FAULT=wrong), or
 * never returns there (=dies). The race must notice both.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int (*own)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    const char *fault = getenv("PEERS_FAULT");
    int rank, result;
    *(void **)&own = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    PMPI_Comm_rank(comm, &rank);
    if (fault && strcmp(fault, "dies") == 0 && rank == 1 && count > 64)
        raise(SIGKILL);
    result = own(in, out, count, type, op, comm);
    if (fault && strcmp(fault, "wrong") == 0 && rank == 1 && count > 64)
        ((float *)out)[count - 1] += 1;
    return result;
}
