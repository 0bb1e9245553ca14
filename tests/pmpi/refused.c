/*
 * Calls that fail on a rank before they reach Peal. Where it is on all ranks alike, as of a type that is not committed, they go on
 * as with MPI alone; where it is one rank's, all get an error, and none the data of that rank's next call. With an argument: that
 * rank makes none, and the others hear of it all the same.
 */
#include "pmpi.h"

int main(int argc, char **argv)
{
    enum { PAIRS = 3 };
    int pairs[2 * PAIRS], got[64] = {0}, mine[2] = {0};
    MPI_Comm comm;
    MPI_Datatype every_other;
    start(&argc, &argv);
    CHECK(nranks <= 64);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(PAIRS, 1, 2, MPI_INT, &every_other);
    CHECK(error_class(MPI_Bcast(pairs, 1, every_other, 0, comm)) == MPI_ERR_TYPE);
    MPI_Type_commit(&every_other);
    for (int i = 0; i < 2 * PAIRS; i++)
        pairs[i] = rank == 0 ? i : -1;
    CHECK(MPI_Bcast(pairs, 1, every_other, 0, comm) == MPI_SUCCESS);
    for (int i = 0; i < PAIRS; i++)
        CHECK(pairs[2 * i] == 2 * i && (rank == 0 || pairs[2 * i + 1] == -1));
    sum_ranks(comm);
    MPI_Type_free(&every_other);
    const int calls = argc > 1 ? 1 : 2;
    const double start_s = MPI_Wtime();
    for (int call = 1; call <= calls; call++) {
        mine[0] = 100 * call + rank;
        CHECK(MPI_Allgather(mine, rank == 0 && call == 1 ? 2 : 1, MPI_INT, got, 1, MPI_INT, comm) != MPI_SUCCESS);
        CHECK(rank == 0 || call == 2 || got[0] != 200);
    }
    CHECK(MPI_Wtime() - start_s < 20);
    MPI_Barrier(MPI_COMM_WORLD);
    sum_ranks(MPI_COMM_WORLD);
    expect("taken", 3 + calls); /* rank 0 knows of no error when it makes its second allgather */
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
