/*
 * For LD_PRELOAD in front of an MPI program: how often this rank called the collectives that Peal takes, and how long it was in
 * them, waiting for others included. At MPI_Finalize each rank writes $PROFILE.RANK: a line `NAME CALLS SECONDS` for each, and
 * `all` for the time from MPI_Init on. C calls alone, for LAMMPS and HPCC are in C and C++. programs.sh compiles it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALLREDUCE, ALLGATHER, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, BCAST, REDUCE, BARRIER, ALL, KINDS };
static const char *const names[KINDS] = {"Allreduce", "Allgather", "Reduce_scatter", "Reduce_scatter_block", "Bcast", "Reduce",
                                         "Barrier", "all"};
static long calls[KINDS];
static double seconds[KINDS];

static int note(int kind, double start, int error)
{
    seconds[kind] += MPI_Wtime() - start;
    calls[kind]++;
    return error;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(ALLREDUCE, start, PMPI_Allreduce(send, recv, count, type, op, comm));
}

int MPI_Allgather(const void *send, int sendcount, MPI_Datatype sendtype, void *recv, int recvcount, MPI_Datatype recvtype,
                  MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(ALLGATHER, start, PMPI_Allgather(send, sendcount, sendtype, recv, recvcount, recvtype, comm));
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(REDUCE_SCATTER, start, PMPI_Reduce_scatter(send, recv, counts, type, op, comm));
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(REDUCE_SCATTER_BLOCK, start, PMPI_Reduce_scatter_block(send, recv, count, type, op, comm));
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(BCAST, start, PMPI_Bcast(buf, count, type, root, comm));
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(REDUCE, start, PMPI_Reduce(send, recv, count, type, op, root, comm));
}

int MPI_Barrier(MPI_Comm comm)
{
    double start = MPI_Wtime();
    return note(BARRIER, start, PMPI_Barrier(comm));
}

int MPI_Init(int *argc, char ***argv)
{
    int error = PMPI_Init(argc, argv);
    seconds[ALL] = -MPI_Wtime();
    return error;
}

int MPI_Finalize(void)
{
    const char *to = getenv("PROFILE");
    char name[4096];
    int rank;
    seconds[ALL] += MPI_Wtime();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "%s.%d", to ? to : "profile", rank);
    FILE *file = fopen(name, "w");
    for (int k = 0; file && k < KINDS; k++)
        fprintf(file, "%s %ld %.6f\n", names[k], calls[k], seconds[k]);
    if (!file || fclose(file) != 0)
        perror(name);
    return PMPI_Finalize();
}
