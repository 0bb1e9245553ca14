/*
 * What one rank lacks as a call on device memory is made ready ends that call on all ranks that would wait for it: each allocation
 * fails once (one of three, without the argument "all"), each step of the driver, and a call is refused on one rank that makes no
 * other. What one rank could not capture is nothing to the calls after it; and who gives up keeps what the others may find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/arena.h"
#include "cuda/device_log.h"

enum { COUNT = 5000, MOST = 3, GOOD_MS = 4000 };

typedef enum moment { FIRST, LATER, CAPTURED, REGISTERED } moment;

/* What fails, and what became of it. */
typedef struct lack {
    moment when;
    const char *symbol; /* of the driver; NULL: an allocation */
    int number;         /* so many from then on, */
    long allocations;   /* of so many */
    pthread_barrier_t all;
    bool failed; /* some rank's call */
} lack;

static void give_ones(seat *s, int32_t *at)
{
    int32_t ones[COUNT];
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    seat_copy(s, at, ones, sizeof ones);
}

static peal_status sum(seat *s, int32_t *at)
{
    return peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream);
}

static void see_sums(seat *s, const int32_t *at)
{
    int32_t got[COUNT];
    seat_copy(s, got, at, sizeof got);
    SEAT_CHECK(s, got[0] == s->n && got[COUNT - 1] == s->n && peal_comm_error(s->comm) == PEAL_OK);
}

static peal_status capture(seat *s, int32_t *at)
{
    fake_graph graph;
    seat_must(cuStreamBeginCapture_v2(s->stream, PEALI_CU_CAPTURE_RELAXED), "cuStreamBeginCapture");
    peal_status status = sum(s, at);
    if (cuStreamEndCapture(s->stream, &graph) == 0)
        seat_must(cuGraphDestroy(graph), "cuGraphDestroy");
    return status;
}

static peal_status call(seat *s, const lack *l, int32_t *at)
{
    switch (l->when) {
    case CAPTURED: return capture(s, at);
    case REGISTERED: return peal_register(s->comm, at, COUNT * sizeof *at);
    default: return sum(s, at);
    }
}

/* Rank 0 lets it fail, or ends that. All come. */
static void arm(const seat *s, lack *l, bool so)
{
    pthread_barrier_wait(&l->all);
    if (s->rank == 0) {
        l->allocations = peali_alloc_count() - (so ? 0 : l->allocations);
        peali_alloc_fail_at(so && !l->symbol ? l->number : 0);
        fake_cuda_fail(so && l->symbol ? l->symbol : "", so ? l->number : 0, PEALI_CU_OUT_OF_MEMORY);
    }
    pthread_barrier_wait(&l->all);
}

/* No rank waits for another in vain, neither in that call nor in the next one. */
static void lacks(seat *s)
{
    lack *l = s->ctx;
    int32_t *at = seat_alloc(s, COUNT * sizeof *at);
    if (l->when == LATER)
        SEAT_CHECK(s, peal_broadcast(at, 1, PEAL_INT32, 0, s->comm, s->stream) == PEAL_OK);
    give_ones(s, at);
    for (int k = 0; k < 2; k++) {
        if (k == 0)
            arm(s, l, true);
        const int64_t start = now_ms();
        const peal_status status = k == 0 ? call(s, l, at) : sum(s, at);
        (void)s->cu->StreamSynchronize(s->stream);
        if (now_ms() - start > GOOD_MS || status == PEAL_ERR_TIMEOUT || peal_comm_error(s->comm) == PEAL_ERR_TIMEOUT)
            seat_wrong(s, "%s %d of %d: call %d: %s, after %lld ms", l->symbol ? l->symbol : "allocation", l->number, (int)l->when,
                       k, peal_status_text(status), (long long)(now_ms() - start));
        if (status != PEAL_OK)
            __atomic_store_n(&l->failed, true, __ATOMIC_SEQ_CST);
        if (k == 0)
            arm(s, l, false);
    }
    pthread_barrier_wait(&l->all);
    seat_free(s, at);
}

/* One that fails as number NUMBER: true where there was one. */
static bool play(const char *nodes, int n, moment when, const char *symbol, int number)
{
    lack l = {.when = when, .symbol = symbol, .number = number};
    pthread_barrier_init(&l.all, NULL, (unsigned)n);
    assert_int_equal(nodes ? seats_run_in(nodes, NULL, lacks, &l) : seats_run(n, lacks, &l), 0);
    pthread_barrier_destroy(&l.all);
    return symbol ? l.failed : l.allocations >= number;
}

static int one_of = 3;

static void test_allocations(void **state)
{
    static const struct {
        const char *nodes;
        int n;
        moment when;
        int step;
    } scenes[] = {{NULL, 2, FIRST, 1}, {NULL, 3, LATER, 3}, {NULL, 2, CAPTURED, 1}, {NULL, 2, REGISTERED, 2}, {"1+1", 2, FIRST, 9}};
    for (size_t k = 0; k < sizeof scenes / sizeof scenes[0]; k++) {
        int number = 1 + (int)k % one_of;
        while (play(scenes[k].nodes, scenes[k].n, scenes[k].when, NULL, number))
            number += one_of * scenes[k].step;
        assert_true(number > 10);
    }
}

static void test_steps(void **state)
{
    static const char *const symbols[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuMemsetD8Async", "cuMemcpyAsync",
                                          "cuCtxPushCurrent_v2", "cuPointerGetAttributes", "cuStreamIsCapturing",
                                          "cuThreadExchangeStreamCaptureMode", "cuCtxGetCurrent", "cuLaunchKernelEx"};
    for (size_t k = 0; k < sizeof symbols / sizeof symbols[0]; k++)
        for (int number = 1; play(NULL, 2, number % 2 ? FIRST : LATER, symbols[k], number); number++)
            ;
}

/* The last rank's call is refused, and it leaves: the others need not wait for a deadline. */
static void refused_and_gone(seat *s)
{
    const bool last = s->rank == s->n - 1, later = s->ctx;
    int32_t host[COUNT] = {0}, *at = seat_alloc(s, COUNT * sizeof *at);
    const int64_t start = now_ms();
    if (later)
        SEAT_CHECK(s, sum(s, at) == PEAL_OK);
    seat_sync(s);
    if (last)
        SEAT_CHECK(s, sum(s, host) == PEAL_ERR_INVALID);
    else
        SEAT_CHECK(s, sum(s, at) == (later ? PEAL_OK : PEAL_ERR_MISMATCH));
    (void)s->cu->StreamSynchronize(s->stream);
    SEAT_CHECK(s, last || peal_comm_error(s->comm) == PEAL_ERR_MISMATCH);
    SEAT_CHECK(s, now_ms() - start < GOOD_MS);
}

static void test_refused_and_gone(void **state)
{
    for (int n = 2; n <= MOST; n++)
        for (int later = 0; later < 2; later++)
            assert_int_equal(seats_run(n, refused_and_gone, later ? log_path : NULL), 0);
}

/* The last rank fails to capture a call, or has a capture that is of no use any more: its eager calls are those of the others. */
static void not_captured(seat *s)
{
    const bool last = s->rank == s->n - 1;
    int32_t *at = seat_alloc(s, COUNT * sizeof *at);
    fake_graph graph;
    SEAT_CHECK(s, sum(s, at) == PEAL_OK);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    if (last) {
        fake_cuda_fail("cuLaunchKernelEx", 1, PEALI_CU_OUT_OF_MEMORY);
        SEAT_CHECK(s, capture(s, at) == PEAL_ERR_MEMORY);
        seat_must(cuStreamBeginCapture_v2(s->stream, PEALI_CU_CAPTURE_GLOBAL), "cuStreamBeginCapture");
        (void)s->cu->CtxSynchronize(); /* which that forbids */
        SEAT_CHECK(s, sum(s, at) == PEAL_ERR_CAPTURE);
        (void)cuStreamEndCapture(s->stream, &graph);
    }
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    give_ones(s, at);
    SEAT_CHECK(s, sum(s, at) == PEAL_OK);
    see_sums(s, at);
    seat_free(s, at);
}

static void test_not_captured(void **state)
{
    for (int n = 2; n <= MOST; n++)
        assert_int_equal(seats_run(n, not_captured, NULL), 0);
}

static int come; /* ranks that have come to a point, of the last test */

static void await(int n)
{
    while (__atomic_load_n(&come, __ATOMIC_SEQ_CST) < n)
        nap_ms(1);
}

static void *abort_soon(void *comm)
{
    nap_ms(50);
    peal_comm_abort(comm);
    return NULL;
}

/* Is all of it as it was written, in the time that the others take? */
static bool stays(const seat *s, unsigned char *at, size_t bytes)
{
    bool same = true;
    memset(at, 0xa5, bytes);
    __atomic_store_n(&come, 1, __ATOMIC_SEQ_CST);
    await(s->n);
    for (size_t i = 0; i < bytes; i++)
        same &= at[i] == 0xa5;
    return same;
}

/* Rank 0 gives up before the others come, who find its card: what that names is not yet others' memory. */
static void given_up(seat *s)
{
    pthread_t thread;
    int32_t *at = seat_alloc(s, COUNT * sizeof *at);
    if (s->rank > 0) {
        await(1);
        SEAT_CHECK(s, sum(s, at) != PEAL_OK);
        __atomic_add_fetch(&come, 1, __ATOMIC_SEQ_CST);
        return;
    }
    SEAT_CHECK(s, pthread_create(&thread, NULL, abort_soon, s->comm) == 0);
    SEAT_CHECK(s, sum(s, at) == PEAL_ERR_ABORTED);
    pthread_join(thread, NULL);
    unsigned char *mine = malloc(sizeof(peali_device_shown)); /* where freed memory would be */
    SEAT_CHECK(s, stays(s, mine, sizeof(peali_device_shown)));
    free(mine);
}

static void test_given_up(void **state)
{
    for (int n = 2; n <= MOST; n++) {
        come = 0;
        assert_int_equal(seats_run(n, given_up, NULL), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations), cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_refused_and_gone), cmocka_unit_test(test_not_captured),
                                       cmocka_unit_test(test_given_up)};
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        one_of = 1;
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    setenv("PEAL_TIMEOUT", "6", 1);
    seats_parley_ms = 200;
    snprintf(log_path, sizeof log_path, "device_lacks.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests_name("device_lacks", tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
