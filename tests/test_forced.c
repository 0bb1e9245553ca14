/*
 * Ranks that force other algorithms or slices are told that their calls differ; those that force the same go on. A call that some
 * are still in when others quarrel over the next one ends well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "log_lines.h"
#include "team.h"

enum { RANKS = 3, COUNT = 1000 };

static char log_path[64];

typedef struct player {
    peal_threads *threads;
    int rank;
    const char *algo;
    size_t slice;
    peal_status got[2]; /* of a call that nothing was forced for, and of one behind that */
    int wrong;
} player;

static peal_status call(player *p, peal_comm *comm)
{
    int in[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++)
        in[i] = p->rank + 1;
    peal_status status = peal_allreduce(in, out, COUNT, PEAL_INT32, PEAL_SUM, comm, NULL);
    for (int i = 0; i < COUNT && status == PEAL_OK; i++)
        p->wrong += out[i] != 6;
    return status;
}

static void *play(void *arg)
{
    player *p = arg;
    peal_comm *comm;
    if (peal_comm_create_threads(p->threads, p->rank, &comm) != PEAL_OK)
        return NULL;
    p->got[0] = call(p, comm);
    if (p->algo && peal_comm_force(comm, PEAL_ALLREDUCE, p->algo) != PEAL_OK)
        p->wrong++;
    if (p->slice)
        peal_comm_force_slice(comm, p->slice);
    p->got[1] = call(p, comm);
    peal_comm_destroy(&comm);
    return p;
}

/* Rank 1 forces ALGO and SLICE, the others ring and 1 KiB. */
static void force(const char *algo, size_t slice, peal_status expected)
{
    player players[RANKS];
    pthread_t thread[RANKS];
    peal_threads *threads;
    assert_int_equal(peal_threads_create(RANKS, &threads), PEAL_OK);
    for (int r = 0; r < RANKS; r++) {
        players[r] = (player){.threads = threads, .rank = r, .algo = r == 1 ? algo : "ring", .slice = r == 1 ? slice : 1024};
        assert_int_equal(pthread_create(&thread[r], NULL, play, &players[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        void *came;
        assert_int_equal(pthread_join(thread[r], &came), 0);
        assert_ptr_equal(came, &players[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(players[r].got[0], PEAL_OK);
        assert_int_equal(players[r].got[1], expected);
        assert_int_equal(players[r].wrong, 0);
    }
    peal_threads_destroy(&threads);
}

static void test_forced(void **state)
{
    force("ring", 1024, PEAL_OK);
    force("recursive_doubling", 1024, PEAL_ERR_MISMATCH);
    force("ring", 128, PEAL_ERR_MISMATCH);
    force(NULL, 0, PEAL_ERR_MISMATCH);
}

/* Givers to rank 0, the last of which begins when the others have given up the call behind that. */
enum { GIVERS = 4, LAST = GIVERS - 1 };
typedef struct quarrel_scene {
    int given_up, wrong;
} quarrel_scene;

static void give_and_differ(peal_comm *comm, int rank, void *ctx)
{
    quarrel_scene *s = ctx;
    int in[COUNT], out[COUNT] = {0}, wrong = peal_comm_force(comm, PEAL_REDUCE, "direct") != PEAL_OK;
    for (int i = 0; i < COUNT; i++)
        in[i] = rank + 1;
    while (rank == LAST && peali_load_acquire(&s->given_up) < LAST - 1)
        peali_clock_sleep(1000000);
    wrong += peal_reduce(in, out, COUNT, PEAL_INT32, PEAL_SUM, 0, comm, NULL) != PEAL_OK;
    for (int i = 0; rank == 0 && i < COUNT; i++)
        wrong += out[i] != GIVERS * (GIVERS + 1) / 2;
    wrong += peal_comm_force(comm, PEAL_ALLREDUCE, rank == 1 ? "ring" : "recursive_doubling") != PEAL_OK;
    wrong += peal_allreduce(in, out, COUNT, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_ERR_MISMATCH;
    peali_add_relaxed(&s->wrong, wrong);
    peali_add_relaxed(&s->given_up, 1);
}

/* Two of five quarrel over call 1 while rank 2 is still in call 0, which rank 0 then aborts: that is what call 0 ends with. */
enum { TREE = 5 };

static void give_and_abort(peal_comm *comm, int rank, void *ctx)
{
    quarrel_scene *s = ctx;
    int in[TREE] = {0}, out[TREE], wrong = peal_comm_force(comm, PEAL_REDUCE, "binomial") != PEAL_OK;
    const bool leaf = rank == 1 || rank == 4;
    peal_request *request;
    while (rank == 3 && peali_load_acquire(&s->given_up) < 3)
        peali_clock_sleep(1000000);
    wrong += peal_ireduce(in, out, 1, PEAL_INT32, PEAL_SUM, 0, comm, NULL, &request) != PEAL_OK;
    while (rank == 0 && peali_load_acquire(&s->given_up) < 2)
        wrong += peal_test(&request) != PEAL_IN_PROGRESS;
    if (rank == 0)
        peal_comm_abort(comm);
    wrong += peal_wait(&request) != (leaf ? PEAL_OK : PEAL_ERR_ABORTED);
    if (leaf)
        wrong += peal_allreduce(in, out, (size_t)rank, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_ERR_MISMATCH;
    peali_add_relaxed(&s->wrong, wrong);
    peali_add_relaxed(&s->given_up, 1);
}

/* What differed is said at the end, though in the last call of rank 0 there was nothing to do. */
static void do_nothing(peal_comm *comm, int rank, void *ctx)
{
    quarrel_scene *s = ctx;
    int in[1] = {1}, out[1];
    peali_add_relaxed(&s->wrong, peal_allreduce(in, out, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK);
    peali_add_relaxed(&s->wrong, peal_allreduce(in, out, (size_t)rank, PEAL_INT32, PEAL_SUM, comm, NULL) !=
                                     (rank == 0 ? PEAL_OK : PEAL_ERR_MISMATCH));
    while (rank == 0 && !peali_load_acquire(&s->given_up))
        peali_clock_sleep(1000000);
    peali_add_relaxed(&s->given_up, 1);
}

static void test_aborted_earlier(void **state)
{
    quarrel_scene scene = {0};
    peali_layout layouts[TREE];
    for (int r = 0; r < TREE; r++)
        layouts[r] = (peali_layout){.parley_ms = 50};
    assert_int_equal(team_run_in(TREE, layouts, give_and_abort, &scene), PEAL_OK);
    assert_int_equal(scene.wrong, 0);
}

static void test_nothing_last(void **state)
{
    quarrel_scene scene = {0};
    peali_layout layouts[2] = {{.parley_ms = 50}, {.parley_ms = 50}};
    assert_int_equal(team_run_in(2, layouts, do_nothing, &scene), PEAL_OK);
    assert_int_equal(scene.wrong, 0);
    assert_int_equal(log_lines(log_path, "warn rank 0: calls differ: rank 1 called allreduce number 1: count 1,"), 1);
}

static void test_earlier_call(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        peali_layout layouts[GIVERS];
        for (int r = 0; r < GIVERS; r++)
            layouts[r] = (peali_layout){.apart = apart, .parley_ms = 50};
        quarrel_scene scene = {0};
        assert_int_equal(team_run_in(GIVERS, layouts, give_and_differ, &scene), PEAL_OK);
        assert_int_equal(scene.wrong, 0);
    }
}

int main(void)
{
    snprintf(log_path, sizeof log_path, "forced.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forced), cmocka_unit_test(test_earlier_call),
                                       cmocka_unit_test(test_aborted_earlier), cmocka_unit_test(test_nothing_last)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
