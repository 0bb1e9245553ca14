/*
 * Calls at random, many and large: of every kind, type and operation, up to LARGEST bytes and one in twenty above that, at odd
 * offsets, in place and not, eager or in graphs. Whole results are compared on the device.
 *
 *     test_device_soak SEED CALLS LARGEST
 *
 * What a rank gives is a table of elements, over and over; so is then the result, and that of the tables alone, by the same call on
 * host memory, is what it must repeat. The number of elements is prime, so that what comes to lie in a wrong place is found.
 *
 * Calls come in batches. What may wait for a device (captures that become graphs, copies from the host) is done between them, when
 * no kernel of any rank runs: ranks of one process would wait for each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

#include "cuda/device_deeds.h"
#include "cuda/device_ranks.h"

/* bench/differ.c */
extern const char peali_bench_differ[];

enum {
    BATCH = 64,
    TABLE = 1021, /* elements */
    EDGE = 64,    /* bytes on both sides of a buffer that stay as they are */
    ROOM = 512,   /* and those that an offset may take */
    ABOVE = 4,    /* times LARGEST */
    POISON = 0xa5,
    RANKS = 4,
    ELEMENT = 32,
};

static unsigned random_seed = 1;
static int random_calls = 150;
static size_t largest = 64 << 10;

/* In one batch, on the host and on the device. */
typedef struct tables {
    unsigned char in[BATCH][TABLE * ELEMENT];
    unsigned char out[BATCH][RANKS * TABLE * ELEMENT]; /* of all ranks (allgather), or two in a row */
    unsigned char poison[EDGE];
    uint64_t wrong[BATCH]; /* bytes of each call */
} tables;

typedef struct soak {
    seat *s;
    peali_cu_func differ;
    size_t most;           /* bytes of a vector */
    unsigned char *a, *b;  /* vectors, with ROOM on both sides */
    tables *here, *there;
    deed deeds[BATCH];
    size_t in_shift[BATCH], out_shift[BATCH];
    fake_exec execs[BATCH]; /* NULL: eager */
    uint64_t bytes;         /* compared so far */
} soak;

/* Where call number K has its buffers. */
typedef struct buffers {
    unsigned char *in, *out, *whole; /* whole: what must not be left, of all */
    size_t element, part, in_bytes, out_bytes, whole_bytes, table;
    bool joined;
} buffers;

static buffers buffers_of(const soak *k, int i)
{
    const deed *d = &k->deeds[i];
    buffers b = {.element = peal_type_bytes(d->type), .joined = d->in_place || d->kind == PEAL_BROADCAST};
    b.part = d->count * b.element;
    b.table = TABLE * b.element;
    b.in_bytes = d->kind == PEAL_REDUCE_SCATTER ? b.part * (size_t)k->s->n : b.part;
    b.out_bytes = d->kind == PEAL_ALLGATHER ? b.part * (size_t)k->s->n : b.part;
    b.in = k->a + k->in_shift[i];
    b.whole = b.out = b.joined ? b.in : k->b + k->out_shift[i];
    b.whole_bytes = b.joined && b.in_bytes > b.out_bytes ? b.in_bytes : b.out_bytes;
    if (b.joined && d->kind == PEAL_ALLGATHER)
        b.in += b.part * (size_t)k->s->rank;
    if (b.joined && d->kind == PEAL_REDUCE_SCATTER)
        b.out += b.part * (size_t)k->s->rank;
    return b;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void move(const soak *k, void *to, const void *from, size_t bytes)
{
    seat_must(k->s->cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, k->s->stream), "cuMemcpyAsync");
}

/* The bytes at WANT, which are as many as TABLE, over and over. */
static void tile(const soak *k, unsigned char *at, size_t bytes, const unsigned char *want, size_t table)
{
    size_t done = least(table, bytes);
    if (done > 0)
        move(k, at, want, done);
    for (size_t some; done < bytes; done += some)
        move(k, at + done, at, some = least(done, bytes - done));
}

/* Counts for call I what is not the same in SLOTS places. */
static void compare(soak *k, int i, const void *have, const void *want, size_t bytes, size_t have_stride, size_t want_stride,
                    size_t slots)
{
    uint64_t from = (uintptr_t)have, to = (uintptr_t)want, n = bytes, step = have_stride, other = want_stride, all = slots;
    uint64_t count = (uintptr_t)&k->there->wrong[i];
    void *parameters[] = {&from, &to, &n, &step, &other, &count, &all};
    unsigned ctas = (unsigned)least(bytes / 4096 + 1, 1024);
    if (bytes > 0)
        seat_must(k->s->cu->LaunchKernel(k->differ, ctas, (unsigned)slots, 1, 512, 1, 1, 0, k->s->stream, parameters, NULL),
                  "cuLaunchKernel");
    k->bytes += bytes * slots;
}

/* Each of SLOTS places of BYTES begins as the table, and repeats itself. */
static void compare_tiled(soak *k, int i, const unsigned char *at, size_t bytes, const unsigned char *want, size_t table,
                          size_t slots)
{
    compare(k, i, at, want, least(bytes, table), bytes, table, slots);
    if (bytes > table)
        compare(k, i, at + table, at, bytes - table, bytes, bytes, slots);
}

static uint32_t share(const deed *d, int rank)
{
    return d->seed * 31 + (uint32_t)rank;
}

/* What this rank gives, and what it is to get. */
static void reckon(soak *k, int i)
{
    const deed *d = &k->deeds[i];
    deed small = *d;
    const size_t table = TABLE * peal_type_bytes(d->type);
    unsigned char *out = k->here->out[i];
    value_fill(k->here->in[i], TABLE, d->type, d->op, share(d, d->kind == PEAL_BROADCAST ? d->root : k->s->rank));
    small.count = TABLE;
    if (d->kind == PEAL_REDUCE_SCATTER)
        small.kind = PEAL_ALLREDUCE;
    if (d->kind == PEAL_BROADCAST)
        memcpy(out, k->here->in[i], table);
    else if (d->kind == PEAL_ALLGATHER)
        for (int r = 0; r < k->s->n; r++)
            value_fill(out + (size_t)r * table, TABLE, d->type, d->op, share(d, r));
    else
        SEAT_CHECK(k->s, deed_call(&small, k->here->in[i], out, k->s->comm, NULL) == PEAL_OK);
    if (d->kind != PEAL_ALLGATHER)
        memcpy(out + table, out, table);
}

/* As many octaves as LARGEST has are alike often. */
static size_t random_bytes(unsigned octave, unsigned rest, unsigned above)
{
    int octaves = 1;
    while ((size_t)1 << octaves < largest)
        octaves++;
    const size_t base = (size_t)1 << (octave % (unsigned)(octaves + 1)) >> 1;
    const uint64_t fraction = rest;
    return above % 20 == 0 ? largest + (size_t)((ABOVE - 1) * largest * fraction >> 32) : base + (size_t)(base * fraction >> 32);
}

static void draw(soak *k, int i, unsigned *seed)
{
    unsigned r[12];
    for (int j = 0; j < 12; j++)
        r[j] = value_random((*seed)++ * 2654435761u);
    deed *d = &k->deeds[i];
    *d = deed_draw(r, k->s->n);
    const size_t element = peal_type_bytes(d->type);
    bool parts = d->kind == PEAL_ALLGATHER || d->kind == PEAL_REDUCE_SCATTER;
    d->count = d->kind == PEAL_BARRIER ? 0 : random_bytes(r[6], r[7], r[8]) / element / (parts ? (size_t)k->s->n : 1);
    k->in_shift[i] = element * (r[9] % 16);
    k->out_shift[i] = r[10] % 2 ? k->in_shift[i] : element * (r[10] / 2 % 16);
    d->shift = k->out_shift[i];
    k->execs[i] = r[11] % 2 ? NULL : (fake_exec)k; /* replaced before it is used */
}

static void begin(soak *k, int i)
{
    buffers b = buffers_of(k, i);
    SEAT_CHECK(k->s, deed_call(&k->deeds[i], b.in, b.out, k->s->comm, k->s->stream) == PEAL_OK);
}

static void capture(soak *k, int i)
{
    fake_graph graph;
    seat_must(cuStreamBeginCapture_v2(k->s->stream, PEALI_CU_CAPTURE_THREAD), "cuStreamBeginCapture");
    begin(k, i);
    seat_must(cuStreamEndCapture(k->s->stream, &graph), "cuStreamEndCapture");
    seat_must(cuGraphInstantiateWithFlags(&k->execs[i], graph, 0), "cuGraphInstantiate");
    seat_must(cuGraphDestroy(graph), "cuGraphDestroy");
}

static void prepare(soak *k, unsigned *seed)
{
    memset(k->here->wrong, 0, sizeof k->here->wrong);
    for (int i = 0; i < BATCH; i++) {
        draw(k, i, seed);
        if (k->deeds[i].kind != PEAL_BARRIER)
            reckon(k, i);
        if (k->execs[i])
            capture(k, i);
    }
    seat_copy(k->s, k->there, k->here, sizeof *k->here);
    SEAT_CHECK(k->s, peal_barrier(k->s->comm, NULL) == PEAL_OK);
}

static void check(soak *k, int i)
{
    const deed *d = &k->deeds[i];
    const buffers b = buffers_of(k, i);
    const bool gathers = d->kind == PEAL_ALLGATHER, receives = d->kind != PEAL_REDUCE || k->s->rank == d->root;
    const size_t before = d->kind == PEAL_REDUCE_SCATTER ? (size_t)k->s->rank * b.part % b.table : 0;
    if (receives)
        compare_tiled(k, i, b.out, b.part, k->there->out[i] + before, b.table, gathers ? (size_t)k->s->n : 1);
    if (!b.joined)
        compare_tiled(k, i, b.in, b.in_bytes, k->there->in[i], b.table, 1);
    compare(k, i, b.whole - EDGE, k->there->poison, EDGE, EDGE + b.whole_bytes, 0, 2);
}

static void play(soak *k, int i)
{
    const deed *d = &k->deeds[i];
    const buffers b = buffers_of(k, i);
    const size_t bytes = b.whole_bytes + 2 * EDGE;
    seat_must(k->s->cu->MemsetD8Async((uintptr_t)b.whole - EDGE, POISON, bytes, k->s->stream), "cuMemsetD8Async");
    if (d->kind != PEAL_BROADCAST || k->s->rank == d->root)
        tile(k, b.in, b.in_bytes, k->there->in[i], b.table);
    if (k->execs[i])
        seat_must(cuGraphLaunch(k->execs[i], k->s->stream), "cuGraphLaunch");
    else
        begin(k, i);
    if (d->kind != PEAL_BARRIER)
        check(k, i);
}

static void finish(soak *k)
{
    seat_copy(k->s, k->here->wrong, k->there->wrong, sizeof k->here->wrong);
    SEAT_CHECK(k->s, peal_comm_error(k->s->comm) == PEAL_OK);
    SEAT_CHECK(k->s, peal_barrier(k->s->comm, NULL) == PEAL_OK);
    for (int i = 0; i < BATCH; i++) {
        const unsigned long long wrong = k->here->wrong[i];
        char what[64];
        snprintf(what, sizeof what, "%llu bytes are wrong%s", wrong, k->execs[i] ? ", in a graph" : "");
        if (wrong && k->s->wrong++ < 5)
            deed_describe(&k->deeds[i], k->s->rank, k->s->n, what);
        if (k->execs[i])
            seat_must(cuGraphExecDestroy(k->execs[i]), "cuGraphExecDestroy");
    }
}

static peali_cu_func load(const seat *s)
{
    peali_cu_lib library;
    peali_cu_kern kernel;
    peali_cu_func function;
    seat_must(s->cu->LibraryLoadData(&library, peali_bench_differ, NULL, NULL, 0, NULL, NULL, 0), "cuLibraryLoadData");
    seat_must(s->cu->LibraryGetKernel(&kernel, library, "peal_bench_differ"), "cuLibraryGetKernel");
    seat_must(s->cu->KernelGetFunction(&function, kernel), "cuKernelGetFunction");
    return function;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void batches(soak *k)
{
    unsigned seed = random_seed * 100003u;
    const double start = seconds();
    int calls = 0;
    for (; calls < random_calls; calls += BATCH) {
        prepare(k, &seed);
        for (int i = 0; i < BATCH; i++)
            play(k, i);
        finish(k);
    }
    if (k->s->rank == 0)
        printf("%d ranks: %d calls, %.3g GB compared a rank, %.1f s\n", k->s->n, calls, (double)k->bytes * 1e-9, seconds() - start);
}

static void soak_body(seat *s)
{
    const size_t most = ABOVE * largest + 2 * ROOM;
    soak *k = calloc(1, sizeof *k);
    k->s = s;
    k->differ = load(s);
    k->here = calloc(1, sizeof *k->here);
    memset(k->here->poison, POISON, sizeof k->here->poison);
    unsigned char *a = seat_alloc(s, most), *b = seat_alloc(s, most);
    k->there = seat_alloc(s, sizeof *k->there);
    k->a = a + ROOM / 2;
    k->b = b + ROOM / 2;
    batches(k);
    seat_free(s, a);
    seat_free(s, b);
    seat_free(s, k->there);
    free(k->here);
    free(k);
}

static void test_soak(void **state)
{
#ifdef TEST_MPI
    const int wanted = world_size;
#else
    const int wanted = devices_here() < 2 ? 2 : devices_here();
#endif
    assert_int_equal(seats_run(wanted < RANKS ? wanted : RANKS, soak_body, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    setenv("FAKE_CUDA_DEVICES", "3", 0);
#ifdef TEST_MPI
    world_start(&argc, &argv);
#endif
    random_seed = argc > 1 ? (unsigned)atoi(argv[1]) : random_seed;
    random_calls = argc > 2 ? atoi(argv[2]) : random_calls;
    largest = argc > 3 ? (size_t)atoll(argv[3]) : largest;
    int failed = cmocka_run_group_tests_name("device_soak", tests, NULL, NULL);
#ifdef TEST_MPI
    MPI_Finalize();
#endif
    return failed;
}
