/* An MPI whose start ends later on rank 1 than on the others, longer than some time limits are. */
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

__attribute__((visibility("default"))) int PMPI_Init(int *argc, char ***argv)
{
    enum { LATE_US = 700000 };
    int rank, (*real)(int *, char ***);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Init");
    int error = real(argc, argv);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        usleep(LATE_US);
    return error;
}

__attribute__((visibility("default"))) int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv);
}
