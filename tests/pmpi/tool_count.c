/* Another tool in front of or behind Peal: counts C calls of MPI_Allreduce and lets them on by the name that tools use. */
#include <mpi.h>
#include <stdio.h>

static long calls;
static const char *start = ", and no start";

__attribute__((visibility("default"))) int MPI_Init(int *argc, char ***argv)
{
    start = "";
    return PMPI_Init(argc, argv);
}

__attribute__((visibility("default"))) int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    calls++;
    return PMPI_Allreduce(send, recv, count, type, op, comm);
}

__attribute__((visibility("default"))) int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("tool saw %ld%s\n", calls, start);
    return PMPI_Finalize();
}
