/*
 * Calls that work where buffers lie: registered, or mapped by themselves; with memory that was freed and came back, in graphs, and
 * where one rank's buffers cannot be mapped. PEAL_PROTO=direct has every call try it. With TEST_MPI ranks are processes, where a
 * stale mapping would show other memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "comm/device_regions.h"
#include "cuda/call.h"
#include "cuda/device_check.h"
#include "cuda/emulate.h"

#ifdef TEST_MPI
enum { MOST = 4 };
#else
enum { MOST = 5 };
#endif
enum { COUNT = 20012, BYTES = COUNT * sizeof(int32_t) };

/* Of GPUs that differ in how many CTAs they run, ASan gets the first and the last, which is shared. */
#if defined(__SANITIZE_ADDRESS__)
enum { NEXT_GPU = 3 };
#else
enum { NEXT_GPU = 1 };
#endif

/* Launches of this process whose rank voted for it; the CTAs of the last launch. */
static int votes, last_grid;

static void count_votes(const char *kernel, unsigned grid, unsigned block, const void *parameters)
{
    const peali_cuda_call *call = parameters;
    if (call->direct.slices > 0 && call->views[0].in && call->views[0].out)
        __atomic_add_fetch(&votes, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&last_grid, (int)grid, __ATOMIC_SEQ_CST);
    peali_emulate(kernel, grid, block, parameters);
}

/* What RANK gives in round ROUND. */
static int32_t value(int rank, int round, int i)
{
    return (int32_t)((unsigned)rank * 1000003u + (unsigned)round * 7919u + (unsigned)i * 31u);
}

static void give(seat *s, int32_t *at, int count, int round)
{
    int32_t *host = malloc((size_t)count * sizeof *host);
    for (int i = 0; i < count; i++)
        host[i] = value(s->rank, round, i);
    seat_copy(s, at, host, (size_t)count * sizeof *host);
    free(host);
}

static int32_t sum(int n, int round, int i)
{
    uint32_t all = 0;
    for (int r = 0; r < n; r++)
        all += (uint32_t)value(r, round, i);
    return (int32_t)all;
}

/* COUNT sums of what all gave, from element FIRST on. */
static void see_sums(seat *s, const int32_t *at, int count, int first, int round)
{
    int32_t *host = malloc((size_t)count * sizeof *host);
    int wrong = 0;
    seat_copy(s, host, at, (size_t)count * sizeof *host);
    for (int i = 0; i < count; i++)
        wrong += host[i] != sum(s->n, round, first + i);
    if (wrong)
        seat_wrong(s, "round %d: %d of %d sums are wrong", round, wrong, count);
    free(host);
}

static void see_gathered(seat *s, const int32_t *at, int count, int round)
{
    int32_t *host = malloc((size_t)count * sizeof *host);
    int wrong = 0;
    for (int r = 0; r < s->n; r++) {
        seat_copy(s, host, at + (size_t)r * (size_t)count, (size_t)count * sizeof *host);
        for (int i = 0; i < count; i++)
            wrong += host[i] != value(r, round, i);
    }
    if (wrong)
        seat_wrong(s, "round %d: %d numbers are wrong", round, wrong);
    free(host);
}

static void allreduce(seat *s, int32_t *in, int32_t *out, int round)
{
    give(s, in, COUNT, round);
    SEAT_CHECK(s, peal_allreduce(in, out, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    see_sums(s, out, COUNT, 0, round);
}

/* How many launches voted since the last time, of all ranks of this process: nobody launches. */
static int votes_since(seat *s)
{
    static int before;
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    int now = __atomic_load_n(&votes, __ATOMIC_SEQ_CST), since = now - before;
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    __atomic_store_n(&before, now, __ATOMIC_SEQ_CST); /* the same by all */
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    return since;
}

/* Ranks of this process. */
static int here(const seat *s)
{
#ifdef TEST_MPI
    return 1;
#else
    return s->n;
#endif
}

/* Registered buffers, each call at another place in them, now and then an odd one; ranks differ in where. */
static void registered(seat *s)
{
    const size_t room = (size_t)s->n * BYTES + 4096;
    char *a = seat_alloc(s, room), *b = seat_alloc(s, room);
    SEAT_CHECK(s, peal_register(s->comm, a, room) == PEAL_OK);
    SEAT_CHECK(s, peal_register(s->comm, b, room) == PEAL_OK);
    (void)votes_since(s);
    for (int round = 0; round < 6; round++) {
        const int odd = round == 3 ? 4 : 16;
        int32_t *in = (int32_t *)(a + 16 * ((round * 5 + s->rank) % 9)), *out = (int32_t *)(b + odd * s->rank);
        allreduce(s, in, out, round);
        allreduce(s, in, in, round);
        give(s, in, COUNT, round);
        SEAT_CHECK(s, peal_allgather(in, out, COUNT, PEAL_INT32, s->comm, s->stream) == PEAL_OK);
        see_gathered(s, out, COUNT, round);
        give(s, in, COUNT * s->n, round);
        SEAT_CHECK(s, peal_reduce_scatter(in, out, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        see_sums(s, out, COUNT, COUNT * s->rank, round);
    }
    SEAT_CHECK(s, votes_since(s) == 24 * here(s));
    SEAT_CHECK(s, peal_deregister(s->comm, b) == PEAL_OK);
    SEAT_CHECK(s, peal_deregister(s->comm, a + 100) == PEAL_OK);
    SEAT_CHECK(s, peal_deregister(s->comm, a) == PEAL_ERR_INVALID);
    seat_free(s, a);
    seat_free(s, b);
}

/* In registered buffers: each kind, of each root, of which all but the root of a reduce have no OUT. */
static void each_root(seat *s, unsigned char *const *rooms)
{
    int32_t *in = (int32_t *)rooms[0], *out = (int32_t *)rooms[1];
    (void)votes_since(s);
    for (int root = 0; root < s->n; root++) {
        const bool mine = s->rank == root;
        give(s, in, COUNT, root);
        SEAT_CHECK(s, peal_reduce(in, mine ? out : NULL, COUNT, PEAL_INT32, PEAL_SUM, root, s->comm, s->stream) == PEAL_OK);
        if (mine)
            see_sums(s, out, COUNT, 0, root);
        SEAT_CHECK(s, peal_reduce(in, mine ? in : NULL, COUNT, PEAL_INT32, PEAL_SUM, root, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_broadcast(in, COUNT, PEAL_INT32, root, s->comm, s->stream) == PEAL_OK);
        see_sums(s, in, COUNT, 0, root);
    }
    SEAT_CHECK(s, votes_since(s) == 3 * s->n * here(s));
}

/* There, any call of any size at any place, which host memory has other bits of if it was done wrong. */
static void any_calls(seat *s)
{
    enum { CALLS = 40, ROOM = 1 << 20 };
    unsigned char *rooms[] = {seat_alloc(s, ROOM), seat_alloc(s, ROOM)};
    SEAT_CHECK(s, peal_register(s->comm, rooms[0], ROOM) == PEAL_OK && peal_register(s->comm, rooms[1], ROOM) == PEAL_OK);
    each_root(s, rooms);
    for (unsigned k = 0; k < CALLS; k++) {
        unsigned r[8];
        for (unsigned i = 0; i < 8; i++)
            r[i] = value_random((8 * k + i + (unsigned)s->n * 1000u) * 2654435761u);
        deed d = deed_draw(r, s->n);
        d.kind = (peal_kind[]){PEAL_BROADCAST, PEAL_REDUCE, PEAL_BROADCAST, PEAL_REDUCE, d.kind}[k % 5];
        if (d.kind == PEAL_REDUCE && (!peal_op_takes(d.op, d.type) || !deed_on_gpus(d.type, d.op)))
            d.type = PEAL_INT32;
        d.count = 1 + r[6] % (1u << r[7] % 12);
        d.shift = r[7] >> 16 & 3 ? 16 * (r[7] >> 8 & 3) : peal_type_bytes(d.type) * (r[7] >> 8 & 3) % DEED_EDGE;
        deed_check_in(s, &d, rooms);
    }
    SEAT_CHECK(s, peal_deregister(s->comm, rooms[0]) == PEAL_OK && peal_deregister(s->comm, rooms[1]) == PEAL_OK);
    seat_free(s, rooms[0]);
    seat_free(s, rooms[1]);
}

/* Nobody registers: after a few calls they are direct, and with other memory at the same address not before that is mapped. */
static void by_themselves(seat *s)
{
    fake_cuda_reuse(true);
    int32_t *out = seat_alloc(s, BYTES);
    void *last = NULL;
    int again = 0;
    (void)votes_since(s);
    for (int life = 0; life < 6; life++) {
        SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK); /* one at a time frees and takes memory in a process */
        int32_t *in = NULL;
        for (int r = 0; r < s->n; r++) {
            if (r == s->rank)
                in = seat_alloc(s, BYTES);
            SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
        }
        again += (void *)in == last;
        last = in;
        allreduce(s, in, out, life);
        SEAT_CHECK(s, votes_since(s) == 0); /* new memory: nobody has mapped it */
        for (int k = 0; k < 4; k++) {
            allreduce(s, in, out, life + k);
            SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
        }
        SEAT_CHECK(s, votes_since(s) >= 2 * here(s));
        for (int r = s->n - 1; r >= 0; r--) {
            if (r == s->rank)
                seat_free(s, in);
            SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
        }
    }
    SEAT_CHECK(s, s->rank > 0 || again > 0);
    seat_free(s, out);
    fake_cuda_reuse(false);
}

typedef struct pair {
    int32_t *in, *out;
} pair;

static void capture_two(seat *s, void *what)
{
    pair *p = what;
    SEAT_CHECK(s, peal_allreduce(p->in, p->out, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    SEAT_CHECK(s, peal_allreduce(p->out, p->in, COUNT, PEAL_INT32, PEAL_MAX, s->comm, s->stream) == PEAL_OK);
}

/* Captured before and after the buffers are mapped, replayed between eager calls. */
static void graphs(seat *s)
{
    pair p = {seat_alloc(s, BYTES), seat_alloc(s, BYTES)};
    fake_exec before = seat_capture(s, PEALI_CU_CAPTURE_THREAD, capture_two, &p, 2);
    SEAT_CHECK(s, peal_register(s->comm, p.in, BYTES) == PEAL_OK && peal_register(s->comm, p.out, BYTES) == PEAL_OK);
    fake_exec after = seat_capture(s, PEALI_CU_CAPTURE_THREAD, capture_two, &p, 2);
    (void)votes_since(s);
    for (int round = 0; round < 8; round++) {
        give(s, p.in, COUNT, round);
        seat_must(cuGraphLaunch(round % 3 == 0 ? before : after, s->stream), "cuGraphLaunch");
        see_sums(s, p.out, COUNT, 0, round);
        see_sums(s, p.in, COUNT, 0, round); /* the greatest of equal ones */
        allreduce(s, p.in, p.out, round);
    }
    SEAT_CHECK(s, votes_since(s) == (5 * 2 + 8) * here(s));
    seat_must(cuGraphExecDestroy(before), "cuGraphExecDestroy");
    seat_must(cuGraphExecDestroy(after), "cuGraphExecDestroy");
    SEAT_CHECK(s, peal_deregister(s->comm, p.in) == PEAL_OK && peal_deregister(s->comm, p.out) == PEAL_OK);
    seat_free(s, p.in);
    seat_free(s, p.out);
}

/* How many CTAs a call of 8 MiB takes, and a shorter one. */
typedef struct widths {
    const char *sms;
    int devices, wide, narrow;
} widths;

/* Long calls take more CTAs than lanes have areas, where all vectors are mapped and where they are not; or as many as they may. */
static void long_calls(seat *s)
{
    enum { LONG = 2 << 20 };
    const widths *w = s->ctx;
    const int limit = w->wide / 2 + 1;
    int32_t *in = seat_alloc(s, LONG * sizeof *in), *out = seat_alloc(s, LONG * sizeof *out);
    peali_cu_ptr managed = 0;
    seat_must(cuMemAllocManaged(&managed, LONG * sizeof *in, 1), "cuMemAllocManaged");
    SEAT_CHECK(s, peal_register(s->comm, in, LONG * sizeof *in) == PEAL_OK);
    SEAT_CHECK(s, peal_register(s->comm, out, LONG * sizeof *out) == PEAL_OK);
    for (int round = 0; round < 5; round++) {
        const int count = round == 3 ? LONG - 1 : LONG, ctas = (int[]){w->wide, w->wide, w->wide, w->narrow, limit}[round];
        int32_t *from = round == 1 && s->rank == 0 ? (int32_t *)(uintptr_t)managed : in; /* nobody maps that */
        SEAT_CHECK(s, peal_comm_max_ctas(s->comm, round == 4 ? limit : 0) == PEAL_OK);
        give(s, from, count, round);
        SEAT_CHECK(s, peal_allreduce(from, out, (size_t)count, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        see_sums(s, out, count, 0, round);
        SEAT_CHECK(s, __atomic_load_n(&last_grid, __ATOMIC_SEQ_CST) == ctas);
        SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    }
    seat_must(s->cu->MemFree(managed), "cuMemFree");
    seat_free(s, in);
    seat_free(s, out);
}

static void test_long_calls(void **state)
{
    widths cases[] = {{"132", 0, 128, 64}, {"108", 0, 104, 64}, {"40", 0, 64, 64}, {"132", 1, 64, 32}};
    for (int k = 0; k < 4; k += NEXT_GPU) {
        setenv("FAKE_CUDA_SMS", cases[k].sms, 1);
        assert_int_equal(seats_run_on(2, cases[k].devices, long_calls, &cases[k]), 0);
    }
    unsetenv("FAKE_CUDA_SMS");
}

/* What one rank cannot do, all go without, and all hear of. */
static void one_is_different(seat *s)
{
    int32_t *in = seat_alloc(s, BYTES), *out = seat_alloc(s, BYTES), host;
    peali_cu_ptr managed = 0;
    seat_must(cuMemAllocManaged(&managed, BYTES, 1), "cuMemAllocManaged");
    bool odd = s->rank == s->n - 1;
    SEAT_CHECK(s, peal_register(s->comm, odd ? &host : in, sizeof host) == PEAL_ERR_INVALID);
    SEAT_CHECK(s, peal_register(s->comm, in, SIZE_MAX) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, peal_register(s->comm, in, BYTES) == PEAL_OK && peal_register(s->comm, out, BYTES) == PEAL_OK);
    SEAT_CHECK(s, peal_deregister(s->comm, odd ? &host : in) == PEAL_ERR_INVALID);
    int32_t *mine = odd ? (int32_t *)(uintptr_t)managed : in;
    for (int round = 0; round < 4; round++)
        allreduce(s, mine, out, round);
    seat_must(s->cu->MemFree(managed), "cuMemFree");
    seat_free(s, in);
    seat_free(s, out);
}

/* What cannot be mapped, in more calls than there may be allocations, keeps nobody from registering what can. */
static void many_unmappable(seat *s)
{
    enum { N = PEALI_REGIONS_OFFERS };
    peali_cu_ptr managed[N];
    int32_t *at = seat_alloc(s, 400);
    for (int k = 0; k < N; k++) {
        seat_must(cuMemAllocManaged(&managed[k], 400, 1), "cuMemAllocManaged");
        int32_t *in = (int32_t *)(uintptr_t)managed[k];
        SEAT_CHECK(s, peal_allreduce(in, in, 100, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    }
    seat_sync(s);
    SEAT_CHECK(s, peal_register(s->comm, at, 400) == PEAL_OK);
    for (int k = 0; k < N; k++)
        seat_must(s->cu->MemFree(managed[k]), "cuMemFree");
    seat_free(s, at);
}

/* As many allocations as there may be, and one more; it has room when another one goes. */
static void many(seat *s)
{
    enum { N = PEALI_REGIONS_OFFERS };
    void *at[N + 1];
    for (int k = 0; k <= N; k++) {
        at[k] = seat_alloc(s, 400);
        SEAT_CHECK(s, peal_register(s->comm, at[k], 400) == (k < N ? PEAL_OK : PEAL_ERR_UNSUPPORTED));
    }
    SEAT_CHECK(s, peal_deregister(s->comm, at[3]) == PEAL_OK);
    SEAT_CHECK(s, peal_register(s->comm, at[N], 400) == PEAL_OK);
    for (int k = 0; k <= N; k++)
        seat_free(s, at[k]);
}

/* The communicator ends with what is registered; nothing of it is left. */
static void test_all(void **state)
{
    for (int n = 2; n <= MOST; n++)
        assert_int_equal(seats_run(n, any_calls, NULL), 0);
    assert_int_equal(seats_run(2, many, NULL), 0);
    assert_int_equal(seats_run(2, many_unmappable, NULL), 0);
    for (int n = 2; n <= MOST; n += 2) {
        assert_int_equal(seats_run(n, registered, NULL), 0);
        assert_int_equal(seats_run(n, by_themselves, NULL), 0);
        assert_int_equal(seats_run(n, graphs, NULL), 0);
        assert_int_equal(seats_run(n, one_is_different, NULL), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_long_calls)};
    setenv("FAKE_CUDA_DEVICES", "5", 0);
    setenv("PEAL_PROTO", "direct", 1);
    fake_cuda_emulate(count_votes);
#ifdef TEST_MPI
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("device_direct_mpi", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
#else
    return cmocka_run_group_tests_name("device_direct", tests, NULL, NULL);
#endif
}
