/*
 * A rank that is away for longer than another waits, and comes back to a call that was given up: it gets that call's error, not a
 * result that is made of whatever the other one has in its buffers by then, and leaves those alone; so where it was aborted.
 * 2 ranks, PEAL_TIMEOUT 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <peal/mpi.h>

enum { COUNT = 100000, BEGUN_S = 1, AWAY_S = 6 }; /* s; the deadlines of three calls between */

/* What one rank begins and comes back to; LATE it comes to only then. */
enum { BROADCAST, ALLREDUCE, LATE, ABORTED, COMMS };

static int rank, failed;

static void check(int right, const char *what)
{
    if (!right)
        fprintf(stderr, "rank %d: %s\n", rank, what);
    failed |= !right;
}

static int *fresh(int value)
{
    int *a = peal_mem_alloc(COUNT * sizeof *a);
    if (!a)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < COUNT; i++)
        a[i] = value;
    return a;
}

static int holds(const int *a, int value)
{
    int right = 1;
    for (int i = 0; i < COUNT; i++)
        right &= a[i] == value;
    return right;
}

static peal_status begin(peal_comm *comm, int no, int *in, int *out, peal_request **request)
{
    if (no == BROADCAST || no == LATE)
        return peal_ibroadcast(in, COUNT, PEAL_INT32, 0, comm, NULL, request);
    return peal_iallreduce(in, out, COUNT, PEAL_INT32, PEAL_SUM, comm, NULL, request);
}

/* A root may have left its data with the transport: then its call ends well, and the other's with that. */
static int ends_well(int no, peal_status status, const int *in)
{
    if (status == PEAL_OK)
        return (no == BROADCAST || no == LATE) && holds(in, 1);
    return status == (no == ABORTED ? PEAL_ERR_ABORTED : PEAL_ERR_TIMEOUT);
}

/* Gives up its calls, and uses their buffers again. */
static void leave(peal_comm **comm, int **in, int **out)
{
    peal_request *request;
    sleep(BEGUN_S);
    for (int k = 0; k < COMMS; k++) {
        check(begin(comm[k], k, in[k], out[k], &request) == PEAL_OK, "no call");
        if (k == ABORTED) {
            check(peal_test(&request) == PEAL_IN_PROGRESS, "a call ended before the other rank's part was done");
            peal_comm_abort(comm[k]);
        }
        check(ends_well(k, peal_wait(&request), in[k]), "a call did not end as it was given up");
        for (int i = 0; i < COUNT; i++)
            in[k][i] = out[k][i] = 1000;
    }
}

static void come_back(peal_comm **comm, int **in, int **out)
{
    peal_request *request[COMMS];
    for (int k = 0; k < COMMS; k++) {
        if (k == LATE)
            continue;
        check(begin(comm[k], k, in[k], out[k], &request[k]) == PEAL_OK, "no call");
        check(peal_test(&request[k]) == PEAL_IN_PROGRESS, "a call ended that the other rank had not begun");
    }
    sleep(AWAY_S);
    check(begin(comm[LATE], LATE, in[LATE], out[LATE], &request[LATE]) == PEAL_OK, "no late call");
    for (int k = 0; k < COMMS; k++) {
        const peal_status status = peal_wait(&request[k]);
        check(ends_well(k, status, in[k]), peal_status_text(status));
    }
}

int main(int argc, char **argv)
{
    peal_comm *comm[COMMS];
    int *in[COMMS], *out[COMMS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < COMMS; k++) {
        in[k] = fresh(1);
        out[k] = fresh(0);
        if (peal_comm_create_mpi(MPI_COMM_WORLD, &comm[k]) != PEAL_OK ||
            peal_allreduce(in[k], out[k], COUNT, PEAL_INT32, PEAL_SUM, comm[k], NULL) != PEAL_OK || !holds(out[k], 2))
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    (rank == 0 ? leave : come_back)(comm, in, out);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < COMMS; k++) {
        check(rank == 1 || (holds(in[k], 1000) && holds(out[k], 1000)), "a buffer was written to after its call had ended");
        peal_comm_destroy(&comm[k]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < COMMS; k++) {
        peal_mem_free(in[k]);
        peal_mem_free(out[k]);
    }
    MPI_Finalize();
    return failed;
}
