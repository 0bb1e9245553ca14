/*
 * Allgather, reduce-scatter, broadcast, reduce and barrier: in place and not, every root, and types that differ between the ranks of one call
 * where MPI allows it.
 */
#include <sys/mman.h>
#include <time.h>

#include "pmpi.h"

enum { MOST = 70000 };

static long taken, unequal;

static int value(int from, int i)
{
    return from * 1000003 + i * 7 + 1;
}

/* What all ranks' element I adds up to. */
static int total(int i)
{
    int sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += value(r, i);
    return sum;
}

static int *ints(int count)
{
    int *data = malloc((size_t)count * sizeof(*data));
    for (int i = 0; i < count; i++)
        data[i] = -1;
    return data;
}

static void allgather(int count, int inplace)
{
    int *in = ints(count), *out = ints(count * nranks + 1);
    for (int i = 0; i < count; i++)
        in[i] = out[rank * count + i] = value(rank, i);
    CHECK(MPI_Allgather(inplace ? MPI_IN_PLACE : in, inplace ? -1 : count, inplace ? MPI_DATATYPE_NULL : MPI_INT, out, count, MPI_INT,
                        MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count * nranks; i++)
        CHECK(out[i] == value(i / count, i % count));
    CHECK(out[count * nranks] == -1);
    taken++;
    free(in);
    free(out);
}

/* The same through MPI_Reduce_scatter; in place, the rest of the input stays. */
static void reduce_scatter(int count, int inplace, int array)
{
    int *in = ints(count * nranks), *out = ints(count * nranks + 1), *counts = ints(nranks);
    const void *send = inplace ? MPI_IN_PLACE : in;
    for (int r = 0; r < nranks; r++)
        counts[r] = count;
    for (int i = 0; i < count * nranks; i++)
        in[i] = value(rank, i);
    if (inplace)
        memcpy(out, in, (size_t)(count * nranks) * sizeof(*out));
    if (array)
        CHECK(MPI_Reduce_scatter(send, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    else
        CHECK(MPI_Reduce_scatter_block(send, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == total(rank * count + i));
    for (int i = count; i < count * nranks + 1; i++)
        CHECK(out[i] == (inplace && i < count * nranks ? value(rank, i) : -1));
    taken++;
    free(in);
    free(out);
    free(counts);
}

/* Counts of r + 1, all alike but the last, and all zero. */
static void unequal_counts(void)
{
    int *counts = ints(nranks), n = nranks * (nranks + 1) / 2, *in = ints(n), *out = ints(nranks);
    for (int i = 0; i < n; i++)
        in[i] = value(rank, i);
    for (int r = 0; r < nranks; r++)
        counts[r] = r + 1;
    CHECK(MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i <= rank; i++)
        CHECK(out[i] == total(rank * (rank + 1) / 2 + i));
    for (int r = 0; r < nranks; r++)
        counts[r] = r < nranks - 1 ? 1 : 2;
    CHECK(MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < counts[rank]; i++)
        CHECK(out[i] == total(rank + i));
    memset(counts, 0, (size_t)nranks * sizeof(*counts));
    CHECK(MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    unequal += 2;
    free(counts);
    free(in);
    free(out);
}

static void bcast(int count, int root)
{
    int *data = ints(count + 1);
    for (int i = 0; rank == root && i < count; i++)
        data[i] = value(root, i);
    CHECK(MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(data[i] == value(root, i));
    CHECK(data[count] == -1);
    taken++;
    free(data);
}

/* Only the root has a place for the result. */
static void reduce(int count, int root, int inplace)
{
    int *in = ints(count), *out = rank == root ? ints(count + 1) : NULL;
    for (int i = 0; i < count; i++)
        in[i] = value(rank, i);
    if (inplace && rank == root)
        memcpy(out, in, (size_t)count * sizeof(*in));
    CHECK(MPI_Reduce(inplace && rank == root ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(in[i] == value(rank, i) && (rank != root || out[i] == total(i)));
    CHECK(rank != root || out[count] == -1);
    taken++;
    free(in);
    free(out);
}

/* Each rank describes COUNT pairs of ints, two ints apart where LOOSE, in one of four ways with one signature. */
static int pairs(int way, int loose, int count, MPI_Datatype *type)
{
    int lens[2] = {1, 1};
    MPI_Aint at[2] = {0, 4};
    MPI_Datatype of[2] = {MPI_INT, MPI_INT}, tight;
    if (loose)
        MPI_Type_vector(count, 2, 4, MPI_INT, type);
    else if (way == 0)
        MPI_Type_contiguous(2 * count, MPI_INT, type);
    else if (way == 1)
        MPI_Type_create_struct(2, lens, at, of, type);
    else
        MPI_Type_dup(MPI_INT, type);
    if (loose) { /* so that the next one begins where this one's gap ends */
        tight = *type;
        MPI_Type_create_resized(tight, 0, count * 16, type);
        MPI_Type_free(&tight);
    }
    MPI_Type_commit(type);
    return loose || way == 0 ? 1 : way == 1 ? count : 2 * count;
}

static int place(int loose, int i)
{
    return loose ? i / 2 * 4 + i % 2 : i;
}

/* Root and others name the same ints with different types; some leave gaps. */
static void bcast_types(int count, int root)
{
    MPI_Datatype type = MPI_INT;
    int way = (rank + root) % 5, loose = way == 3, *data = ints(4 * count), n = 2 * count;
    if (way < 4)
        n = pairs(way, loose, count, &type);
    for (int i = 0; rank == root && i < 2 * count; i++)
        data[place(loose, i)] = value(root, i);
    CHECK(MPI_Bcast(data, n, type, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < 2 * count; i++)
        CHECK(data[place(loose, i)] == value(root, i));
    CHECK(!loose || data[2] == -1);
    taken++;
    if (way < 4)
        MPI_Type_free(&type);
    free(data);
}

static void allgather_types(int count, int turn, int inplace)
{
    MPI_Datatype from = MPI_INT, to = MPI_INT;
    int away = (rank + turn) % 5, bway = (rank + turn / 2 + 1) % 5, *in = ints(4 * count), *out = ints(4 * count * nranks);
    int m = away < 4 ? pairs(away, away == 3, count, &from) : 2 * count, loose = bway == 3;
    int n = bway < 4 ? pairs(bway, loose, count, &to) : 2 * count;
    for (int i = 0; i < 2 * count; i++)
        in[place(away == 3, i)] = out[place(loose, rank * 2 * count + i)] = value(rank, i);
    CHECK(MPI_Allgather(inplace ? MPI_IN_PLACE : in, m, from, out, n, to, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < 2 * count * nranks; i++)
        CHECK(out[place(loose, i)] == value(i / (2 * count), i % (2 * count)));
    CHECK(!loose || out[2] == -1);
    taken++;
    if (away < 4)
        MPI_Type_free(&from);
    if (bway < 4)
        MPI_Type_free(&to);
    free(in);
    free(out);
}

/* What is only given is only read: it may be a string of the program. COUNT ints for each rank. */
static void read_only(int count, int root)
{
    size_t bytes = (size_t)(count * nranks) * sizeof(int);
    int *in = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *out = ints(count * nranks);
    CHECK(in != MAP_FAILED);
    for (int i = 0; i < count * nranks; i++)
        in[i] = value(root, i);
    CHECK(mprotect(in, bytes, PROT_READ) == 0);
    int *data = rank == root ? in : out;
    CHECK(MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(memcmp(data, in, (size_t)count * sizeof(int)) == 0);
    CHECK(MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS && out[count - 1] == in[count - 1]);
    CHECK(MPI_Reduce(in, out, count, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS && out[count] == in[0]);
    CHECK(MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(out[0] == in[rank * count]);
    taken += 5;
    munmap(in, bytes);
    free(out);
}

/* A type with a gap at its end that is no derived one; its bytes are fewer than its extent. */
static void pair_types(void)
{
    struct {
        double value;
        int index;
    } data[3] = {{0, 0}};
    for (int i = 0; rank == 1 && i < 3; i++) {
        data[i].value = i + 0.5;
        data[i].index = i;
    }
    CHECK(MPI_Bcast(data, 3, MPI_DOUBLE_INT, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++)
        CHECK(data[i].value == i + 0.5 && data[i].index == i);
    taken++;
}

/* Where addresses are in the type, there is no buffer. */
static void absolute_address(void)
{
    int at_root = rank == 0, data[3] = {at_root, 2 * at_root, 3 * at_root}, lens = 3;
    MPI_Aint where;
    MPI_Datatype type;
    MPI_Get_address(data, &where);
    MPI_Type_create_hindexed(1, &lens, &where, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(data[0] == 1 && data[1] == 2 && data[2] == 3);
    MPI_Type_free(&type);
    taken++;
}

/* Sent as packed by the root, and received as what it is. */
static void packed(void)
{
    int data[4] = {5, 6, 7, 8}, position = 0;
    char bytes[16];
    if (rank == 0) {
        MPI_Pack(data, 4, MPI_INT, bytes, sizeof(bytes), &position, MPI_COMM_WORLD);
        MPI_Bcast(bytes, position, MPI_PACKED, 0, MPI_COMM_WORLD);
    } else {
        memset(data, 0, sizeof(data));
        MPI_Bcast(data, 4, MPI_INT, 0, MPI_COMM_WORLD);
    }
    CHECK(data[0] == 5 && data[3] == 8);
    taken++;
}

static void nothing(void)
{
    int data = 4;
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    CHECK(MPI_Bcast(&data, 1, empty, 0, MPI_COMM_WORLD) == MPI_SUCCESS && data == 4);
    CHECK(MPI_Allgather(&data, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Reduce(NULL, NULL, 0, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    MPI_Type_free(&empty);
}

/* No rank leaves before the last one has entered; by a clock that all ranks of a host have. */
static void barrier(int late)
{
    struct timespec nap = {0, 1000 * 1000}, t;
    if (late == rank)
        nanosleep(&nap, NULL);
    double times[2], ends[2];
    for (int i = 0; i < 2; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        times[i] = ((double)t.tv_sec + (double)t.tv_nsec * 1e-9) * (i ? -1 : 1);
        CHECK(i == 1 || MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    CHECK(MPI_Allreduce(times, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(ends[0] <= -ends[1]);
    taken += 2;
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 2, 17, 1000, MOST};
    start(&argc, &argv);
    for (int c = 0; c < 5; c++) {
        for (int inplace = 0; inplace < 2; inplace++) {
            allgather(counts[c], inplace);
            allgather_types(counts[c] / 4 + 1, c, inplace);
            reduce_scatter(counts[c], inplace, 0);
            reduce_scatter(counts[c], inplace, 1);
            for (int root = 0; root < nranks; root++)
                reduce(counts[c], root, inplace);
        }
        for (int root = 0; root < nranks; root++) {
            bcast(counts[c], root);
            bcast_types(counts[c] / 4 + 1, root);
            read_only(counts[c], root);
        }
    }
    for (int turn = 0; turn < 10; turn++)
        allgather_types(3, turn, 0);
    for (int turn = 0; turn < 20; turn++)
        barrier(turn % nranks);
    unequal_counts();
    pair_types();
    absolute_address();
    packed();
    nothing();
    expect("taken", taken);
    expect("passed on counts not all equal", unequal);
    expect("passed on count zero or negative", 4);
    MPI_Finalize();
    return 0;
}
