/* The calls whose counts are of MPI_Count, each beside its like with counts of int, which other ranks may call: counts */
#include "pmpi.h"

#if MPI_VERSION < 4
int main(void)
{
    puts("skipped: this MPI has no counts of MPI_Count");
    return 77;
}
#else
enum { N = 1000, MOST = 8 };

static int mine[MOST * N], all[MOST * N];
static long taken;

static void fill(int n)
{
    for (int i = 0; i < n; i++)
        mine[i] = share_of(rank, i, taken);
    memset(all, 0, sizeof all);
}

static void summed(const int *sums, int first)
{
    for (int i = 0; i < N; i++)
        CHECK(sums[i] == sum_of(first + i, taken));
    taken++;
}

static void reductions(void)
{
    MPI_Count counts[MOST];
    for (int r = 0; r < nranks; r++)
        counts[r] = N;
    fill(N);
    CHECK(MPI_Allreduce_c(mine, all, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(all, 0);
    fill(N);
    CHECK(MPI_Allreduce_c(MPI_IN_PLACE, mine, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(mine, 0);
    fill(N);
    CHECK(MPI_Reduce_c(mine, all, N, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Bcast_c(all, N, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(all, 0);
    taken++;
    fill(nranks * N);
    CHECK(MPI_Reduce_scatter_block_c(mine, all, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(all, rank * N);
    fill(nranks * N);
    CHECK(MPI_Reduce_scatter_c(MPI_IN_PLACE, mine, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(mine, rank * N);
}

static void gathered(void)
{
    for (int r = 0; r < nranks; r++)
        for (int i = 0; i < N; i++)
            CHECK(all[r * N + i] == share_of(r, i, taken));
    taken++;
}

/* Some ranks by the one name, some by the other: their counts are the same. */
static void moves(void)
{
    fill(N);
    if (rank == 0)
        CHECK(MPI_Allgather(mine, N, MPI_INT, all, N, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    else
        CHECK(MPI_Allgather_c(mine, N, MPI_INT, all, N, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    gathered();
    fill(N);
    memcpy(all + rank * N, mine, N * sizeof(int));
    CHECK(MPI_Allgather_c(MPI_IN_PLACE, 0, MPI_INT, all, N, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    gathered();
}

/* Of a type made with such a count MPICH refuses to say how as if that were int. Its bytes move. */
static void large_type(void)
{
    MPI_Datatype row;
    MPI_Type_contiguous_c(4 * N, MPI_INT, &row);
    MPI_Type_commit(&row);
    fill(4 * N);
    CHECK(MPI_Bcast(rank == 0 ? mine : all, 1, row, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < 4 * N; i++)
        CHECK(rank == 0 || all[i] == share_of(0, i, taken));
    taken++;
    MPI_Type_free(&row);
}

static void twice(void *in, void *inout, int *len, MPI_Datatype *type)
{
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* What Peal leaves to MPI, or, where that has no such calls, to those it has. */
static void passed_on(void)
{
    MPI_Op op;
    MPI_Count counts[MOST], before = 0;
    const long calls = taken;
    for (int r = 0; r < nranks; r++)
        counts[r] = r + 1;
    for (int r = 0; r < rank; r++)
        before += counts[r];
    MPI_Op_create(twice, 1, &op);
    fill(MOST * N);
    CHECK(MPI_Allreduce_c(mine, all, N, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    summed(all, 0);
    taken = calls;
    fill(N);
    CHECK(MPI_Reduce_c(mine, all, N, MPI_INT, op, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(rank != 0 || all[N - 1] == sum_of(N - 1, taken));
    fill(nranks * N);
    CHECK(MPI_Reduce_scatter_block_c(mine, all, N, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(all[N - 1] == sum_of(rank * N + N - 1, taken));
    CHECK(MPI_Reduce_scatter_c(mine, all, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(all[rank] == sum_of((int)before + rank, taken));
    CHECK(MPI_Bcast_c(mine, 0, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Allgather_c(mine, 0, MPI_INT, all, 0, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Op_free(&op);
    expect("passed on user-defined op", 3);
    expect("passed on counts not all equal", 1);
    expect("passed on count zero or negative", 2);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    reductions();
    moves();
    large_type();
    passed_on();
    expect("taken", taken);
    MPI_Finalize();
    return 0;
}
#endif
