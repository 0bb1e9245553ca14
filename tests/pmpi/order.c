/*
 * Two ranks call on two communicators in opposite order, where their numbers differ: what each says tells on which one it is, and
 * who is meant.
 */
#include "pmpi.h"

int main(int argc, char **argv)
{
    MPI_Comm fluid;
    start(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &fluid);
    MPI_Comm_set_name(fluid, "fluid");
    MPI_Comm_set_errhandler(fluid, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    sum_ranks(MPI_COMM_WORLD);
    sum_ranks(fluid);
    int one = 1, sum = 0;
    CHECK(error_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_COMM_WORLD : fluid)) == MPI_ERR_OTHER);
    expect("taken", 3);
    MPI_Finalize();
    return 0;
}
