/*
 * What goes wrong on device memory has a name, within 2 s, on every rank, and calls in full: calls that differ, eager and in
 * graphs, on device memory here and host memory there; ranks that do not come; wrong buffers; an abort; GPUs that do not reach
 * each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cuda/device_log.h"

#pragma weak fake_cuda_fail /* a real driver, with which most of this runs too, has none */

enum { MOST = 3 };

/* Then a call is several kernels and copies. */
static bool by_engines(void)
{
    const char *proto = getenv("PEAL_PROTO");
    return proto && strcmp(proto, "engines") == 0;
}

/* A way in which the last rank's call differs from COUNT floats, summed by an allreduce. */
typedef struct twist {
    const char *name, *text; /* of the other call */
    peal_kind kind;
    size_t count;
    peal_type type;
    peal_op op;
    int root;
} twist;

static const twist twists[] = {
    {"count", ": count 999, type float, op sum", PEAL_ALLREDUCE, 999, PEAL_FLOAT, PEAL_SUM, 0},
    {"much", ": count 500000, type float, op sum", PEAL_ALLREDUCE, 500000, PEAL_FLOAT, PEAL_SUM, 0},
    {"type", ": count 1000, type int32, op sum", PEAL_ALLREDUCE, 1000, PEAL_INT32, PEAL_SUM, 0},
    {"op", ": count 1000, type float, op max", PEAL_ALLREDUCE, 1000, PEAL_FLOAT, PEAL_MAX, 0},
    {"kind", ": count 1000, type float, op sum, root 0", PEAL_REDUCE, 1000, PEAL_FLOAT, PEAL_SUM, 0},
    {"barrier", "barrier", PEAL_BARRIER, 1, PEAL_BYTE, PEAL_BAND, 0},
};
static const twist right = {"", ": count 1000, type float, op sum", PEAL_ALLREDUCE, 1000, PEAL_FLOAT, PEAL_SUM, 0};

static peal_status call(const twist *t, void *at, peal_comm *comm, void *stream)
{
    switch (t->kind) {
    case PEAL_REDUCE: return peal_reduce(at, at, t->count, t->type, t->op, t->root, comm, stream);
    case PEAL_BARRIER: return peal_barrier(comm, stream);
    default: return peal_allreduce(at, at, t->count, t->type, t->op, comm, stream);
    }
}

/* Every rank has STATUS in good time, for its kernels have found it out, or its watch has. */
static void must_become(seat *s, peal_status status)
{
    int64_t start = now_ms();
    while (peal_comm_error(s->comm) == PEAL_OK && now_ms() - start < 20000)
        nap_ms(5);
    if (peal_comm_error(s->comm) != status)
        seat_wrong(s, "it is: %s", peal_status_text(peal_comm_error(s->comm)));
    (void)s->cu->StreamSynchronize(s->stream); /* the kernels leave */
}

static void stays_wrong(seat *s, void *at, peal_status status)
{
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == status);
    int32_t host = 1;
    SEAT_CHECK(s, peal_allreduce(&host, &host, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == status);
}

static const twist *mine(const seat *s)
{
    return s->rank == s->n - 1 ? s->ctx : &right;
}

static void eager(seat *s)
{
    void *at = seat_alloc(s, 4 * 500000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    peal_status status = call(mine(s), at, s->comm, s->stream);
    SEAT_CHECK(s, status == PEAL_OK || status == PEAL_ERR_MISMATCH);
    must_become(s, PEAL_ERR_MISMATCH);
    stays_wrong(s, at, PEAL_ERR_MISMATCH);
}

static void capture(seat *s, void *at)
{
    SEAT_CHECK(s, call(mine(s), at, s->comm, s->stream) == PEAL_OK);
}

static void in_a_graph(seat *s)
{
    void *at = seat_alloc(s, 4 * 500000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    fake_exec exec = seat_capture(s, PEALI_CU_CAPTURE_GLOBAL, capture, at, by_engines() ? SEAT_MANY : 1);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
    seat_must(cuGraphLaunch(exec, s->stream), "cuGraphLaunch");
    must_become(s, PEAL_ERR_MISMATCH);
    seat_must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    stays_wrong(s, at, PEAL_ERR_MISMATCH);
}

static void at_once(seat *s)
{
    void *at = seat_alloc(s, 4 * 500000);
    SEAT_CHECK(s, call(mine(s), at, s->comm, s->stream) == PEAL_ERR_MISMATCH);
}

/* The last rank has host memory in hand. */
static void on_host(seat *s)
{
    void *at = seat_alloc(s, 4000);
    float host[1000] = {0};
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    bool device = s->rank < s->n - 1;
    peal_status status = call(&right, device ? at : host, s->comm, device ? s->stream : NULL);
    SEAT_CHECK(s, status == (device ? PEAL_OK : PEAL_ERR_MISMATCH));
    must_become(s, PEAL_ERR_MISMATCH);
}

static void on_host_at_once(seat *s)
{
    void *at = seat_alloc(s, 4000);
    float host[1000] = {0};
    bool device = s->rank < s->n - 1;
    SEAT_CHECK(s, call(&right, device ? at : host, s->comm, device ? s->stream : NULL) == PEAL_ERR_MISMATCH);
}

/* The last rank comes when another has said whom it waits for, and then all is well. */
static void late(seat *s)
{
    float *at = seat_alloc(s, 4000), got = 0;
    const float one = 1;
    char missing[48];
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_copy(s, at, &one, sizeof one);
    snprintf(missing, sizeof missing, "rank %d, which has not come", s->n - 1);
    for (int naps = 0; s->rank == s->n - 1 && naps < 1200 && !logged(missing); naps++)
        nap_ms(50);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    seat_copy(s, &got, at, sizeof got);
    SEAT_CHECK(s, got == (float)s->n);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
}

static void never(seat *s)
{
    void *at = seat_alloc(s, 4000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (s->rank == s->n - 1)
        return;
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    must_become(s, PEAL_ERR_TIMEOUT);
    stays_wrong(s, at, PEAL_ERR_TIMEOUT);
}

static void aborted(seat *s)
{
    void *at = seat_alloc(s, 4000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (s->rank == 0)
        SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    peal_comm_abort(s->comm);
    must_become(s, PEAL_ERR_ABORTED);
    stays_wrong(s, at, PEAL_ERR_ABORTED);
}

/* The last rank's call is refused: its next one is not what the others' is that they wait in, as kernels say, or their watch. */
static void refused_on_one(seat *s)
{
    const bool last = s->rank == s->n - 1;
    void *at = seat_alloc(s, 4000);
    float host[1000] = {0};
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (last)
        SEAT_CHECK(s, call(&right, host, s->comm, s->stream) == PEAL_ERR_INVALID);
    for (int k = last; k < 2; k++)
        SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK || k > 0);
    must_become(s, PEAL_ERR_MISMATCH);
    stays_wrong(s, at, PEAL_ERR_MISMATCH);
}

/* Captured whatever other ranks and threads do. */
static fake_exec capture_alone(seat *s, void *at)
{
    fake_graph graph;
    fake_exec exec = NULL;
    seat_must(cuStreamBeginCapture_v2(s->stream, PEALI_CU_CAPTURE_RELAXED), "cuStreamBeginCapture");
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_must(cuStreamEndCapture(s->stream, &graph), "cuStreamEndCapture");
    seat_must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    seat_must(cuGraphDestroy(graph), "cuGraphDestroy");
    return exec;
}

/* What all refuse, one rank after it has captured and the others before, is nothing to the graph. */
static void graph_beside_refused(seat *s)
{
    const bool last = s->rank == s->n - 1;
    float *at = seat_alloc(s, 4000), got = 0, host[1000] = {0};
    const float one = 1;
    fake_exec exec = NULL;
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_copy(s, at, &one, sizeof one);
    if (last)
        exec = capture_alone(s, at);
    SEAT_CHECK(s, call(&right, host, s->comm, s->stream) == PEAL_ERR_INVALID);
    if (!last)
        exec = capture_alone(s, at);
    seat_must(cuGraphLaunch(exec, s->stream), "cuGraphLaunch");
    seat_copy(s, &got, at, sizeof got);
    SEAT_CHECK(s, got == (float)s->n);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
    seat_must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
}

/* The last rank's call is refused, and its next launch, a graph of the same call, is not that of the others. */
static void graph_after_refused(seat *s)
{
    const bool last = s->rank == s->n - 1;
    float *at = seat_alloc(s, 4000), host[1000] = {0};
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    fake_exec exec = capture_alone(s, at);
    if (last)
        await_others(s);
    SEAT_CHECK(s, call(&right, last ? host : at, s->comm, s->stream) == (last ? PEAL_ERR_INVALID : PEAL_OK));
    if (!last)
        say_done();
    seat_must(cuGraphLaunch(exec, s->stream), "cuGraphLaunch");
    must_become(s, PEAL_ERR_MISMATCH);
    seat_must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
}

/* The last rank's call cannot be launched, and it makes no other: those who wait in theirs hear of it, and of why. */
static void not_launched(seat *s)
{
    const bool last = s->rank == s->n - 1;
    void *at = seat_alloc(s, 4000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    if (last) {
        await_others(s); /* the next launch of this process is this rank's */
        fake_cuda_fail("cuLaunchKernelEx", 1, PEALI_CU_OUT_OF_MEMORY);
    }
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == (last ? PEAL_ERR_MEMORY : PEAL_OK));
    int64_t start = now_ms();
    if (!last)
        say_done();
    must_become(s, PEAL_ERR_MEMORY);
    if (now_ms() - start > 4000)
        seat_wrong(s, "it heard of that after %lld ms", (long long)(now_ms() - start));
    stays_wrong(s, at, PEAL_ERR_MEMORY);
}

/* Before the communicator has a device side: no later call begins. */
static void aborted_early(seat *s)
{
    void *at = seat_alloc(s, 4000);
    peal_comm_abort(s->comm);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_ERR_ABORTED);
    stays_wrong(s, at, PEAL_ERR_ABORTED);
}

/* Without a stream, which ranks of one device and process would share. */
static void freed_between_calls(seat *s)
{
    float *at = seat_alloc(s, 4000);
    if (s->n <= devices_here()) {
        SEAT_CHECK(s, peal_allreduce(at, at, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, NULL) == PEAL_OK);
        seat_must(s->cu->StreamSynchronize(NULL), "cuStreamSynchronize");
    }
    seat_free(s, at);
    for (int k = 0; k < 2; k++)
        SEAT_CHECK(s, peal_allreduce(at, at, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, NULL) == PEAL_ERR_INVALID);
}

/* All ranks are refused, and nothing was started. */
static void wrong_buffers(seat *s)
{
    float host[1000] = {0}, *at = seat_alloc(s, 4000), *freed = seat_alloc(s, 4000);
    SEAT_CHECK(s, peal_allreduce(host, host, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_INVALID);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    SEAT_CHECK(s, peal_allreduce(host, at, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_INVALID);
    SEAT_CHECK(s, peal_allreduce(at, host, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, NULL) == PEAL_ERR_INVALID);
    SEAT_CHECK(s, peal_broadcast(host, 1000, PEAL_FLOAT, 0, s->comm, s->stream) == PEAL_ERR_INVALID);
    seat_free(s, freed);
    SEAT_CHECK(s, peal_allreduce(freed, at, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_INVALID);
    freed_between_calls(s);
    SEAT_CHECK(s, peal_allreduce(at, NULL, 1000, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_INVALID);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
}

static void other_device(seat *s)
{
    peali_cu_ctx context, popped;
    void *at = seat_alloc(s, 4000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    seat_must(s->cu->DevicePrimaryCtxRetain(&context, (s->device + 1) % devices_here()), "cuDevicePrimaryCtxRetain");
    seat_must(s->cu->CtxPushCurrent(context), "cuCtxPushCurrent");
    peali_cu_ptr there;
    seat_must(s->cu->MemAlloc(&there, 4000), "cuMemAlloc");
    seat_must(s->cu->CtxPopCurrent(&popped), "cuCtxPopCurrent");
    SEAT_CHECK(s, call(&right, (void *)(uintptr_t)there, s->comm, s->stream) == PEAL_ERR_INVALID);
    seat_sync(s);
}

static void sums(seat *s)
{
    float *at = seat_alloc(s, 4000), got[2] = {0};
    const float ones[2] = {1, 1};
    seat_copy(s, at, ones, sizeof ones);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_OK);
    seat_copy(s, got, at, sizeof got);
    SEAT_CHECK(s, got[0] == (float)s->n && got[1] == (float)s->n);
    seat_free(s, at);
}

/* A call of another kind, and then one rank fails with SYMBOL: it has no memory for what copy engines take, or cannot map it. */
static void lose_memory(seat *s, float *at, const char *symbol)
{
    SEAT_CHECK(s, peal_broadcast(at, 1000, PEAL_FLOAT, 0, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    if (s->rank == 0)
        fake_cuda_fail(symbol, 1, PEALI_CU_OUT_OF_MEMORY);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
}

/* No rank calls by them, nor keeps what it took for that, and all go on. */
static void no_area(seat *s)
{
    float *at = seat_alloc(s, 4000);
    lose_memory(s, at, "cuMemAlloc_v2");
    const size_t before = seat_left();
    for (int k = 0; k < 2; k++)
        SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, seat_left() == before);
    SEAT_CHECK(s, peal_broadcast(at, 1000, PEAL_FLOAT, 0, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
}

/* Ranks that are threads take copy engines only when asked to. */
#ifdef TEST_MPI
static const bool processes = true;
#else
static const bool processes = false;
#endif

/* Captured, so that nothing is moved: by copy engines several nodes; where one rank fails, one kernel, and none keeps memory. */
static void large(seat *s)
{
    enum { LARGE = 256 << 20 };
    const twist *lost = s->ctx;
    fake_graph graph;
    size_t nodes = 0;
    void *at = seat_alloc(s, LARGE);
    if (lost)
        lose_memory(s, at, lost->name);
    const size_t before = seat_left();
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_must(cuStreamBeginCapture_v2(s->stream, PEALI_CU_CAPTURE_GLOBAL), "cuStreamBeginCapture");
    SEAT_CHECK(s, peal_allreduce(at, at, LARGE / 4, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_must(cuStreamEndCapture(s->stream, &graph), "cuStreamEndCapture");
    seat_must(cuGraphGetNodes(graph, NULL, &nodes), "cuGraphGetNodes");
    SEAT_CHECK(s, processes && !lost ? nodes > 1 : nodes == 1);
    SEAT_CHECK(s, !lost || seat_left() == before);
    seat_must(cuGraphDestroy(graph), "cuGraphDestroy");
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_free(s, at);
}

static void does_not_begin(seat *s)
{
    void *at = seat_alloc(s, 4000);
    SEAT_CHECK(s, call(&right, at, s->comm, s->stream) == PEAL_ERR_TIMEOUT);
}

/* Only then are GPUs as the test wants them. */
static bool fake(void)
{
    char name[96] = "";
    return peali_cuda_driver_get(NULL)->DeviceGetName(name, sizeof name, 0) == 0 && strncmp(name, "Fake", 4) == 0;
}

/* BODY on N ranks, and then TEXTS (to NULL) are in the log. */
static void play(int n, seat_body *body, const twist *t, const char *const *texts)
{
    forget_log();
    int64_t start = now_ms();
    int wrong = seats_run(n, body, (void *)(uintptr_t)t);
    for (; *texts; texts++)
        if (!logged(*texts)) {
            fprintf(stderr, "%s: not logged: %s\n", t ? t->name : "", *texts);
            wrong++;
        }
    if (now_ms() - start > 15000)
        fprintf(stderr, "it took %lld ms\n", (long long)(now_ms() - start));
    assert_int_equal(wrong, 0);
}

/* Of processes, where each waits for a second, the most ranks alone. */
static void each_twist(seat_body *body, bool described)
{
    for (size_t k = 0; k < sizeof twists / sizeof twists[0]; k++)
        for (int n = processes ? MOST : 2; n <= MOST; n++) {
            const char *const texts[] = {"differ", described ? right.text : NULL, twists[k].text, NULL};
            play(n, body, &twists[k], texts);
        }
}

static void test_eager(void **state)
{
    each_twist(eager, false);
}

static void test_in_a_graph(void **state)
{
    each_twist(in_a_graph, true);
}

static void test_at_once(void **state)
{
    each_twist(at_once, false);
}

static void test_on_host(void **state)
{
    const char *const texts[] = {"type float, op sum;", "type float, op sum, on device memory", NULL};
    for (int n = 2; n <= MOST; n++) {
        play(n, on_host, NULL, texts);
        play(n, on_host_at_once, NULL, texts);
    }
}

static void test_late(void **state)
{
    const char *const two[] = {"rank 1, which has not come", NULL}, *const three[] = {"rank 2, which has not come", NULL};
    play(2, late, NULL, two);
    play(3, late, NULL, three);
}

static void test_never(void **state)
{
    const char *const texts[] = {"rank 2, which has not come", NULL};
    play(3, never, NULL, texts);
}

static void test_aborted(void **state)
{
    const char *const texts[] = {NULL};
    play(2, aborted, NULL, texts);
    for (int n = 1; n <= MOST; n++)
        play(n, aborted_early, NULL, texts);
}

static void test_refused_on_one(void **state)
{
    const char *const texts[] = {"differ: rank", "refused", NULL};
    for (int n = 2; n <= MOST; n++)
        play(n, refused_on_one, NULL, texts);
}

static void test_graph_and_refused(void **state)
{
    const char *const none[] = {NULL}, *const texts[] = {"differ: rank", NULL};
    for (int n = 2; n <= MOST; n++) {
        play(n, graph_beside_refused, NULL, none);
        play(n, graph_after_refused, NULL, texts);
    }
}

static void test_not_launched(void **state)
{
    char text[96];
    const char *const texts[] = {text, "which failed there: memory", NULL};
    if (!fake())
        skip();
    for (int n = 2; n <= MOST; n++) {
        snprintf(text, sizeof text, "rank %d made allreduce number", n - 1);
        play(n, not_launched, NULL, texts);
        assert_int_equal(times_logged("which failed there"), n - 1);
    }
}

static void test_wrong_buffers(void **state)
{
    const char *const texts[] = {"is memory of the host", "the call has a stream", "the other buffer is device memory",
                                 "was freed", NULL};
    const char *const device[] = {"is memory of device", NULL};
    play(2, wrong_buffers, NULL, texts);
    if (devices_here() > 1)
        play(2, other_device, NULL, device);
}

/* What is stored to another GPU is lost: right sums all the same, and one warning. */
static void test_lost(void **state)
{
    const char *const texts[] = {"device 0 (0000:0a:00.0) and that of rank 1 (0000:1a:00.0) do not reach each other: a store",
                                 "calls go through host memory, which is slow", NULL};
    if (!fake() || by_engines()) /* which have no other way */
        skip();
    setenv("FAKE_CUDA_P2P", "lost", 1);
    play(3, sums, NULL, texts);
    assert_int_equal(times_logged("do not reach each other"), 1);
    unsetenv("FAKE_CUDA_P2P");
}

static void test_no_area(void **state)
{
    const char *const texts[] = {"no calls by copy engines: some rank has no area of 65536 bytes", "PEAL_PROTO=engines needs", 0};
    if (!fake() || !by_engines())
        skip();
    for (int n = 2; n <= MOST; n++) {
        play(n, no_area, NULL, texts);
        assert_int_equal(times_logged("no calls by copy engines"), 1);
        assert_int_equal(times_logged("cuMemAlloc"), 0);
    }
}

static void test_large(void **state)
{
    const char *const lost[] = {"no calls by copy engines: some rank has no area of 67108864 bytes", NULL};
    if (!fake() || by_engines())
        skip();
    for (int n = 2; n <= MOST; n++) {
        play(n, large, NULL, lost + 1);
        assert_int_equal(times_logged("no calls by copy engines"), 0);
        for (int k = 0; processes && k < 2; k++) {
            play(n, large, &(twist){.name = k ? "cuIpcOpenMemHandle_v2" : "cuMemAlloc_v2"}, lost);
            assert_int_equal(times_logged("no calls by copy engines"), 1);
        }
    }
}

/* It never ends. The last test: the fake device goes on with it. */
static void test_hangs(void **state)
{
    const char *const texts[] = {"storing to peers (PEAL_P2P=0 does without): device 1 has not done it after 1.5 s", NULL};
    if (!fake())
        skip();
    setenv("FAKE_CUDA_P2P", "hang", 1);
    play(2, does_not_begin, NULL, texts);
}

static int run(const char *name, bool timeouts)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_eager), cmocka_unit_test(test_in_a_graph), cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_on_host), cmocka_unit_test(test_late), cmocka_unit_test(test_aborted),
        cmocka_unit_test(test_refused_on_one), cmocka_unit_test(test_graph_and_refused), cmocka_unit_test(test_not_launched),
        cmocka_unit_test(test_wrong_buffers), cmocka_unit_test(test_lost), cmocka_unit_test(test_no_area),
        cmocka_unit_test(test_large),
    };
    const struct CMUnitTest short_of_time[] = {cmocka_unit_test(test_never), cmocka_unit_test(test_hangs)};
    if (timeouts)
        return cmocka_run_group_tests_name(name, short_of_time, NULL, NULL);
    return cmocka_run_group_tests_name(name, all, NULL, NULL);
}

/* With the argument "timeout": calls that PEAL_TIMEOUT ends. */
int main(int argc, char **argv)
{
    bool timeouts = argc > 1 && strcmp(argv[1], "timeout") == 0;
    snprintf(log_path, sizeof log_path, "device_wrong.%d.log", (int)getpid());
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    setenv("PEAL_ENGINES", "64m", 0);
    if (timeouts)
        setenv("PEAL_TIMEOUT", "3", 1);
#ifdef TEST_MPI
    world_start(&argc, &argv);
    MPI_Bcast(log_path, sizeof log_path, MPI_CHAR, 0, MPI_COMM_WORLD);
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = run("device_wrong_mpi", timeouts);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        unlink(log_path);
    MPI_Finalize();
#else
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = run("device_wrong", timeouts);
    unlink(log_path);
#endif
    return failed;
}
