/*
 * Allreduces on one stream beside computation on another, which fills all SMs: no deadlock, and right sums, with one connection to
 * a device (CUDA_DEVICE_MAX_CONNECTIONS=1) and with many; and behind computation that lets it begin early. The arguments, left away
 * on GPUs: how many CTAs compute, and how many rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cuda/device_ranks.h"

enum { THREADS = 256, CALLS = 12, PATIENCE_S = 120, MOST = 4 };

/* 32 CTAs for each of 132 SMs, which hold 8 of them at once, and 0.3 ms on H200. Sums of all rounds are below 2^24. */
static unsigned ctas = 32 * 132;
static uint64_t rounds = 2000;

/* Adds ROUNDS to each of N floats, one multiplication and addition at a time. */
static const char image[] =
    ".version 7.8\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry peal_test_gemm(.param .u64 at, .param .u64 n, .param .u64 rounds, .param .f32 one)\n"
    "{\n"
    "    .reg .pred %end;\n"
    "    .reg .b32 %x, %y;\n"
    "    .reg .b64 %at, %n, %i, %k;\n"
    "    .reg .f32 %sum, %one;\n"
    "    // here what follows may begin    \n"
    "    ld.param.u64 %n, [n];\n"
    "    ld.param.f32 %one, [one];\n"
    "    mov.u32 %x, %ctaid.x;\n"
    "    mov.u32 %y, %ntid.x;\n"
    "    mul.wide.u32 %i, %x, %y;\n"
    "    mov.u32 %x, %tid.x;\n"
    "    cvt.u64.u32 %k, %x;\n"
    "    add.s64 %i, %i, %k;\n"
    "    setp.ge.u64 %end, %i, %n;\n"
    "    @%end bra done;\n"
    "    ld.param.u64 %at, [at];\n"
    "    cvta.to.global.u64 %at, %at;\n"
    "    shl.b64 %i, %i, 2;\n"
    "    add.s64 %at, %at, %i;\n"
    "    ld.global.f32 %sum, [%at];\n"
    "    ld.param.u64 %k, [rounds];\n"
    "each_round:\n"
    "    setp.eq.u64 %end, %k, 0;\n"
    "    @%end bra store;\n"
    "    fma.rn.f32 %sum, %sum, %one, %one;\n"
    "    sub.s64 %k, %k, 1;\n"
    "    bra each_round;\n"
    "store:\n"
    "    st.global.f32 [%at], %sum;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

/* One rank's computation. */
typedef struct compute {
    peali_cu_func gemm;
    peali_cu_strm stream;
    peali_cu_event computed[CALLS], reduced[CALLS];
    float *at[CALLS], *host;
} compute;

static size_t length(void)
{
    return (size_t)ctas * THREADS;
}

/* Elements of call K: long ones, and short ones that are done while a kernel computes. */
static size_t count_of(int k)
{
    return length() >> k % 3 * 5;
}

/* By NCTAS. */
static void compute_by(const compute *c, peali_cu_strm stream, float *at, unsigned nctas, uint64_t nrounds)
{
    uint64_t where = (uintptr_t)at, n = (uint64_t)nctas * THREADS;
    float one = 1;
    void *parameters[] = {&where, &n, &nrounds, &one};
    const peali_cuda_driver *cu = peali_cuda_driver_get(NULL);
    seat_must(cu->LaunchKernel(c->gemm, nctas, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
}

static void launch(const compute *c, peali_cu_strm stream, float *at)
{
    compute_by(c, stream, at, ctas, rounds);
}

static float first(int rank, int k, size_t i)
{
    return (float)(rank * 7 + k + (int)(i % 61));
}

/* Of what all ranks have first. */
static float sum(int n, int k, size_t i)
{
    float all = 0;
    for (int r = 0; r < n; r++)
        all += first(r, k, i);
    return all;
}

static void fill(const seat *s, const compute *c)
{
    for (int k = 0; k < CALLS; k++) {
        for (size_t i = 0; i < length(); i++)
            c->host[i] = first(s->rank, k, i);
        seat_copy(s, c->at[k], c->host, length() * sizeof *c->host);
    }
}

/* From 9.0 on what stands behind the kernel in its stream, and asks for that, may begin before it has stored anything. */
static void let_begin(char *text)
{
    static const char instruction[] = "griddepcontrol.launch_dependents;";
    memcpy(strstr(text, "sm_80"), "sm_90", 5);
    memcpy(strstr(text, "// here"), instruction, sizeof instruction - 1);
}

static void open_compute(const seat *s, compute *c)
{
    peali_cu_lib library;
    peali_cu_kern kernel;
    char text[sizeof image];
    int major = 0;
    memcpy(text, image, sizeof image);
    seat_must(s->cu->DeviceGetAttribute(&major, PEALI_CU_DEVICE_MAJOR, s->device), "cuDeviceGetAttribute");
    if (major >= 9)
        let_begin(text);
    seat_must(s->cu->LibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0), "cuLibraryLoadData");
    seat_must(s->cu->LibraryGetKernel(&kernel, library, "peal_test_gemm"), "cuLibraryGetKernel");
    seat_must(s->cu->KernelGetFunction(&c->gemm, kernel), "cuKernelGetFunction");
    seat_must(s->cu->StreamCreate(&c->stream, PEALI_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    c->host = malloc(length() * sizeof *c->host);
    for (int k = 0; k < CALLS; k++) {
        c->at[k] = seat_alloc(s, length() * sizeof *c->host);
        seat_must(s->cu->EventCreate(&c->computed[k], PEALI_CU_EVENT_NO_TIMING), "cuEventCreate");
        seat_must(s->cu->EventCreate(&c->reduced[k], PEALI_CU_EVENT_NO_TIMING), "cuEventCreate");
    }
}

static void close_compute(const seat *s, compute *c)
{
    for (int k = 0; k < CALLS; k++) {
        seat_free(s, c->at[k]);
        seat_must(s->cu->EventDestroy(c->computed[k]), "cuEventDestroy");
        seat_must(s->cu->EventDestroy(c->reduced[k]), "cuEventDestroy");
    }
    seat_must(s->cu->StreamDestroy(c->stream), "cuStreamDestroy");
    free(c->host);
}

/* Waits for both streams, but not for ever. */
static void await(const seat *s, const compute *c)
{
    const peali_cu_strm both[] = {s->stream, c->stream};
    int64_t start = peali_clock_ns();
    for (int i = 0; i < 2; i++)
        for (;;) {
            peali_cu_result result = s->cu->StreamQuery(both[i]);
            if (result != PEALI_CU_NOT_READY) {
                seat_must(result, "cuStreamQuery");
                break;
            }
            if (peali_clock_ns() - start > PATIENCE_S * 1000000000LL) {
                fprintf(stderr, "rank %d of %d: a deadlock: the stream of %s is not done after %d s\n", s->rank, s->n,
                        i == 0 ? "allreduces" : "computation", PATIENCE_S);
                abort();
            }
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
}

static void reduce(seat *s, const compute *c, int k)
{
    SEAT_CHECK(s, peal_allreduce(c->at[k], c->at[k], count_of(k), PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
}

/* Buffer K has MORE beside what it should have of SUMS sums, or of this rank's own. */
static void check(seat *s, const compute *c, int k, size_t sums, float more_in_sums, float more)
{
    seat_copy(s, c->host, c->at[k], length() * sizeof *c->host);
    size_t wrong = 0;
    for (size_t i = 0; i < length(); i++)
        wrong += c->host[i] != (i < sums ? sum(s->n, k, i) + more_in_sums : first(s->rank, k, i) + more);
    if (wrong > 0)
        seat_wrong(s, "buffer %d: %zu of %zu are wrong", k, wrong, length());
}

/* Nothing waits for the other stream; ranks give calls and kernels in another order, and some come late. */
static void beside(seat *s)
{
    compute c;
    open_compute(s, &c);
    fill(s, &c);
    float *own = seat_alloc(s, length() * sizeof *own);
    for (int late = 0; late < s->rank; late++)
        launch(&c, s->stream, own);
    for (int k = 0; k < CALLS; k++) {
        bool before = (s->rank + k) % 2;
        if (before)
            launch(&c, c.stream, own);
        reduce(s, &c, k);
        if (!before)
            launch(&c, c.stream, own);
    }
    await(s, &c);
    for (int k = 0; k < CALLS; k++)
        check(s, &c, k, count_of(k), 0, 0);
    seat_free(s, own);
    close_compute(s, &c);
}

/* As in training: a kernel computes what the next call reduces, beside the call before, and another one goes on with the sum. */
static void in_turns(seat *s)
{
    compute c;
    open_compute(s, &c);
    fill(s, &c);
    for (int k = 0; k <= CALLS; k++) {
        if (k < CALLS) {
            launch(&c, c.stream, c.at[k]);
            seat_must(s->cu->EventRecord(c.computed[k], c.stream), "cuEventRecord");
            seat_must(s->cu->StreamWaitEvent(s->stream, c.computed[k], 0), "cuStreamWaitEvent");
            reduce(s, &c, k);
            seat_must(s->cu->EventRecord(c.reduced[k], s->stream), "cuEventRecord");
        }
        if (k > 0) {
            seat_must(s->cu->StreamWaitEvent(c.stream, c.reduced[k - 1], 0), "cuStreamWaitEvent");
            launch(&c, c.stream, c.at[k - 1]);
        }
    }
    await(s, &c);
    for (int k = 0; k < CALLS; k++)
        check(s, &c, k, count_of(k), (float)(rounds * (uint64_t)(s->n + 1)), (float)(rounds * 2));
    close_compute(s, &c);
}

/* In one stream, where a call finds SMs of its own before the kernel that computes what it reduces has ended. */
static void behind(seat *s)
{
    enum { PART = 128 }; /* of the CTAs, on 33 of the 132 SMs of an H200 */
    const unsigned nctas = ctas / PART > 0 ? ctas / PART : 1;
    const uint64_t nrounds = 10 * rounds;
    compute c;
    open_compute(s, &c);
    fill(s, &c);
    for (int k = 0; k < CALLS; k++) {
        compute_by(&c, s->stream, c.at[k], nctas, nrounds);
        SEAT_CHECK(s, peal_allreduce(c.at[k], c.at[k], nctas * THREADS, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    }
    await(s, &c);
    for (int k = 0; k < CALLS; k++)
        check(s, &c, k, nctas * THREADS, (float)(nrounds * (uint64_t)s->n), 0);
    close_compute(s, &c);
}

static int most(void)
{
#ifdef TEST_MPI
    int ranks = world_size < MOST ? world_size : MOST;
#else
    int ranks = MOST;
#endif
    return devices_here() < ranks ? devices_here() : ranks;
}

static void test_beside(void **state)
{
    for (int n = 2; n <= most(); n += 2)
        assert_int_equal(seats_run(n, beside, NULL), 0);
}

static void test_in_turns(void **state)
{
    for (int n = 2; n <= most(); n += 2)
        assert_int_equal(seats_run(n, in_turns, NULL), 0);
}

static void test_behind(void **state)
{
    for (int n = 2; n <= most(); n += 2)
        assert_int_equal(seats_run(n, behind, NULL), 0);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside), cmocka_unit_test(test_in_turns),
                                       cmocka_unit_test(test_behind)};
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (most() < 2) {
        puts("it takes two GPUs, and two ranks");
        return 77;
    }
    printf("%d GPUs, CUDA_DEVICE_MAX_CONNECTIONS %s\n", most(), connections ? connections : "unset");
    return cmocka_run_group_tests_name("device_overlap", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    if (argc > 1)
        ctas = (unsigned)atoi(argv[1]);
    if (argc > 2)
        rounds = (uint64_t)atoi(argv[2]);
#ifdef TEST_MPI
    world_start(&argc, &argv);
    int failed = run();
    MPI_Finalize();
    return failed;
#else
    return run();
#endif
}
