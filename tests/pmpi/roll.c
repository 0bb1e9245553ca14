/*
 * The first collective on a communicator, to which one rank does not come in time: the others are told, and end; and so does every
 * later call there, without meeting what was sent for the first: roll MILLISECONDS
 */
#include <unistd.h>

#include "pmpi.h"

int main(int argc, char **argv)
{
    MPI_Comm comm;
    start(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "fluid");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    sum_ranks(MPI_COMM_WORLD);
    if (rank == 1)
        usleep(1000 * (unsigned)atoi(argv[1]));
    int one = 1, sum = 0;
    for (int call = 0; call < 4; call++)
        CHECK(error_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_OTHER);
    expect("taken", 1);
    MPI_Finalize();
    return 0;
}
