/* An MPI that has no communicators left after a while: PMPI_Comm_create answers as Open MPI and MPICH do then, on all ranks. */
#include <dlfcn.h>
#include <mpi.h>

__attribute__((visibility("default"))) int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *out)
{
    static int made;
    int (*real)(MPI_Comm, MPI_Group, MPI_Comm *);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Comm_create");
    if (++made <= 2)
        return real(comm, group, out);
    *out = MPI_COMM_NULL;
    PMPI_Comm_call_errhandler(comm, MPI_ERR_INTERN);
    return MPI_ERR_INTERN;
}
