/*
 * The first collective on a communicator, to which one rank does not come in time: the others are told of it, and end; and so does
 * every later call there, without meeting what was sent for the first: roll MILLISECONDS [NAME]
 *
 * NAME: it makes its first call on another communicator meanwhile, of that name.
 */
#include <unistd.h>

#include "pmpi.h"

static MPI_Comm named(const char *name)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, name);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm comm = named("fluid"), other = named(argc > 2 ? argv[2] : "");
    int one = 1, sum = 0;
    sum_ranks(MPI_COMM_WORLD);
    if (rank == 1 && argc > 2)
        CHECK(error_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other)) == MPI_ERR_OTHER);
    if (rank == 1)
        usleep(1000 * (unsigned)atoi(argv[1]));
    for (int call = 0; call < 4; call++)
        CHECK(error_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_OTHER);
    expect("taken", 1);
    MPI_Finalize();
    return 0;
}
