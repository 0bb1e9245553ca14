/*
 * A rank aborts a communicator: in a call, or before one that it then makes. The others, of its host and of others, hear of it in
 * that call, long before the deadline. 3 ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include <peal/mpi.h>

static int rank, failed;

static void check(int right, const char *what, double s)
{
    if (!right)
        fprintf(stderr, "rank %d: %s, after %.1f s\n", rank, what, s);
    failed |= !right;
}

static peal_comm *fresh(void)
{
    peal_comm *comm;
    int one = 1, sum = 0;
    if (peal_comm_create_mpi(MPI_COMM_WORLD, &comm) != PEAL_OK ||
        peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK || sum != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    return comm;
}

static peal_status call(peal_comm *comm, int aborts)
{
    int one = 1, sum;
    peal_request *request;
    peal_status status = peal_iallreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, NULL, &request);
    if (status != PEAL_OK)
        return status;
    if (aborts) {
        check(peal_test(&request) == PEAL_IN_PROGRESS, "a call ended without rank 2", 0);
        peal_comm_abort(comm);
    }
    return peal_wait(&request);
}

/* In a call, which rank 2 comes to when it is over; or BEFORE it. */
static void play(int before)
{
    peal_comm *comm = fresh();
    if (rank == 1 && before)
        peal_comm_abort(comm);
    if (rank == 2 && !before)
        sleep(1);
    const double start_s = MPI_Wtime();
    const peal_status status = call(comm, rank == 1 && !before);
    check(status == PEAL_ERR_ABORTED, before ? "a call that one rank could not make did not end" : "an aborted call did not end",
          MPI_Wtime() - start_s);
    check(MPI_Wtime() - start_s < 20, "a call ended late", MPI_Wtime() - start_s);
    check(peal_comm_error(comm) == PEAL_ERR_ABORTED, "the communicator does not say so", 0);
    MPI_Barrier(MPI_COMM_WORLD);
    peal_comm_destroy(&comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    play(0);
    play(1);
    MPI_Finalize();
    return failed;
}
