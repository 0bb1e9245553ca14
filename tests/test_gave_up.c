/*
 * A rank that gives up on another and ends its communicator leaves messages with its transport, which none can take back. Who
 * comes late hears what it was told then, and not what that memory has become. 2 ranks that exchange messages, PEAL_TIMEOUT 1, and
 * an allocator that overwrites what is freed (MALLOC_PERTURB_).
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <peal/mpi.h>

enum { CALLS = 20000, AWAY_S = 3 }; /* more calls than the transport takes in; longer than the deadline */

/* This process does nothing for a while. */
static void stop(void)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        sleep(AWAY_S);
        kill(parent, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
}

int main(int argc, char **argv)
{
    int rank, done = 0;
    peal_comm *comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peal_status status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
    if (status == PEAL_OK)
        status = peal_barrier(comm, NULL);
    if (status != PEAL_OK)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 1)
        stop();
    for (long call = 0, data = 0; call < CALLS && status == PEAL_OK; call++, data = call) {
        status = peal_broadcast(&data, sizeof data, PEAL_BYTE, 0, comm, NULL);
        if (status == PEAL_OK && data != call)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    peal_comm_destroy(&comm);
    MPI_Request request; /* rank 0 drives MPI until rank 1 has come */
    if (rank == 1)
        MPI_Isend(&done, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    else
        MPI_Irecv(&done, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (status != PEAL_ERR_TIMEOUT)
        fprintf(stderr, "rank %d: %s\n", rank, peal_status_text(status));
    MPI_Finalize();
    return status != PEAL_ERR_TIMEOUT;
}
