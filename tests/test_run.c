/*
 * The whole way of a call over threads: right sums for every algorithm, the same bits on all ranks, no allocation after planning.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "log_lines.h"
#include "net/net_fault.h"
#include "sched/sched.h"
#include "team.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ONE_OF = 8 }; /* each size has one variant of four, in every other number of ranks */
#else
enum { ONE_OF = 1 };
#endif
enum { MOST = 8, ROOM = 40000 };

typedef struct scene {
    int n;
    const peal_algo *algo;
    peal_type type;
    size_t count;
    int in_place;
    int wrong[MOST], through;
    unsigned char *out[MOST];
} scene;

static char log_path[64];

static int logged(const char *text)
{
    return log_lines(log_path, text) > 0;
}

static int64_t share(int rank, size_t i)
{
    return (int64_t)(i * 31 + (size_t)rank * 17) % 23 - 11;
}

static void fill(const scene *s, int rank, void *buf)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->type == PEAL_INT32)
            ((int32_t *)buf)[i] = (int32_t)share(rank, i);
        else
            ((double *)buf)[i] = (double)share(rank, i) * 0.1; /* not exact: order shows in the bits */
}

static int right(const scene *s, const void *buf)
{
    for (size_t i = 0; i < s->count; i++) {
        int64_t want = 0;
        for (int r = 0; r < s->n; r++)
            want += share(r, i);
        double got = s->type == PEAL_INT32 ? (double)((const int32_t *)buf)[i] : ((const double *)buf)[i] * 10;
        if (got - (double)want > 1e-9 || (double)want - got > 1e-9)
            return 0;
    }
    return 1;
}

static void sum(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    size_t bytes = s->count * peal_type_bytes(s->type);
    unsigned char *in = malloc(bytes + 1), *out = s->out[rank];
    fill(s, rank, s->in_place ? out : in);
    s->wrong[rank] = peal_comm_force(comm, PEAL_ALLREDUCE, s->algo->name) != PEAL_OK ||
                     peal_allreduce(s->in_place ? out : in, out, s->count, s->type, PEAL_SUM, comm, NULL) != PEAL_OK ||
                     !right(s, out);
    free(in);
}

static void play(scene *s)
{
    size_t bytes = s->count * peal_type_bytes(s->type);
    for (int r = 0; r < s->n; r++)
        s->out[r] = malloc(bytes + 1);
    assert_int_equal(team_run((unsigned)s->n, sum, s), PEAL_OK);
    for (int r = 0; r < s->n; r++) {
        if (s->wrong[r])
            fail_msg("%s, %d ranks, count %zu, rank %d is wrong", s->algo->name, s->n, s->count, r);
        assert_memory_equal(s->out[r], s->out[0], bytes);
    }
    for (int r = 0; r < s->n; r++)
        free(s->out[r]);
}

static void test_sums(void **state)
{
    static const size_t counts[] = {1, 2, 3, 7, 64, 1000, ROOM};
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int n = 1; n <= MOST; n++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (int variant = 0; variant < 4; variant++) {
                    scene s = {.n = n, .algo = *a, .count = counts[c], .in_place = variant & 1};
                    s.type = variant & 2 ? PEAL_DOUBLE : PEAL_INT32;
                    peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = 1};
                    bool due = ((size_t)variant + (size_t)n + c) % ONE_OF == 0;
                    if (due && (*a)->kind == PEAL_ALLREDUCE && peali_algo_fits(*a, &problem))
                        play(&s);
                }
}

/* Many calls of many sizes in a row, without a barrier, so that ranks run ahead of each other. */
static void calls_in_a_row(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    static const size_t counts[] = {5, 3000, 1, 40000, 17};
    double *buf = malloc(40000 * sizeof *buf);
    for (int k = 0; k < 200; k++) {
        scene now = *s;
        now.count = counts[k % 5];
        fill(&now, rank, buf);
        if (peal_allreduce(buf, buf, now.count, PEAL_DOUBLE, PEAL_SUM, comm, NULL) != PEAL_OK || !right(&now, buf))
            s->wrong[rank]++;
    }
    free(buf);
}

static void test_calls_in_a_row(void **state)
{
    scene s = {.n = 5, .type = PEAL_DOUBLE};
    assert_int_equal(team_run((unsigned)s.n, calls_in_a_row, &s), PEAL_OK);
    for (int r = 0; r < s.n; r++)
        assert_int_equal(s.wrong[r], 0);
}

/* Of those behind it in a chain a rank waits for the next one alone; where it waited for all, the root would end after the last. */
static void give_on(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    int32_t *buf = malloc(ROOM * sizeof *buf);
    fill(s, 0, memset(buf, 0, ROOM * sizeof *buf));
    int64_t end_ns = peali_clock_ns() + 10 * (int64_t)1000000000;
    while (rank == s->n - 1 && !peali_load_acquire(&s->through) && peali_clock_ns() < end_ns) /* pairs with the root's store */
        peali_clock_yield();
    s->wrong[rank] = peali_clock_ns() >= end_ns;
    s->wrong[rank] |= peal_comm_force(comm, PEAL_BROADCAST, "chain") != PEAL_OK ||
                      peal_broadcast(buf, s->count, PEAL_INT32, 0, comm, NULL) != PEAL_OK;
    if (rank == 0)
        peali_store_release(&s->through, 1);
    free(buf);
}

static void test_a_rank_waits_for_its_readers(void **state)
{
    scene s = {.n = 6, .type = PEAL_INT32, .count = 12000};
    peali_layout layouts[6];
    for (int r = 0; r < s.n; r++)
        layouts[r] = (peali_layout){.push = true, .slices = 12, .window = 2};
    assert_int_equal(team_run_in((unsigned)s.n, layouts, give_on, &s), PEAL_OK);
    for (int r = 0; r < s.n; r++)
        assert_int_equal(s.wrong[r], 0);
}

static void plan_then_count(peal_comm *comm, int rank, void *ctx)
{
    long *allocated = ctx;
    double buf[3][512] = {{0}};
    for (int k = 0; k < 30; k++) {
        long before = peali_alloc_count();
        if (peal_allreduce(buf[k % 3], buf[k % 3], 64u << k % 3, PEAL_DOUBLE, PEAL_SUM, comm, NULL) != PEAL_OK)
            *allocated = -1;
        if (k >= 15 && rank == 0)
            *allocated += peali_alloc_count() - before;
    }
}

static void test_no_allocation_after_planning(void **state)
{
    long allocated = 0;
    assert_int_equal(team_run(3, plan_then_count, &allocated), PEAL_OK);
    assert_int_equal(allocated, 0);
}

/* The value of an integer that is small is its first byte. */
static bool sum_right(peal_comm *comm, int rank, peal_type type, peal_op op, size_t count)
{
    static const unsigned char results[] = {[PEAL_SUM] = 5, [PEAL_PROD] = 6, [PEAL_MAX] = 3, [PEAL_MIN] = 2};
    unsigned char in[40 * 8] = {0}, out[40 * 8];
    const size_t bytes = peal_type_bytes(type);
    for (size_t i = 0; i < count; i++)
        in[i * bytes] = (unsigned char)(2 + rank);
    memset(out, 0xff, sizeof out);
    bool right = peal_allreduce(in, out, count, type, op, comm, NULL) == PEAL_OK;
    for (size_t i = 0; i < sizeof out; i++)
        right &= out[i] == (i >= count * bytes ? 0xff : i % bytes ? 0 : results[op]);
    return right;
}

/* More than once, for a plan that is new is remembered beside no other. */
static void all_sorts(peal_comm *comm, int rank, void *ctx)
{
    static const peal_op ops[] = {PEAL_SUM, PEAL_PROD, PEAL_MAX, PEAL_MIN};
    bool right = true;
    for (int type = 0; type < 16; type++)
        right &= sum_right(comm, rank, (peal_type)(PEAL_INT8 + type % 8), PEAL_SUM, 1);
    for (int k = 0; k < 8; k++)
        right &= sum_right(comm, rank, PEAL_INT32, ops[k % 4], 1);
    for (size_t k = 0; k < 6; k++)
        right &= sum_right(comm, rank, PEAL_INT32, PEAL_SUM, 1 + k % 3 * 16);
    ((int *)ctx)[rank] = right;
}

/* What is remembered of a call is not taken for another one, whatever it has in common with it. */
static void test_calls_of_all_sorts(void **state)
{
    int right[2] = {0};
    assert_int_equal(team_run(2, all_sorts, right), PEAL_OK);
    assert_true(right[0] && right[1]);
}

/* Of nothing, buffers are not looked at. */
static void nothing_nowhere(peal_comm *comm, int rank, void *ctx)
{
    peal_status *got = ctx;
    got[rank] = peal_allreduce(NULL, NULL, 0, PEAL_FLOAT, PEAL_SUM, comm, NULL);
    if (got[rank] == PEAL_OK)
        got[rank] = peal_broadcast(NULL, 0, PEAL_FLOAT, 1, comm, NULL);
    if (got[rank] == PEAL_OK)
        got[rank] = peal_barrier(comm, NULL);
}

static void test_nothing_needs_no_buffers(void **state)
{
    peal_status got[2];
    assert_int_equal(team_run(2, nothing_nowhere, got), PEAL_OK);
    assert_int_equal(got[0], PEAL_OK);
    assert_int_equal(got[1], PEAL_OK);
}

static void refusals(peal_comm *comm, int rank, void *ctx)
{
    peal_status *got = ctx;
    float a[8] = {0}, b[8] = {0};
    if (rank > 0)
        return;
    got[0] = peal_allreduce(a, b, 8, (peal_type)99, PEAL_SUM, comm, NULL);
    got[1] = peal_allreduce(a, b, 8, PEAL_FLOAT, (peal_op)-1, comm, NULL);
    got[2] = peal_allreduce(a, b, 8, PEAL_FLOAT, PEAL_BAND, comm, NULL);
    got[3] = peal_allreduce(NULL, b, 8, PEAL_FLOAT, PEAL_SUM, comm, NULL);
    got[4] = peal_allreduce(a, a + 2, 4, PEAL_FLOAT, PEAL_SUM, comm, NULL);
    got[5] = peal_allreduce(a, b, SIZE_MAX / 2, PEAL_FLOAT, PEAL_SUM, comm, NULL);
    got[6] = peal_comm_force(comm, PEAL_ALLREDUCE, "wring");
    got[7] = peal_allreduce(a, b, 8, PEAL_FLOAT, PEAL_SUM, comm, a) == PEAL_ERR_UNSUPPORTED ? PEAL_ERR_INVALID : PEAL_OK;
    got[8] = peal_allreduce(a, b, 8, PEAL_FLOAT, PEAL_SUM, NULL, NULL);
    got[9] = peal_broadcast(NULL, 8, PEAL_FLOAT, 0, comm, NULL);
    got[10] = peal_comm_force(comm, (peal_kind)99, "ring");
    got[11] = peal_comm_force(NULL, PEAL_ALLREDUCE, "ring");
    got[12] = peal_comm_max_ctas(NULL, 1);
    got[13] = peal_comm_premul(NULL, a, PEAL_FLOAT);
    got[14] = peal_comm_premul(comm, a, (peal_type)99);
    got[15] = peal_comm_create_threads(NULL, 0, &comm);
    got[16] = peal_comm_choice(comm, PEAL_ALLGATHER, 8, PEAL_BYTE, PEAL_SUM) ? PEAL_ERR_INVALID : PEAL_OK; /* it has no op */
    got[17] = peal_broadcast(a, 8, PEAL_FLOAT, 2, comm, NULL);
    got[18] = peal_reduce(a, b, 8, PEAL_FLOAT, PEAL_SUM, -1, comm, NULL);
    got[19] = peal_allgather(a, b, PTRDIFF_MAX / sizeof *a - 1, PEAL_FLOAT, comm, NULL); /* for one rank there were room */
    got[20] = peal_allreduce(a, b, 8, PEAL_FLOAT, PEAL_PREMUL_SUM, comm, NULL);
    if (peal_comm_premul(comm, a, PEAL_FLOAT) == PEAL_OK) /* of floats, not of doubles */
        got[21] = peal_allreduce(a, b, 4, PEAL_DOUBLE, PEAL_PREMUL_SUM, comm, NULL);
    got[22] = peal_comm_force(comm, PEAL_KIND_COUNT, NULL);
    got[23] = peal_comm_max_ctas(comm, 129);
    got[24] = peal_comm_max_ctas(comm, -1);
    got[25] = peal_iallreduce(a, b, 8, PEAL_FLOAT, PEAL_SUM, comm, NULL, NULL);
    got[26] = peal_comm_error(NULL);
    got[27] = peal_threads_create(2, NULL);
    got[28] = peal_comm_rank(NULL) == -1 && peal_comm_size(NULL) == 0 && peal_comm_nodes(NULL) == 0 ? PEAL_ERR_INVALID : PEAL_OK;
    got[29] = strcmp(peal_comm_transport(NULL), "none") == 0 && peal_config_list(0, NULL) == 0 ? PEAL_ERR_INVALID : PEAL_OK;
    peal_comm_force_slice(NULL, 1);
    peal_comm_abort(NULL);
    peal_threads_destroy(NULL);
}

static void test_bad_arguments_are_refused(void **state)
{
    enum { N = 30 };
    static const char *const texts[] = {
        "rank 0: peal_broadcast number 7: buffer is NULL and count is 8",
        "rank 0: peal_comm_force: kind 99 is none of 0 to 5",
        "peal_comm_force: comm is NULL",
        "peal_comm_max_ctas: comm is NULL",
        "peal_comm_premul: comm is NULL",
        "peal_allreduce: comm is NULL",
        "peal_iallreduce: request is NULL",
        "peal_comm_error: comm is NULL",
        "peal_comm_rank: comm is NULL",
        "peal_comm_force_slice: comm is NULL",
        "peal_comm_abort: comm is NULL",
        "peal_threads_create: nranks 2, threads (nil)",
        "rank 0: peal_comm_premul: type 99 is none of 0 to 19",
        "peal_comm_create_threads: threads is NULL",
        "rank 0: peal_broadcast number 8: root 2 is none of the 2 ranks",
        "rank 0: peal_reduce number 9: root -1 is none of the 2 ranks",
        "rank 0: peal_allgather number 10: count 2305843009213693950 of type float is more than memory holds",
    };
    peal_status got[N] = {PEAL_OK};
    assert_int_equal(team_run(2, refusals, got), PEAL_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(got[i], PEAL_ERR_INVALID);
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        if (!logged(texts[k]))
            fail_msg("not logged: %s", texts[k]);
}

/* Elsewhere than at the root RECVBUF may be anything, a part of SENDBUF too. */
static void reduce_anywhere(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx;
    int32_t buf[3][8], out[8];
    peal_request *request;
    for (int k = 0; k < 3; k++) {
        void *recvbuf = rank == 1 ? (void *)out : k == 0 ? NULL : k == 1 ? (void *)(buf[k] + 3) : (void *)(uintptr_t)1;
        for (int i = 0; i < 8; i++)
            buf[k][i] = rank + i + k;
        wrong[rank] |= peal_reduce(buf[k], recvbuf, 8, PEAL_INT32, PEAL_SUM, 1, comm, NULL) != PEAL_OK;
        wrong[rank] |= peal_ireduce(buf[k], recvbuf, 8, PEAL_INT32, PEAL_SUM, 1, comm, NULL, &request) != PEAL_OK ||
                       peal_wait(&request) != PEAL_OK;
        for (int i = 0; i < 8; i++)
            wrong[rank] |= buf[k][i] != rank + i + k || (rank == 1 && out[i] != 3 * (i + k) + 3);
    }
}

static void test_reduce_looks_at_the_root_alone(void **state)
{
    int wrong[3] = {0};
    assert_int_equal(team_run(3, reduce_anywhere, wrong), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wrong[r], 0);
}

static void *abort_soon(void *comm)
{
    struct timespec ms = {0, 50 * 1000 * 1000};
    nanosleep(&ms, NULL);
    peal_comm_abort(comm);
    return NULL;
}

static void wait_alone(peal_comm *comm, int rank, void *ctx)
{
    int *x = ctx;
    pthread_t other;
    if (rank > 0)
        return;
    if (pthread_create(&other, NULL, abort_soon, comm) != 0)
        abort();
    x[0] = peal_allreduce(&x[2], &x[3], 1, PEAL_INT32, PEAL_SUM, comm, NULL);
    x[1] = peal_allreduce(&x[2], &x[3], 1, PEAL_INT32, PEAL_SUM, comm, NULL);
    pthread_join(other, NULL);
}

static void test_abort_ends_a_wait(void **state)
{
    int x[4] = {0};
    assert_int_equal(team_run(2, wait_alone, x), PEAL_OK);
    assert_int_equal(x[0], PEAL_ERR_ABORTED);
    assert_int_equal(x[1], PEAL_ERR_ABORTED);
}

static void send_aborted(peal_comm *comm, int rank, void *ctx)
{
    peal_status *got = ctx;
    int32_t x = 0;
    peal_request *request;
    if (rank > 0 || peal_ibroadcast(&x, 1, PEAL_INT32, 0, comm, NULL, &request) != PEAL_OK)
        return;
    peal_comm_abort(comm);
    *got = peal_wait(&request);
}

/* Though its root need not wait for anybody: by then its transport may be gone. */
static void test_abort_ends_a_call_at_once(void **state)
{
    peal_status got = PEAL_OK;
    assert_int_equal(team_run(2, send_aborted, &got), PEAL_OK);
    assert_int_equal(got, PEAL_ERR_ABORTED);
}

/* Calls until one fails. */
static void until_one_fails(peal_comm *comm, int rank, void *ctx)
{
    peal_status *got = ctx;
    int32_t *buf = calloc(3000, sizeof *buf);
    while (got[rank] == PEAL_OK)
        got[rank] = peal_allreduce(buf, buf, 3000, PEAL_INT32, PEAL_SUM, comm, NULL);
    free(buf);
}

/*
 * A rank whose transport fails once tells the others, who would wait for it until the deadline. No rank is late for so long that it
 * is asked where it is: a failure of that word is none of the call's, which then goes on, and the failure is spent.
 */
static void test_failure_is_told(void **state)
{
    enum { N = 4, PARLEY_MS = 200 };
    static const char *const nodes[] = {NULL, "2+2"};
    for (int k = 0; k < 2; k++)
        for (int at = 1; at < 40; at += 13) {
            peali_layout layouts[N];
            peali_fault fault = {.fail_at = at};
            peal_status got[N] = {PEAL_OK};
            for (int r = 0; r < N; r++)
                layouts[r] = (peali_layout){.apart = !nodes[k], .nodes = nodes[k], .parley_ms = PARLEY_MS};
            layouts[1].fault = &fault;
            alarm(60);
            assert_int_equal(team_run_in(N, layouts, until_one_fails, got), PEAL_OK);
            alarm(0);
            for (int r = 0; r < N; r++)
                assert_int_equal(got[r], PEAL_ERR_NET);
        }
    assert_true(logged("rank 0: rank 1 made allreduce number"));
}

int main(void)
{
    snprintf(log_path, sizeof log_path, "run.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_calls_in_a_row),
        cmocka_unit_test(test_a_rank_waits_for_its_readers),
        cmocka_unit_test(test_no_allocation_after_planning),
        cmocka_unit_test(test_calls_of_all_sorts),
        cmocka_unit_test(test_nothing_needs_no_buffers),
        cmocka_unit_test(test_bad_arguments_are_refused),
        cmocka_unit_test(test_reduce_looks_at_the_root_alone),
        cmocka_unit_test(test_abort_ends_a_wait),
        cmocka_unit_test(test_abort_ends_a_call_at_once),
        cmocka_unit_test(test_failure_is_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
