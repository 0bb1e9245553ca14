/*
 * A rank that stops for longer than PEAL_TIMEOUT while a communicator is made, when all have called: no rank waits for it beyond
 * that, it gets no communicator, either, and the next one is made. 3 ranks, PEAL_TIMEOUT 1.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include <peal/mpi.h>

/* Of Peal's messages; the bootstrap of 3 ranks has two for each time that all agree, and two or three for what they gather. */
enum { FIRST = 1, GATHERED = 4, AGREED = 7, AWAY_S = 2 };

static int rank, failed, sent, stops_at;

static void check(int right, const char *what, peal_status status)
{
    if (!right)
        fprintf(stderr, "rank %d, stopped at message %d: %s: %s\n", rank, stops_at, what, peal_status_text(status));
    failed |= !right;
}

/* In place of MPI's: by this the rank stops. */
int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Isend");
    if (rank == 1 && ++sent == stops_at)
        sleep(AWAY_S);
    return next(buf, count, type, dest, tag, comm, request);
}

static peal_status make(int at, double *took_s)
{
    peal_comm *comm = NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    sent = 0;
    stops_at = at;
    const double begin_s = MPI_Wtime();
    const peal_status status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
    *took_s = MPI_Wtime() - begin_s;
    peal_comm_destroy(&comm);
    return status;
}

int main(int argc, char **argv)
{
    const int stops[] = {FIRST, GATHERED, AGREED};
    double took_s;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 3; k++) {
        peal_status status = make(stops[k], &took_s);
        check(status == PEAL_ERR_TIMEOUT, "it should not have been made", status);
        check(took_s < (rank == 1 ? AWAY_S + 2 : AWAY_S), "that took too long", status);
        status = make(0, &took_s);
        check(status == PEAL_OK, "the next one should have been made", status);
    }
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
