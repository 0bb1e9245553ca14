/* Peal's C API in an MPI program: a communicator from MPI_COMM_WORLD, and one sum. Run it by `mpirun -n 4 example_allreduce`. */
#include <stdio.h>
#include <stdlib.h>

#include <peal/mpi.h>

static void must(peal_status status, const char *what)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, peal_status_text(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    enum { COUNT = 1000 };
    double in[COUNT], out[COUNT];
    peal_comm *comm;
    int wrong = 0;
    MPI_Init(&argc, &argv);
    must(peal_comm_create_mpi(MPI_COMM_WORLD, &comm), "peal_comm_create_mpi");
    int rank = peal_comm_rank(comm), nranks = peal_comm_size(comm);

    for (int i = 0; i < COUNT; i++)
        in[i] = rank + i;
    must(peal_allreduce(in, out, COUNT, PEAL_DOUBLE, PEAL_SUM, comm, NULL), "peal_allreduce");
    for (int i = 0; i < COUNT; i++)
        wrong += out[i] != nranks * (nranks - 1) / 2.0 + (double)nranks * i;

    if (rank == 0)
        printf("%d ranks, algorithm %s, %d wrong\n", nranks,
               peal_comm_choice(comm, PEAL_ALLREDUCE, COUNT, PEAL_DOUBLE, PEAL_SUM), wrong);
    peal_comm_destroy(&comm);
    MPI_Finalize();
    return wrong != 0;
}
