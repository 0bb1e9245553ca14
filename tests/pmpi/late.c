/*
 * A rank that comes late to one call, and then to another call on another communicator: what the ranks told each other meanwhile
 * is of no concern to a later communicator, even where MPI takes it for the old one, nor to MPI_Finalize.
 */
#include <unistd.h>

#include "pmpi.h"

/* In the second call one rank is late, long enough for the other to wonder. */
static void calls(MPI_Comm comm, int late_rank, int count)
{
    enum { LATE_US = 1300000 };
    double in[8] = {1, 1, 1, 1, 1, 1, 1, 1}, out[8] = {0};
    sum_ranks(comm);
    if (rank == late_rank)
        usleep(LATE_US);
    CHECK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK(out[0] == nranks && out[count - 1] == nranks);
    for (int i = 0, found; i < 20; i++) /* MPI hears of all that was sent */
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    start(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    calls(comm, 1, 1);
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    calls(comm, 0, 8);
    expect("taken", 4);
    MPI_Finalize();
    return 0;
}
