/* More than 2^31 bytes in one call, and in what a call gathers. Skipped where that much memory is not free. */
#include <sys/sysinfo.h>

#include "pmpi.h"

enum { MANY = (1 << 28) + 1000 }; /* longs: more than 2 GiB */

static int enough_memory(void)
{
    struct sysinfo info;
    sysinfo(&info);
    return (info.freeram + info.bufferram) * (double)info.mem_unit > 2.5 * nranks * MANY * sizeof(long);
}

static void fill(long *data, long from, long count)
{
    for (long i = 0; i < count; i++)
        data[i] = from * 7 + i;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int enough = enough_memory(), part = MANY / nranks;
    MPI_Request request;
    MPI_Ibcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD, &request); /* which Peal leaves alone */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!enough) {
        if (rank == 0)
            printf("skipped: not 2.5 times %d ranks of 2 GiB free\n", nranks);
        MPI_Finalize();
        return 77;
    }
    long *data = malloc(MANY * sizeof(*data));
    fill(data, rank, MANY);
    CHECK(MPI_Allreduce(MPI_IN_PLACE, data, MANY, MPI_LONG, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (long i = 0; i < MANY; i++)
        CHECK(data[i] == 7L * nranks * (nranks - 1) / 2 + nranks * i);

    fill(data, rank, MANY);
    CHECK(MPI_Bcast(data, MANY, MPI_LONG, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (long i = 0; i < MANY; i++)
        CHECK(data[i] == 7 + i);

    fill(data + (long)rank * part, rank, part);
    CHECK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, data, part, MPI_LONG, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (long i = 0; i < (long)nranks * part; i++)
        CHECK(data[i] == i / part * 7 + i % part);
    free(data);
    expect("taken", 2);
    expect("passed on over 2 GiB that may need packing", 1);
    MPI_Finalize();
    return 0;
}
