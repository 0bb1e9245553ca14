/*
 * Collectives on device memory give the bits that they give on host memory: every kind, algorithm, type and operation, in place and
 * not, eager and by graphs, on several communicators and streams, with fewer devices than ranks. The arguments are the seed of the
 * random calls, how many of them, and how often graphs are replayed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cuda/device_check.h"
#include "cuda/device_series.h"

enum { MOST = 4 };

/* ASan gets one call of several. */
#if defined(__SANITIZE_ADDRESS__)
enum { ONE_OF = 3 };
#else
enum { ONE_OF = 1 };
#endif

static unsigned random_seed = 1;
static int random_calls = 150, replays = 60;

static void every_algorithm(seat *s)
{
    static const size_t counts[] = {0, 1, 1000, 9001};
    peal_problem problem = {.nranks = s->n, .nnodes = 1};
    int nth = 0;
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        problem.kind = (*a)->kind;
        if (!peali_algo_fits(*a, &problem) || peal_comm_force(s->comm, (*a)->kind, (*a)->name) != PEAL_OK)
            continue;
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            deed d = {(*a)->kind, counts[k], PEAL_FLOAT, PEAL_SUM, (int)(k + 1) % s->n, k % 2 == 1, 4 * k, (uint32_t)k};
            if (nth++ % ONE_OF == 0)
                deed_check(s, &d);
        }
        SEAT_CHECK(s, peal_comm_force(s->comm, (*a)->kind, NULL) == PEAL_OK);
    }
}

static void every_type(seat *s)
{
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op <= PEAL_PREMUL_SUM; op++) {
            deed d = {PEAL_ALLREDUCE, 333, (peal_type)type, (peal_op)op, 0, op % 2 == 1, 0, 7};
            if ((type + op) % ONE_OF != 0 || !peal_op_takes(d.op, d.type) || !deed_on_gpus(d.type, d.op))
                continue;
            deed_check(s, &d);
            d.kind = PEAL_REDUCE_SCATTER;
            deed_check(s, &d);
        }
    for (int type = 0; type < PEAL_TYPE_COUNT; type++) {
        deed_check(s, &(deed){PEAL_ALLGATHER, 77, (peal_type)type, PEAL_SUM, 0, false, 0, 8});
        deed_check(s, &(deed){PEAL_BROADCAST, 77, (peal_type)type, PEAL_SUM, s->n - 1, false, 0, 9});
    }
}

/* What two ranks have has no order, so that it may be any bits: infinities, too small to be normal, no numbers. */
static void any_bits(seat *s)
{
    static const peal_type types[] = {PEAL_FP8_E4M3, PEAL_FP8_E5M2, PEAL_FP16, PEAL_BF16, PEAL_FLOAT, PEAL_DOUBLE};
    static const peal_op ops[] = {PEAL_SUM, PEAL_PROD, PEAL_MIN, PEAL_MAX, PEAL_AVG};
    static const size_t counts[] = {3000, 200000 / ONE_OF};
    for (size_t i = 0; i < 6 * 5 * 2; i++) {
        deed d = {.kind = PEAL_ALLREDUCE, .count = counts[i / 30], .type = types[i % 6], .op = ops[i / 6 % 5], .seed = DEED_ANY};
        if (peal_op_takes(d.op, d.type) && deed_on_gpus(d.type, d.op))
            deed_check(s, &d);
    }
}

static void what_gpus_lack(seat *s)
{
    void *at = seat_alloc(s, 64);
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_LONG_DOUBLE, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_COMPLEX_FLOAT, PEAL_PROD, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED);
    deed_check(s, &(deed){PEAL_ALLREDUCE, 10, PEAL_INT32, PEAL_SUM, 0, false, 0, 1});
    seat_free(s, at);
}

static deed random_deed(unsigned *seed, int n)
{
    unsigned r[8];
    for (int k = 0; k < 8; k++)
        r[k] = value_random((*seed)++ * 2654435761u);
    deed d = deed_draw(r, n);
    d.count = r[6] % (1u << r[7] % 17);
    d.shift = peal_type_bytes(d.type) * (r[7] >> 8 & 3) % DEED_EDGE;
    return d;
}

static void random_ones(seat *s)
{
    unsigned seed = random_seed * 100003u;
    for (int k = 0; k < random_calls; k++) {
        deed d = random_deed(&seed, s->n);
        deed_check(s, &d);
    }
}

/*
 * A few packs in two steps, by slots or (direct) behind a vote that some take for no: on H200 slots gave old contents here as warps
 * met that had not come together.
 */
static void few_packs(seat *s)
{
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, "two_shot") == PEAL_OK);
    for (uint32_t k = 0; k < (uint32_t)random_calls; k++) {
        deed d = {PEAL_ALLREDUCE, 1 + k % 23, k % 3 ? PEAL_INT32 : PEAL_FP16, PEAL_SUM, 0, k % 5 == 0, k % 4 * 4, k};
        deed_check(s, &d);
    }
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, NULL) == PEAL_OK);
}

static void counters_meet(seat *s)
{
    long *at = seat_alloc(s, sizeof *at);
    for (int k = 0; k < 20; k++) {
        SEAT_CHECK(s, peal_barrier(s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT64, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        peal_request *request;
        SEAT_CHECK(s, peal_ibarrier(s->comm, s->stream, &request) == PEAL_OK && peal_wait(&request) == PEAL_OK);
    }
    seat_sync(s);
    seat_free(s, at);
}

/* Do ranks share a legacy default stream? Those of one process on one device do, and there none ends before the next can begin. */
static bool shares_legacy(const seat *s)
{
#ifdef TEST_MPI
    return false;
#else
    return s->n > devices_here();
#endif
}

/* The legacy default stream; the host is told apart by where buffers are. */
static void without_a_stream(seat *s)
{
    if (shares_legacy(s))
        return;
    int32_t mine = s->rank + 1, sum = 0, want = s->n * (s->n + 1) / 2;
    int32_t *at = seat_alloc(s, sizeof *at);
    seat_copy(s, at, &mine, sizeof mine);
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    seat_must(s->cu->StreamSynchronize(NULL), "cuStreamSynchronize");
    seat_copy(s, &sum, at, sizeof sum);
    SEAT_CHECK(s, sum == want);
    SEAT_CHECK(s, peal_allreduce(&mine, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK && sum == want);
    int32_t *to = s->rank == 0 ? &sum : at; /* which elsewhere than at the root says nothing */
    SEAT_CHECK(s, peal_reduce(&mine, to, 1, PEAL_INT32, PEAL_MAX, 0, s->comm, NULL) == PEAL_OK);
    SEAT_CHECK(s, sum == (s->rank == 0 ? s->n : want));
    int32_t *none = s->rank == 0 ? NULL : at; /* nothing is of no kind of memory */
    SEAT_CHECK(s, peal_allreduce(none, none, 0, PEAL_INT32, PEAL_SUM, s->comm, s->rank == 1 ? s->stream : NULL) == PEAL_OK);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_free(s, at);
}

/* A thread that never touched CUDA: its default stream is that of the communicator's device. */
static void without_a_context(seat *s)
{
    if (shares_legacy(s))
        return;
    int32_t sum = 0, *at = seat_alloc(s, sizeof *at);
    peali_cu_ctx context;
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    seat_must(s->cu->StreamSynchronize(NULL), "cuStreamSynchronize");
    sum = s->rank + 1;
    seat_copy(s, at, &sum, sizeof sum);
    seat_must(s->cu->CtxGetCurrent(&context), "cuCtxGetCurrent");
    seat_must(cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    seat_must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    seat_must(s->cu->StreamSynchronize(NULL), "cuStreamSynchronize");
    seat_copy(s, &sum, at, sizeof sum);
    SEAT_CHECK(s, sum == s->n * (s->n + 1) / 2);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
    seat_free(s, at);
}

static const series links = {256, 3, 1};

static void first_in_global(seat *s)
{
    series_replay(s, &links, PEALI_CU_CAPTURE_GLOBAL, replays);
}

static void first_in_thread(seat *s)
{
    series_replay(s, &links, PEALI_CU_CAPTURE_THREAD, replays);
}

static void first_in_relaxed(seat *s)
{
    series_replay(s, &links, PEALI_CU_CAPTURE_RELAXED, replays);
}

static void fewer_ctas(seat *s)
{
    SEAT_CHECK(s, peal_comm_max_ctas(s->comm, 129) == PEAL_ERR_INVALID);
    for (int ctas = 0; ctas < 4; ctas++) {
        SEAT_CHECK(s, peal_comm_max_ctas(s->comm, ctas) == PEAL_OK);
        deed_check(s, &(deed){PEAL_ALLREDUCE, 30000, PEAL_FLOAT, PEAL_SUM, 0, false, 0, 3});
        deed_check(s, &(deed){PEAL_ALLGATHER, 10000, PEAL_DOUBLE, PEAL_SUM, 0, false, 0, 4});
    }
}

#ifndef TEST_MPI
static void two_communicators(seat *s)
{
    series_on_two(s, &links, 25);
}

static void test_two_communicators(void **state)
{
    for (int n = 2; n <= MOST; n += 2) {
        peal_threads *threads;
        assert_int_equal(peal_threads_create(n, &threads), PEAL_OK);
        assert_int_equal(seats_run(n, two_communicators, threads), 0);
        peal_threads_destroy(&threads);
    }
}
#endif

/* Processes of mpirun take longer to meet. */
static void on_all(seat_body *body)
{
#ifdef TEST_MPI
    for (int n = 2; n <= MOST; n += 2)
#else
    for (int n = 2; n <= MOST; n++)
#endif
        assert_int_equal(seats_run(n, body, NULL), 0);
}

#define TEST(name)                                                                                                                \
    static void test_##name(void **state)                                                                                         \
    {                                                                                                                             \
        on_all(name);                                                                                                             \
    }
TEST(every_algorithm)
TEST(random_ones)
TEST(few_packs)
TEST(counters_meet)
TEST(without_a_stream)
TEST(without_a_context)
TEST(first_in_global)
TEST(first_in_thread)
TEST(first_in_relaxed)
TEST(fewer_ctas)

static void test_every_type(void **state)
{
    assert_int_equal(seats_run(3, every_type, NULL), 0);
    assert_int_equal(seats_run(2, any_bits, NULL), 0);
    assert_int_equal(seats_run(2, what_gpus_lack, NULL), 0);
}

static void test_one_device(void **state)
{
    for (int n = 1; n <= 3; n++)
        assert_int_equal(seats_run_on(n, 1, random_ones, NULL), 0);
    assert_int_equal(seats_run_on(3, 1, few_packs, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm), cmocka_unit_test(test_every_type), cmocka_unit_test(test_random_ones),
        cmocka_unit_test(test_few_packs), cmocka_unit_test(test_counters_meet),
        cmocka_unit_test(test_without_a_stream), cmocka_unit_test(test_without_a_context),
        cmocka_unit_test(test_first_in_global), cmocka_unit_test(test_first_in_thread), cmocka_unit_test(test_first_in_relaxed),
        cmocka_unit_test(test_fewer_ctas), cmocka_unit_test(test_one_device),
#ifndef TEST_MPI
        cmocka_unit_test(test_two_communicators),
#endif
    };
    if (argc > 1)
        random_seed = (unsigned)atoi(argv[1]);
    if (argc > 2)
        random_calls = atoi(argv[2]);
    if (argc > 3)
        replays = atoi(argv[3]);
    setenv("FAKE_CUDA_DEVICES", "4", 0);
#ifdef TEST_MPI
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("device_mpi", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
#else
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
#endif
}
