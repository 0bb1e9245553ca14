/* A PEAL_* variable that is wrong is an error of the first call that would be taken, on all ranks. */
#include "pmpi.h"

int main(int argc, char **argv)
{
    int in = 1, out = 0;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(error_class(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_OTHER);
    CHECK(out == 0);
    MPI_Finalize();
    return 0;
}
