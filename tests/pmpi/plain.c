/* COUNT allreduces on MPI_COMM_WORLD and what is expected of them: plain COUNT WHAT... */
#include "pmpi.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int i = 0; i < atoi(argv[1]); i++)
        sum_ranks(MPI_COMM_WORLD);
    if (argc > 2)
        expect(argv[2], atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
