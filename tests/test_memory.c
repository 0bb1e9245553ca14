/*
 * No memory: each allocation of making a communicator and of its first calls fails once. All ranks hear of a communicator that
 * cannot be; a call that cannot be leaves the communicator as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "log_lines.h"
#include "lower/lower.h"
#include "sched/tuning.h"
#include "team.h"

enum { RANKS = 3, MOST = 20000 };

typedef struct scene {
    peal_comm *comms[RANKS];
    pthread_barrier_t made, over;
    int wrong, ends; /* bits: how calls ended */
} scene;

static char log_path[64];

static const size_t counts[] = {1, 500, MOST, 500, 1};

/* Sums that no rank has memory for end on the others, too. */
static void call(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    int32_t *buf = malloc(MOST * sizeof *buf);
    s->comms[rank] = comm;
    pthread_barrier_wait(&s->made);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        for (size_t i = 0; i < counts[k]; i++)
            buf[i] = (int32_t)i + rank;
        peal_status status = peal_allreduce(buf, buf, counts[k], PEAL_INT32, PEAL_SUM, comm, NULL);
        for (int r = 0; r < RANKS && status == PEAL_ERR_MEMORY; r++)
            peal_comm_abort(s->comms[r]);
        int wrong = 0;
        __atomic_fetch_or(&s->ends, 1 << -status, __ATOMIC_RELAXED);
        for (size_t i = 0; i < counts[k] && status == PEAL_OK; i++)
            wrong |= buf[i] != RANKS * (int32_t)i + RANKS * (RANKS - 1) / 2;
        __atomic_fetch_or(&s->wrong, wrong, __ATOMIC_RELAXED);
        if (status != PEAL_OK)
            break;
    }
    pthread_barrier_wait(&s->over);
    free(buf);
}

/* True where there were not as many allocations. */
static bool survives(const peali_layout *layouts, long at)
{
    scene s = {.wrong = 0};
    pthread_barrier_init(&s.made, NULL, RANKS);
    pthread_barrier_init(&s.over, NULL, RANKS);
    long before = peali_alloc_count();
    peali_alloc_fail_at(at);
    peal_status status = team_run_in(RANKS, layouts, call, &s);
    peali_alloc_fail_at(0);
    pthread_barrier_destroy(&s.made);
    pthread_barrier_destroy(&s.over);
    if (status != PEAL_OK && status != PEAL_ERR_MEMORY)
        fail_msg("allocation %ld fails: %s", at, peal_status_text(status));
    int fine = 1 << -PEAL_OK | 1 << -PEAL_ERR_MEMORY | 1 << -PEAL_ERR_ABORTED;
    if (s.ends >> -PEAL_ERR_MEMORY & 1)
        fine |= 1 << -PEAL_ERR_MISMATCH; /* heard of before the abort */
    if (s.wrong || (s.ends & ~fine))
        fail_msg("allocation %ld fails: a call is wrong", at);
    return peali_alloc_count() - before < at;
}

static void each_fails(const peali_layout *like)
{
    peali_layout layouts[RANKS] = {*like, *like, *like};
    long at = 1;
    assert_non_null(peali_tuning_get()); /* once in a process */
    while (!survives(layouts, at))
        at++;
    printf("%ld allocations\n", at - 1);
    assert_true(at > 50);
}

static void test_shared(void **state)
{
    each_fails(&(peali_layout){.parley_ms = 10});
}

static void test_apart(void **state)
{
    each_fails(&(peali_layout){.apart = true, .slices = 3, .parley_ms = 10});
}

static void test_nodes(void **state)
{
    each_fails(&(peali_layout){.nodes = "2+1", .parley_ms = 10});
}

/* Each allocation of lowering fails once, wherever it is. */
static void test_lowering(void **state)
{
    enum { N = 13 };
    static const int node[N] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t ranks[N] = {5, 6, 7, 8, 9, 10, 11, 12};
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int mode = 0; mode < PEALI_MODES; mode++) {
            const peal_problem problem = {.kind = (*a)->kind, .nranks = N, .nnodes = 2, .node = node};
            const peali_reach reach = {8, ranks, (peali_mode)mode};
            peali_program *programs[8];
            peal_status status = peali_algo_fits(*a, &problem) ? PEAL_ERR_MEMORY : PEAL_OK;
            for (long at = 1; status != PEAL_OK; at++) {
                long before = peali_alloc_count();
                peali_alloc_fail_at(at);
                status = peali_lower_all(*a, &problem, &reach, programs);
                peali_alloc_fail_at(0);
                assert_int_equal(status, peali_alloc_count() - before < at ? PEAL_OK : PEAL_ERR_MEMORY);
                for (int x = 0; x < 8; x++)
                    peali_program_free(&programs[x]);
            }
        }
}

/* What was called before can be called again, and in the end the call, too. */
static void test_call_leaves_the_communicator(void **state)
{
    peal_threads *threads;
    peal_comm *comm;
    int32_t *in = calloc(MOST, sizeof *in), *out = calloc(MOST, sizeof *out);
    in[0] = 7;
    assert_non_null(peali_tuning_get());
    long at = 1;
    for (peal_status status = PEAL_ERR_MEMORY; status != PEAL_OK; at++) {
        assert_int_equal(peal_threads_create(1, &threads), PEAL_OK);
        assert_int_equal(peal_comm_create_threads(threads, 0, &comm), PEAL_OK);
        assert_int_equal(peal_comm_premul(comm, &(int32_t){3}, PEAL_INT32), PEAL_OK);
        assert_int_equal(peal_allreduce(in, out, 10, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
        peali_alloc_fail_at(at);
        status = peal_allreduce(in, out, MOST, PEAL_INT32, PEAL_PREMUL_SUM, comm, NULL);
        peali_alloc_fail_at(0);
        assert_true(status == PEAL_OK || status == PEAL_ERR_MEMORY);
        out[0] = 0;
        assert_int_equal(peal_allreduce(in, out, 10, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
        assert_int_equal(out[0], 7);
        assert_int_equal(peal_allreduce(in, out, MOST, PEAL_INT32, PEAL_PREMUL_SUM, comm, NULL), PEAL_OK);
        assert_int_equal(out[0], 21);
        peal_comm_destroy(&comm);
        peal_threads_destroy(&threads);
    }
    assert_true(at > 5);
    assert_int_equal(log_lines(log_path, "rank 0: peal_allreduce number 1: no memory"), at - 2);
    free(in);
    free(out);
}

/* A meeting place that is ended too early stays for the communicators that were made on it. */
static void test_place_of_others(void **state)
{
    peal_threads *threads;
    peal_comm *comms[2];
    int32_t in = 7, out = 0;
    assert_int_equal(peal_threads_create(1, &threads), PEAL_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(peal_comm_create_threads(threads, 0, &comms[i]), PEAL_OK);
    peal_threads_destroy(&threads);
    assert_null(threads);
    assert_int_equal(log_lines(log_path, "peal_threads_destroy: communicators that were made on it are not destroyed yet"), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(peal_allreduce(&in, &out, 1, PEAL_INT32, PEAL_SUM, comms[1], NULL), PEAL_OK);
        assert_int_equal(out, 7);
        peal_comm_destroy(&comms[i]);
    }
}

typedef struct pair {
    pthread_barrier_t begun, failed;
    peal_status got[2];
} pair;

/* Rank 1 is in the call already when rank 0 finds no memory for it. */
static void lack_alone(peal_comm *comm, int rank, void *ctx)
{
    pair *p = ctx;
    int32_t *buf = calloc(MOST, sizeof *buf);
    peal_request *request;
    p->got[rank] = peal_allreduce(buf, buf, 1, PEAL_INT32, PEAL_SUM, comm, NULL);
    if (rank == 1 && p->got[rank] == PEAL_OK)
        p->got[rank] = peal_iallreduce(buf, buf, MOST, PEAL_INT32, PEAL_SUM, comm, NULL, &request);
    pthread_barrier_wait(&p->begun);
    if (rank == 0) {
        peali_alloc_fail_at(1);
        p->got[rank] = peal_allreduce(buf, buf, MOST, PEAL_INT32, PEAL_SUM, comm, NULL);
        peali_alloc_fail_at(0);
    }
    pthread_barrier_wait(&p->failed);
    if (rank == 1 && p->got[rank] == PEAL_OK)
        p->got[rank] = peal_wait(&request);
    free(buf);
}

/* And sees it, where ranks see what others called, though rank 0 may never make another call. */
static void test_others_hear(void **state)
{
    const peali_layout layout = {.parley_ms = 10}, layouts[2] = {layout, layout};
    pair p;
    pthread_barrier_init(&p.begun, NULL, 2);
    pthread_barrier_init(&p.failed, NULL, 2);
    alarm(30);
    assert_int_equal(team_run_in(2, layouts, lack_alone, &p), PEAL_OK);
    alarm(0);
    pthread_barrier_destroy(&p.begun);
    pthread_barrier_destroy(&p.failed);
    assert_int_equal(p.got[0], PEAL_ERR_MEMORY);
    assert_int_equal(p.got[1], PEAL_ERR_MISMATCH);
    assert_int_equal(log_lines(log_path, "rank 0 called what was refused, number 1"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_leaves_the_communicator),
        cmocka_unit_test(test_place_of_others),
        cmocka_unit_test(test_others_hear),
        cmocka_unit_test(test_lowering),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_nodes),
    };
    snprintf(log_path, sizeof log_path, "memory.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
