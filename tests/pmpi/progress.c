/*
 * A legal program: one rank waits for its receive after the allreduce, the other sends synchronously before it. The allreduce of
 * the receiver must let MPI answer the sender.
 */
#include "pmpi.h"

static void once(int count, int reverse)
{
    int me = reverse ? nranks - 1 - rank : rank;
    int peer = reverse ? nranks - 2 : 1, root = reverse ? nranks - 1 : 0;
    int *data = malloc((size_t)count * sizeof(*data));
    MPI_Request request;
    for (int i = 0; i < count; i++)
        data[i] = me == 1 ? i : -1;
    if (me == 0)
        MPI_Irecv(data, count, MPI_INT, peer, 3, MPI_COMM_WORLD, &request);
    if (me == 1)
        MPI_Ssend(data, count, MPI_INT, root, 3, MPI_COMM_WORLD);
    sum_ranks(MPI_COMM_WORLD);
    if (me == 0) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(data[0] == 0 && data[count - 1] == count - 1);
    }
    free(data);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 1000, 100000, 2000000}; /* eager and by agreement */
    start(&argc, &argv);
    double begun = MPI_Wtime();
    for (int i = 0; i < 40; i++)
        once(counts[i % 4], i / 4 % 2);
    CHECK(MPI_Wtime() - begun < 15); /* it was 38 while MPI was driven by the number of passes */
    expect("taken", 40);
    MPI_Finalize();
    return 0;
}
