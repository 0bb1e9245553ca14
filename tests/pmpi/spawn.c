/*
 * Ranks that are started later, by MPI_Comm_spawn, and without Peal: calls among all go on to MPI, on both sides; those among the
 * first ones are taken as before, also when what both share is split in two again.
 */
#include <stdbool.h>

#include "pmpi.h"

enum { CALLS = 5, COUNT = 64 };

static void calls(MPI_Comm comm)
{
    int me, n, in[COUNT], out[COUNT];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = me + call + i;
        CHECK(MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        for (int i = 0; i < COUNT; i++)
            CHECK(out[i] == n * (n - 1) / 2 + n * (call + i));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, both, all, half;
    start(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    bool first = parent == MPI_COMM_NULL;
    if (first)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &both, MPI_ERRCODES_IGNORE);
    else
        both = parent;
    MPI_Intercomm_merge(both, !first, &all);
    calls(all);
    MPI_Comm_split(all, first, 0, &half);
    calls(half);
    if (first) {
        expect("passed on ranks that started apart", CALLS);
        expect("taken", CALLS);
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&both);
    MPI_Finalize();
    return 0;
}
