/* Two communicators get a shadow (tool_noshadow.c), the next ones none: their calls go to MPI, and no error handler hears of it. */
#include "pmpi.h"

int main(int argc, char **argv)
{
    MPI_Comm comms[4];
    start(&argc, &argv);
    for (int i = 0; i < 4; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]); /* errors are fatal on it */
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 4; i++)
            sum_ranks(comms[i]);
    expect("taken", 6);
    expect("passed on no communicator left", 6);
    MPI_Finalize();
    return 0;
}
