/*
 * Every named type with every op, in place and not, against MPI_Reduce_local over all ranks' data, which each rank can make itself;
 * then the same bits on all ranks and in repeated calls, for sums that depend on their order.
 */
#include <float.h>

#include "pmpi.h"

enum { MOST = 5000 };

static const struct kind {
    MPI_Datatype type;
    char sort; /* i integer of C, f of Fortran or both, r real, x long double, c complex, z long complex, b byte, l bool */
} kinds[] = {
    {MPI_SIGNED_CHAR, 'i'}, {MPI_UNSIGNED_CHAR, 'i'}, {MPI_SHORT, 'i'}, {MPI_UNSIGNED_SHORT, 'i'}, {MPI_INT, 'i'},
    {MPI_UNSIGNED, 'i'}, {MPI_LONG, 'i'}, {MPI_UNSIGNED_LONG, 'i'}, {MPI_LONG_LONG, 'i'}, {MPI_UNSIGNED_LONG_LONG, 'i'},
    {MPI_INT8_T, 'i'}, {MPI_UINT8_T, 'i'}, {MPI_INT16_T, 'i'}, {MPI_UINT16_T, 'i'}, {MPI_INT32_T, 'i'}, {MPI_UINT32_T, 'i'},
    {MPI_INT64_T, 'i'}, {MPI_UINT64_T, 'i'}, {MPI_AINT, 'f'}, {MPI_OFFSET, 'f'}, {MPI_COUNT, 'f'}, {MPI_INTEGER, 'f'},
    {MPI_INTEGER1, 'f'}, {MPI_INTEGER2, 'f'}, {MPI_INTEGER4, 'f'}, {MPI_INTEGER8, 'f'}, {MPI_FLOAT, 'r'}, {MPI_DOUBLE, 'r'},
    {MPI_REAL, 'r'}, {MPI_REAL4, 'r'}, {MPI_REAL8, 'r'}, {MPI_DOUBLE_PRECISION, 'r'}, {MPI_BYTE, 'b'}, {MPI_C_BOOL, 'l'},
    {MPI_LONG_LONG_INT, 'i'}, {MPI_LONG_DOUBLE, 'x'}, {MPI_C_COMPLEX, 'c'}, {MPI_C_FLOAT_COMPLEX, 'c'}, {MPI_C_DOUBLE_COMPLEX, 'c'},
    {MPI_C_LONG_DOUBLE_COMPLEX, 'z'}, {MPI_COMPLEX, 'c'}, {MPI_DOUBLE_COMPLEX, 'c'}, {MPI_COMPLEX8, 'c'}, {MPI_COMPLEX16, 'c'},
    {MPI_CXX_BOOL, 'l'}, {MPI_CXX_FLOAT_COMPLEX, 'c'}, {MPI_CXX_DOUBLE_COMPLEX, 'c'}, {MPI_CXX_LONG_DOUBLE_COMPLEX, 'z'},
};

static const struct {
    MPI_Op op;
    const char *sorts;
} ops[] = {{MPI_SUM, "ifrxcz"}, {MPI_PROD, "ifrxcz"}, {MPI_MIN, "ifrx"}, {MPI_MAX, "ifrx"}, {MPI_LAND, "il"},
           {MPI_LOR, "il"}, {MPI_LXOR, "il"}, {MPI_BAND, "ifb"}, {MPI_BOR, "ifb"}, {MPI_BXOR, "ifb"}};

static long calls;

/* Real parts of BYTES each, PARTS of them a number. */
static void fill_reals(char *data, int count, int parts, size_t bytes, int from)
{
    for (int i = 0; i < count * parts; i++) {
        long double n = (i / parts * 7 + i % parts + from * 3) % 4 - 1;
        float f = (float)n;
        double d = (double)n;
        memcpy(data + (size_t)i * bytes, bytes == 4 ? (void *)&f : bytes == 8 ? (void *)&d : (void *)&n, bytes);
    }
}

/* Small numbers, so that no order of sums or products rounds. */
static void fill(void *data, int count, const struct kind *k, int bytes, int from)
{
    if (strchr("rx", k->sort))
        fill_reals(data, count, 1, (size_t)bytes, from);
    else if (strchr("cz", k->sort))
        fill_reals(data, count, 2, (size_t)bytes / 2, from);
    else
        for (int i = 0; i < count; i++) {
            int n = (i * 7 + from * 3) % 4;
            unsigned long long wide = (unsigned long long)(k->sort == 'l' ? n > 1 : n);
            memcpy((char *)data + (size_t)i * (size_t)bytes, &wide, (size_t)bytes); /* little-endian */
        }
}

/* Bytes that differ, but for those after the 10 of a long double: MPI does not say what is there. */
static size_t differing(const char *a, const char *b, size_t size, const struct kind *k)
{
    size_t padded = strchr("xz", k->sort) && LDBL_MANT_DIG == 64 ? sizeof(long double) : 0, wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += a[i] != b[i] && !(padded && i % padded >= 10);
    return wrong;
}

static void reference(void *result, int count, const struct kind *k, int bytes, MPI_Op op)
{
    void *more = malloc((size_t)(count * bytes));
    fill(result, count, k, bytes, 0);
    for (int from = 1; from < nranks; from++) {
        fill(more, count, k, bytes, from);
        PMPI_Reduce_local(more, result, count, k->type, op);
    }
    free(more);
}

static void one(const struct kind *k, MPI_Op op, int count, int inplace)
{
    int bytes;
    MPI_Type_size(k->type, &bytes);
    size_t size = (size_t)(count * bytes);
    char *in = malloc(size), *out = malloc(size + 1), *want = malloc(size);
    fill(inplace ? out : in, count, k, bytes, rank);
    out[size] = 77;
    reference(want, count, k, bytes, op);
    CHECK(MPI_Allreduce(inplace ? MPI_IN_PLACE : in, out, count, k->type, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    calls++;
    CHECK(differing(out, want, size, k) == 0 && out[size] == 77);
    if (!inplace) {
        fill(want, count, k, bytes, rank);
        CHECK(differing(in, want, size, k) == 0);
    }
    free(in);
    free(out);
    free(want);
}

static void every_type(void)
{
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
            if (strchr(ops[o].sorts, kinds[k].sort))
                for (int inplace = 0; inplace < 2; inplace++) {
                    one(&kinds[k], ops[o].op, 1, inplace);
                    one(&kinds[k], ops[o].op, MOST / 5 + (int)o, inplace);
                }
}

/* The larger of -1 and 1, which without a sign is -1. MPI itself is not asked: Open MPI 4.1 takes some unsigned ones for signed. */
static void signs(void)
{
    const MPI_Datatype unsigned_ones[] = {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
                                          MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        long long in = rank ? 1 : -1, out = 0, want = 1;
        int bytes;
        if (!strchr("if", kinds[k].sort))
            continue;
        for (size_t u = 0; u < sizeof(unsigned_ones) / sizeof(unsigned_ones[0]); u++)
            want = kinds[k].type == unsigned_ones[u] ? -1 : want;
        MPI_Type_size(kinds[k].type, &bytes);
        CHECK(MPI_Allreduce(&in, &out, 1, kinds[k].type, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
        CHECK(memcmp(&out, &want, (size_t)bytes) == 0); /* little-endian */
        calls++;
    }
}

/* For repeat.sh: FNV-1a. */
static void print_bits(const void *data, size_t bytes)
{
    unsigned long long hash = 14695981039346656037ull;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
    if (rank == 0)
        printf("bits %zu %016llx\n", bytes, hash);
}

static void same_bits(int count)
{
    double *in = malloc((size_t)count * sizeof(*in)), *first = malloc((size_t)count * sizeof(*in)), *out = NULL, *all = NULL;
    out = malloc((size_t)count * sizeof(*in));
    if (rank == 0)
        all = malloc((size_t)count * (size_t)nranks * sizeof(*in));
    srand((unsigned)rank + 1);
    for (int i = 0; i < count; i++)
        in[i] = (rand() - RAND_MAX / 2) * 1e-9 * (1 << (i % 30));
    for (int repeat = 0; repeat < 5; repeat++) {
        CHECK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        calls++;
        if (repeat == 0)
            memcpy(first, out, (size_t)count * sizeof(*in));
        CHECK(memcmp(first, out, (size_t)count * sizeof(*in)) == 0);
    }
    print_bits(out, (size_t)count * sizeof(*in));
    PMPI_Gather(out, count, MPI_DOUBLE, all, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int r = 1; rank == 0 && r < nranks; r++)
        CHECK(memcmp(all, all + (size_t)r * (size_t)count, (size_t)count * sizeof(*in)) == 0);
    free(in);
    free(first);
    free(out);
    free(all);
}

/* Not legal, but a program that does it must not hang: a buffer decides nothing. */
static void in_place_on_some(void)
{
    int in = rank + 1, out = rank + 1;
    CHECK(MPI_Allreduce(rank % 2 ? MPI_IN_PLACE : &in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(out == nranks * (nranks + 1) / 2);
    calls++;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    every_type();
    signs();
    in_place_on_some();
    for (int count = 1; count <= 1000000; count *= 10)
        same_bits(count);
    expect("taken", calls);
    MPI_Finalize();
    return 0;
}
