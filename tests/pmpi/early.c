/* A collective before MPI_Init: MPI says so in its own words. */
#include <mpi.h>

int main(void)
{
    int in = 1, out = 0;
    return MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
