/* A program that links libpeal_mpi for its own use: its MPI_Allreduce is MPI's, unless PEAL_INTERPOSE asks for more. */
#include <peal/mpi.h>

#include "pmpi.h"

int main(int argc, char **argv)
{
    peal_comm *comm;
    float in = 1, out = 0;
    start(&argc, &argv);
    CHECK(peal_comm_create_mpi(MPI_COMM_WORLD, &comm) == PEAL_OK);
    CHECK(peal_allreduce(&in, &out, 1, PEAL_FLOAT, PEAL_SUM, comm, NULL) == PEAL_OK && out == (float)nranks);
    peal_comm_destroy(&comm);
    for (int i = 0; i < 4; i++)
        sum_ranks(MPI_COMM_WORLD);
    expect("taken", atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
