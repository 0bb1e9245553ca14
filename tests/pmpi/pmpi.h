/*
 * What the interposer's test programs share. A program checks its results, and counts the calls that Peal must have taken and
 * passed on; run.sh compares these with the table that Peal prints at MPI_Finalize.
 */
#ifndef TESTS_PMPI_H
#define TESTS_PMPI_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                      \
    do {                                                                                                 \
        if (!(what)) {                                                                                   \
            printf("%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, rank, #what);                     \
            fflush(stdout);                                                                              \
            PMPI_Abort(MPI_COMM_WORLD, 1);                                                               \
        }                                                                                                \
    } while (0)

static int rank, nranks;

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
}

/* What of rank 0's calls the table must show: `taken`, or `passed on` and a reason. */
static inline void expect(const char *what, long calls)
{
    if (rank == 0 && calls > 0)
        printf("expect %s %ld\n", what, calls);
}

static inline int error_class(int error)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(error, &class);
    return class;
}

/* Element I of what rank FROM gives in call number CALL, and the sum of those of all ranks. */
static inline int share_of(int from, int i, long call)
{
    return from * 1000003 + i * 7 + (int)call;
}

static inline int sum_of(int i, long call)
{
    int all = 0;
    for (int r = 0; r < nranks; r++)
        all += share_of(r, i, call);
    return all;
}

/* One allreduce of ints on COMM whose result is known. */
static inline void sum_ranks(MPI_Comm comm)
{
    int me, n, sum = -1;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    me++;
    CHECK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    CHECK(sum == n * (n + 1) / 2);
}

#endif
