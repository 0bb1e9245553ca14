/*
 * A call that Peal took and could not do: the handler of the user's communicator hears of it, on that communicator alone. What its
 * ranks sent each other is not received any more, and MPI_Finalize ends all the same: failure COUNT
 */
#include <unistd.h>

#include "pmpi.h"

enum { MOST = 1 << 18 };

static MPI_Comm handled;
static int in[MOST], out[MOST];

static void handler(MPI_Comm *comm, int *error, ...)
{
    handled = *comm;
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Errhandler mine;
    MPI_Request all;
    start(&argc, &argv);
    int count = atoi(argv[1]);
    CHECK(count <= MOST);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(comm, mine);
    sum_ranks(comm);
    if (rank == 0) { /* alone: PEAL_TIMEOUT ends it */
        CHECK(error_class(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm)) == MPI_ERR_OTHER);
        CHECK(handled == comm);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &all); /* MPI's own: the others wait for rank 0 longer than PEAL_TIMEOUT */
    MPI_Wait(&all, MPI_STATUS_IGNORE);
    sum_ranks(MPI_COMM_WORLD);
    expect("taken", 3);
    MPI_Finalize();
    return 0;
}
