/*
 * Allreduces by copy engines (PEAL_PROTO=engines) give the bits that they give on host memory: every type and operation, odd counts
 * and addresses, in place and not, eager and by graphs, beside other calls and captures. The argument is how often graphs are
 * replayed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cuda/device_check.h"
#include "cuda/device_series.h"

enum { MOST = 4, AREA = 24 << 10 };

static int replays = 10;

/* ASan gets one call of several; TIMES is at least once of each kind. */
#if defined(__SANITIZE_ADDRESS__)
enum { ONE_OF = 4, TIMES = PEAL_KIND_COUNT };
#else
enum { ONE_OF = 1, TIMES = 10 };
#endif

static void every_type(seat *s)
{
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op <= PEAL_PREMUL_SUM; op++) {
            deed d = {PEAL_ALLREDUCE, 2222, (peal_type)type, (peal_op)op, 0, op % 2 == 1, 0, 7};
            if ((type + op) % ONE_OF == 0 && peal_op_takes(d.op, d.type) && deed_on_gpus(d.type, d.op))
                deed_check(s, &d);
        }
}

/* Nothing for some ranks, one chunk, several; ends within a pack; at addresses of any alignment. */
static void every_size(seat *s)
{
    static const size_t counts[] = {0, 1, 3, 31, 33, 127, 1000, 3071, 3072, 3073, 9001, 20003};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (unsigned way = k % ONE_OF; way < 4; way += ONE_OF) {
            const bool bytes = (way + k) & 1;
            const size_t shift = way < 2 ? 0 : bytes ? k % 16 : 4 * (1 + k % 5);
            deed_check(s, &(deed){PEAL_ALLREDUCE, counts[k], bytes ? PEAL_UINT8 : PEAL_FLOAT, bytes ? PEAL_MAX : PEAL_SUM, 0,
                                  way / 2 == k / 2 % 2, shift, way});
        }
}

/* In between, calls of other kinds, which go as they did. */
static void beside_others(seat *s)
{
    for (uint32_t k = 0; k < TIMES; k++) {
        deed_check(s, &(deed){PEAL_ALLREDUCE, 5000, PEAL_INT32, PEAL_SUM, 0, k & 1, 0, k});
        deed_check(s, &(deed){(peal_kind)(k % PEAL_KIND_COUNT), 700, PEAL_FLOAT, PEAL_SUM, (int)k % s->n, k & 1, 0, k});
    }
}

/* Several chunks. */
static const series links = {9001, 2, SEAT_MANY};

static void first_in_global(seat *s)
{
    series_replay(s, &links, PEALI_CU_CAPTURE_GLOBAL, replays);
}

static void first_in_thread(seat *s)
{
    series_replay(s, &links, PEALI_CU_CAPTURE_THREAD, replays);
}

#ifndef TEST_MPI
static void two_communicators(seat *s)
{
    series_on_two(s, &links, TIMES);
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

static void test_every_type(void **state)
{
    assert_int_equal(seats_run(3, every_type, NULL), 0);
}

#define TEST(name)                                                                                                                \
    static void test_##name(void **state)                                                                                         \
    {                                                                                                                             \
        on_all(name);                                                                                                             \
    }
TEST(every_size)
TEST(beside_others)
TEST(first_in_global)
TEST(first_in_thread)

#ifndef TEST_MPI
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type), cmocka_unit_test(test_every_size), cmocka_unit_test(test_beside_others),
        cmocka_unit_test(test_first_in_global), cmocka_unit_test(test_first_in_thread),
#ifndef TEST_MPI
        cmocka_unit_test(test_two_communicators),
#endif
    };
    char area[32];
    if (argc > 1)
        replays = atoi(argv[1]);
    snprintf(area, sizeof area, "%d", AREA);
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    setenv("PEAL_PROTO", "engines", 0);
    setenv("PEAL_ENGINES", area, 0);
#ifdef TEST_MPI
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("device_engines_mpi", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
#else
    return cmocka_run_group_tests_name("device_engines", tests, NULL, NULL);
#endif
}
