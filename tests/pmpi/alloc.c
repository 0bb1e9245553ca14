/*
 * Collectives on memory of MPI_Alloc_mem: on all ranks or on some, for the input, the result or both, anywhere in a block, in place
 * and not; then what is asked for by an info, and what is MPI's. The argument `mpi`: all of it is.
 */
#include <unistd.h>

#include "pmpi.h"

enum { BLOCK = 1 << 20, LONGEST = 60000, KINDS = 5, PLACES = 5 };

/* A block is NULL once it is freed. */
static char *shared[6], *ordinary[2];
static unsigned seed;
static long calls;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Does the mapping of AT have this name? */
static int lies_in(const void *at, const char *name)
{
    char line[512];
    unsigned long begin, end;
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && begin <= (unsigned long)at && (unsigned long)at < end)
            found = strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

static void *get(MPI_Aint bytes, MPI_Info info)
{
    void *block = NULL;
    CHECK(MPI_Alloc_mem(bytes, info, &block) == MPI_SUCCESS && block);
    memset(block, 77, (size_t)bytes);
    return block;
}

static int value(int from, int i)
{
    return from * 1000003 + i * 7 + (int)calls;
}

static int total(int i)
{
    int sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += value(r, i);
    return sum;
}

/* Where the buffers of this rank lie. Two buffers are never in the same block. */
enum place { ALL_SHARED, ALL_BUT_ONE, INPUT_SHARED, RESULT_SHARED, ANY };

static int *buffer(enum place place, int is_result)
{
    int in_shared = place == ALL_SHARED || (place == ALL_BUT_ONE && rank != (int)(calls % nranks)) ||
                    (place == INPUT_SHARED && !is_result) || (place == RESULT_SHARED && is_result) || (place == ANY && draw(2));
    char *block = in_shared ? shared[2 * draw(3) + (unsigned)is_result] : ordinary[is_result];
    return (int *)(void *)(block + sizeof(int) * draw(BLOCK / sizeof(int) - LONGEST - 1));
}

struct call {
    int kind, count, inplace, root;
    int *in, *out;
};

/* In place is the result's buffer, which begins where the input does but for an allgather. */
static void do_call(struct call *c)
{
    void *in = c->inplace ? MPI_IN_PLACE : c->in;
    switch (c->kind) {
    case 0:
        CHECK(MPI_Allreduce(in, c->out, c->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        return;
    case 1:
        in = rank == c->root ? in : c->inplace ? c->out : c->in;
        CHECK(MPI_Reduce(in, c->out, c->count, MPI_INT, MPI_SUM, c->root, MPI_COMM_WORLD) == MPI_SUCCESS);
        return;
    case 2:
        CHECK(MPI_Bcast(c->out, c->count, MPI_INT, c->root, MPI_COMM_WORLD) == MPI_SUCCESS);
        return;
    case 3:
        CHECK(MPI_Allgather(in, c->count, MPI_INT, c->out, c->count, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS);
        return;
    default:
        CHECK(MPI_Reduce_scatter_block(in, c->out, c->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    }
}

static void check_result(const struct call *c)
{
    int whole = c->kind == 3 ? c->count * nranks : c->kind == 1 && rank != c->root ? 0 : c->count;
    for (int i = 0; i < whole; i++) {
        int want = c->kind == 2 ? value(c->root, i) : c->kind == 3 ? value(i / c->count, i % c->count) :
                   total(c->kind == 4 ? rank * c->count + i : i);
        CHECK(c->out[i] == want);
    }
}

static void one_call(enum place place, int kind, int count, int inplace)
{
    struct call c = {.kind = kind, .count = kind < 3 ? count : (count + nranks - 1) / nranks, .inplace = inplace || kind == 2};
    c.root = (int)(calls % nranks);
    c.in = buffer(place, 0);
    c.out = buffer(place, 1);
    int given = kind == 4 ? c.count * nranks : kind == 2 && rank != c.root ? 0 : c.count;
    int *from = !c.inplace ? c.in : kind == 3 ? c.out + rank * c.count : c.out;
    for (int i = 0; i < given; i++)
        from[i] = value(rank, i);
    do_call(&c);
    check_result(&c);
    calls++;
}

/* Blocks come and go between the calls, in any order. */
static void renew_one(void)
{
    unsigned which = draw(6);
    CHECK(MPI_Free_mem(shared[which]) == MPI_SUCCESS);
    shared[which] = get(BLOCK, MPI_INFO_NULL);
}

static void all_calls(void)
{
    static const int counts[] = {1, 5, 100, 1000, 1025, 20000, LONGEST - 8};
    for (int place = 0; place < PLACES; place++)
        for (int n = 0; n < 7; n++)
            for (int kind = 0; kind < KINDS; kind++) {
                for (int inplace = 0; inplace < 2; inplace++)
                    one_call((enum place)place, kind, counts[n], inplace);
                renew_one();
            }
}

/* Is what is given for KEY = VALUE of Peal? */
static int ours(const char *key, const char *asked)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, asked);
    void *block = get(100000, info);
    int found = lies_in(block, "memfd:peal");
    MPI_Free_mem(block);
    MPI_Info_free(&info);
    return found;
}

static void infos(int peal)
{
    long page = sysconf(_SC_PAGESIZE);
    for (long bytes = page - 1; bytes <= page; bytes++) {
        void *block = get(bytes, MPI_INFO_NULL);
        CHECK(lies_in(block, "memfd:peal") == (peal && bytes == page));
        CHECK(MPI_Free_mem(block) == MPI_SUCCESS);
    }
    CHECK(ours("mpi_minimum_memory_alignment", "64") == peal);
    CHECK(ours("mpi_minimum_memory_alignment", "1048576") == 0);
    CHECK(ours("some_kind_of_memory", "fast") == 0);
}

static void others(void)
{
    void *block = NULL;
    CHECK(MPI_Alloc_mem(0, MPI_INFO_NULL, &block) == MPI_SUCCESS);
    CHECK(MPI_Free_mem(block) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Alloc_mem(-1, MPI_INFO_NULL, &block) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    seed = 7u * (unsigned)rank + 1;
    for (int k = 0; k < 6; k++)
        shared[k] = get(BLOCK, MPI_INFO_NULL);
    for (int k = 0; k < 2; k++)
        ordinary[k] = malloc(BLOCK);
    all_calls();
    infos(argc < 2 || strcmp(argv[1], "mpi") != 0);
    others();
    for (int left = 6; left > 0; left--) {
        unsigned which = draw((unsigned)left);
        CHECK(MPI_Free_mem(shared[which]) == MPI_SUCCESS);
        shared[which] = shared[left - 1];
    }
    for (int k = 0; k < 2; k++)
        free(ordinary[k]);
    expect("taken", calls);
    MPI_Finalize();
    return 0;
}
