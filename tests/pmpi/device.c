/*
 * Collectives on device memory, on some ranks or on all, for the input, the result or both, in place and not, by an MPI that knows
 * nothing of it; and what is said where a copy fails.
 */
#include "pmpi.h"

#include "fake_cuda.h"

enum { LONGEST = 3000, CALLS = 60, GAP = 3 };

static unsigned seed = 1;
static long calls;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Its own on each rank. */
static int here(int what)
{
    return (int)(((unsigned)(calls * 31 + rank * 7 + what * 13) * 2654435761u) >> 20) & 1;
}

static void copy(void *to, const void *from, size_t bytes)
{
    CHECK(cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, NULL) == 0 && cuStreamSynchronize(NULL) == 0);
}

typedef struct buffer {
    int device;
    int *at;
    int got[LONGEST * 8];
} buffer;

static void make(buffer *b, int device, int n)
{
    peali_cu_ptr at;
    b->device = device;
    if (device) {
        CHECK(cuMemAlloc_v2(&at, sizeof b->got) == 0);
        b->at = (int *)(uintptr_t)at;
    } else {
        b->at = malloc(sizeof b->got);
    }
    for (int i = 0; i < n; i++)
        b->got[i] = -1 - i;
    copy(b->at, b->got, (size_t)n * sizeof *b->got);
}

static void put(buffer *b, int at, int n, int from)
{
    for (int i = 0; i < n; i++)
        b->got[i] = from * 1000003 + i * 7 + (int)calls;
    copy(b->at + at, b->got, (size_t)n * sizeof *b->got);
}

static const int *get(buffer *b, int n)
{
    copy(b->got, b->at, (size_t)n * sizeof *b->got);
    return b->got;
}

static void drop(buffer *b)
{
    if (b->device)
        CHECK(cuMemFree_v2((uintptr_t)b->at) == 0);
    else
        free(b->at);
}

static buffer in, out;

static void allreduce(int n, int in_place)
{
    make(&in, here(0), n);
    make(&out, here(1), n);
    put(in_place ? &out : &in, 0, n, rank);
    CHECK(MPI_Allreduce(in_place ? MPI_IN_PLACE : in.at, out.at, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n);
    for (int i = 0; i < n; i++)
        CHECK(got[i] == sum_of(i, calls));
}

static void reduce(int n, int in_place, int root)
{
    make(&in, here(0), n);
    make(&out, here(1), n);
    in_place &= rank == root;
    put(in_place ? &out : &in, 0, n, rank);
    CHECK(MPI_Reduce(in_place ? MPI_IN_PLACE : in.at, out.at, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n);
    for (int i = 0; i < n; i++)
        CHECK(got[i] == (rank == root ? sum_of(i, calls) : -1 - i));
}

static void reduce_scatter(int n, int in_place)
{
    make(&in, here(0), n * nranks);
    make(&out, here(1), n * nranks);
    put(in_place ? &out : &in, 0, n * nranks, rank);
    CHECK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : in.at, out.at, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n);
    for (int i = 0; i < n; i++)
        CHECK(got[i] == sum_of(rank * n + i, calls));
}

static void allgather(int n, int in_place)
{
    make(&in, here(0), n);
    make(&out, here(1), n * nranks);
    if (in_place)
        put(&out, rank * n, n, rank);
    else
        put(&in, 0, n, rank);
    CHECK(MPI_Allgather(in_place ? MPI_IN_PLACE : in.at, n, MPI_INT, out.at, n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n * nranks);
    for (int r = 0; r < nranks; r++)
        for (int i = 0; i < n; i++)
            CHECK(got[r * n + i] == share_of(r, i, calls));
}

static void bcast(int n, int root)
{
    make(&in, 0, 1);
    make(&out, here(1), n);
    if (rank == root)
        put(&out, 0, n, root);
    CHECK(MPI_Bcast(out.at, n, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n);
    for (int i = 0; i < n; i++)
        CHECK(got[i] == share_of(root, i, calls));
}

/* Every third number; what is between them stays. */
static void bcast_gaps(int n, int root)
{
    MPI_Datatype third;
    n = n / GAP + 1;
    MPI_Type_vector(n, 1, GAP, MPI_INT, &third);
    MPI_Type_commit(&third);
    make(&in, 0, 1);
    make(&out, here(1), n * GAP);
    if (rank == root)
        put(&out, 0, n * GAP, root);
    CHECK(MPI_Bcast(out.at, 1, third, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    const int *got = get(&out, n * GAP);
    for (int i = 0; i < (n - 1) * GAP + 1; i++)
        CHECK(got[i] == (i % GAP == 0 || rank == root ? share_of(root, i, calls) : -1 - i));
    MPI_Type_free(&third);
}

static void one(void)
{
    int n = 1 + (int)draw(LONGEST), in_place = (int)draw(2), root = (int)draw((unsigned)nranks);
    switch (calls % 6) {
    case 0: allreduce(n, in_place); break;
    case 1: reduce(n, in_place, root); break;
    case 2: reduce_scatter(n, in_place); break;
    case 3: allgather(n, in_place); break;
    case 4: bcast(n, root); break;
    default: bcast_gaps(n, root);
    }
    drop(&in);
    drop(&out);
    calls++;
}

/* On all ranks the copy that brings the input fails. */
static void failing(void)
{
    int device = 1;
    make(&in, device, 1);
    make(&out, device, 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fake_cuda_fail("cuMemcpyAsync", 1, 999);
    CHECK(error_class(MPI_Allreduce(in.at, out.at, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
    drop(&in);
    drop(&out);
    calls++;
}

int main(int argc, char **argv)
{
    peali_cu_ctx context;
    start(&argc, &argv);
    CHECK(nranks <= 8);
    CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxPushCurrent_v2(context) == 0);
    while (calls < CALLS)
        one();
    failing();
    expect("taken", calls - 1);
    MPI_Finalize();
    return 0;
}
