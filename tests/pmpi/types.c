/*
 * Derived types in a broadcast: those whose bytes lie in memory as they travel are left there, however they were built; those that
 * permute them are packed, even where they have no gaps; and those that take long to look at.
 */
#include <dlfcn.h>

#include "pmpi.h"

enum { MOST = 30000 };

static long taken;
static int packs;

/* In the place of MPI's own, for libpeal_mpi too. */
__attribute__((visibility("default"))) int PMPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int bytes,
                                                     int *position, MPI_Comm comm)
{
    int (*mpi)(const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm);
    *(void **)&mpi = dlsym(RTLD_NEXT, "PMPI_Pack");
    packs += count > 0; /* of none: it is asked whether it could */
    return mpi(in, count, type, out, bytes, position, comm);
}

/* A struct of FIRST at byte AT0 and SECOND at AT1. */
static MPI_Datatype two(MPI_Datatype first, MPI_Datatype second, MPI_Aint at0, MPI_Aint at1)
{
    MPI_Datatype type;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){at0, at1}, (MPI_Datatype[]){first, second}, &type);
    return type;
}

static MPI_Datatype times(int n, MPI_Datatype of)
{
    MPI_Datatype type;
    MPI_Type_contiguous(n, of, &type);
    return type;
}

/* OF, in as many types of one element each. */
static MPI_Datatype wrapped(int n, MPI_Datatype of)
{
    MPI_Datatype outer = times(1, of);
    if (n > 1) {
        MPI_Datatype inner = outer;
        outer = wrapped(n - 1, inner);
        MPI_Type_free(&inner);
    }
    return outer;
}

/* Sends COUNT elements of six ints each, as TYPE here and as ints there; int I of an element lies at ORDER[I]. */
static void one(MPI_Datatype type, const char *order, int count, int packed)
{
    static int data[MOST];
    MPI_Type_commit(&type);
    for (int root = 0; root < nranks; root++) {
        int derived = (rank + root / 2) % 2, before = packs;
        for (int i = 0; i < 6 * count; i++)
            data[derived ? i / 6 * 6 + order[i % 6] - '0' : i] = rank == root ? i + root : -1;
        CHECK(MPI_Bcast(data, derived ? count : 6 * count, derived ? type : MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
        for (int i = 0; i < 6 * count; i++)
            CHECK(data[derived ? i / 6 * 6 + order[i % 6] - '0' : i] == i + root);
        CHECK(packs - before == (packed && derived && rank == root));
        taken++;
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    static const int counts[] = {400, MOST / 6}; /* what is shorter is packed, as that takes less time than to look */
    start(&argc, &argv);
    for (int c = 0; c < 2; c++) {
        MPI_Datatype pair = two(MPI_INT, MPI_INT, 0, 4), swapped = two(MPI_INT, MPI_INT, 4, 0), dup, row;
        MPI_Datatype six = times(6, MPI_INT);
        MPI_Type_dup(pair, &dup);
        MPI_Type_vector(3, 1, 1, pair, &row);
        one(times(6, MPI_INT), "012345", counts[c], 0);
        one(times(3, dup), "012345", counts[c], 0);
        one(two(times(4, MPI_INT), pair, 0, 16), "012345", counts[c], 0);
        one(two(times(4, MPI_INT), pair, 8, 0), "234501", counts[c], 1);
        one(two(times(4, MPI_INT), swapped, 0, 16), "012354", counts[c], 1);
        one(times(3, swapped), "103254", counts[c], 1);
        one(row, "012345", counts[c], 1);
        one(wrapped(31, six), "012345", counts[c], 0);
        one(wrapped(32, six), "012345", counts[c], 1);
        MPI_Type_free(&six);
        MPI_Type_free(&pair);
        MPI_Type_free(&swapped);
        MPI_Type_free(&dup);
    }
    expect("taken", taken);
    MPI_Finalize();
    return 0;
}
