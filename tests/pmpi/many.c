/* More communicators alive than may have a shadow, on MPICH nearly all that it has: many ALIVE SHADOWS */
#include "pmpi.h"

static long taken, passed;

static void call(MPI_Comm comm, int has_shadow)
{
    sum_ranks(comm);
    taken += has_shadow;
    passed += !has_shadow;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int alive = atoi(argv[1]), shadows = atoi(argv[2]);
    MPI_Comm *comms = malloc((size_t)alive * sizeof(*comms));
    for (int i = 0; i < alive; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        call(comms[i], i < shadows);
    }
    for (int i = 0; i < alive; i++)
        call(comms[i], i < shadows);
    for (int i = 0; i < 3; i++) { /* their shadows are for others now, not for those that went without */
        MPI_Comm_free(&comms[i]);
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        call(comms[alive - 1], 0);
        call(comms[i], 1);
    }
    for (int i = 0; i < alive; i++)
        MPI_Comm_free(&comms[i]);
    free(comms);
    expect("taken", taken);
    expect("passed on no communicator left", passed);
    MPI_Finalize();
    return 0;
}
