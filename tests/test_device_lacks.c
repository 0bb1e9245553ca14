/*
 * What one rank lacks as a call on device memory is made ready ends that call on all ranks that would wait for it: each allocation
 * fails once, and each step of the driver.
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

static void test_allocations(void **state)
{
    static const struct {
        const char *nodes;
        int n;
        moment when;
        int step;
    } scenes[] = {{NULL, 2, FIRST, 1}, {NULL, 3, LATER, 3}, {NULL, 2, CAPTURED, 1}, {NULL, 2, REGISTERED, 2}, {"1+1", 2, FIRST, 9}};
    for (size_t k = 0; k < sizeof scenes / sizeof scenes[0]; k++) {
        int number = 1;
        while (play(scenes[k].nodes, scenes[k].n, scenes[k].when, NULL, number))
            number += scenes[k].step;
        assert_true(number > 10);
    }
}

static void test_steps(void **state)
{
    static const char *const symbols[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuMemsetD8Async", "cuMemcpyAsync",
                                          "cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuCtxGetCurrent", "cuLaunchKernel"};
    for (size_t k = 0; k < sizeof symbols / sizeof symbols[0]; k++)
        for (int number = 1; play(NULL, 2, number % 2 ? FIRST : LATER, symbols[k], number); number++)
            ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations), cmocka_unit_test(test_steps)};
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    setenv("PEAL_TIMEOUT", "6", 1);
    snprintf(log_path, sizeof log_path, "device_lacks.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests_name("device_lacks", tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
