/*
 * A rank that left a call on trust, and goes on or does nothing for long: what it shows of its last calls names the one that was
 * wrong; where it shows nothing, its next call does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "log_lines.h"
#include "team.h"

enum { PARLEY_MS = 100, MOST = 4, AHEAD = 3 }; /* landing areas let a root be so many calls ahead of the wrong one */

struct play {
    pthread_barrier_t all;
    int ahead;
    peal_status wrong[MOST], next[MOST];
};

static char log_path[64];

static peal_status give(peal_comm *comm, peal_type type)
{
    float here = 1;
    return peal_broadcast(&here, 1, type, 0, comm, NULL);
}

/* The root's wrong call, and those after it, need nobody; the others' comes then, and its next when they have failed. */
static void play(peal_comm *comm, int rank, void *ctx)
{
    struct play *p = ctx;
    double sum = 0, one = 1;
    peal_status status = peal_allreduce(&one, &sum, 1, PEAL_DOUBLE, PEAL_SUM, comm, NULL);
    for (int k = 0; k <= p->ahead && rank == 0 && status == PEAL_OK; k++)
        status = give(comm, PEAL_FLOAT);
    pthread_barrier_wait(&p->all);
    p->wrong[rank] = rank == 0 || status != PEAL_OK ? status : give(comm, PEAL_INT32);
    pthread_barrier_wait(&p->all);
    p->next[rank] = give(comm, PEAL_FLOAT);
    pthread_barrier_wait(&p->all);
}

static void test_a_rank_that_is_away_need_not_say_what_it_called(void **state)
{
    int named = 0;
    for (int n = 2; n <= MOST; n++)
        for (int ahead = 0; ahead <= AHEAD; ahead++) {
            struct play p = {.ahead = ahead};
            peali_layout layouts[MOST];
            for (int r = 0; r < n; r++)
                layouts[r] = (peali_layout){.push = true, .parley_ms = PARLEY_MS};
            assert_int_equal(pthread_barrier_init(&p.all, NULL, (unsigned)n), 0);
            assert_int_equal(team_run_in((unsigned)n, layouts, play, &p), PEAL_OK);
            pthread_barrier_destroy(&p.all);
            assert_int_equal(p.wrong[0], PEAL_OK);
            for (int r = 0; r < n; r++) {
                assert_int_equal(r > 0 ? p.wrong[r] : p.next[0], PEAL_ERR_MISMATCH);
                named++;
            }
            assert_int_equal(log_lines(log_path, "broadcast number 1: count 1, type float, root 0; rank") +
                             log_lines(log_path, "broadcast number 1: count 1, type int32, root 0; rank"), named);
            assert_int_equal(log_lines(log_path, "does not say which"), 0);
        }
}

/* The calls that differ are empty, so that only the history of the next one tells; its root is away for long after it. */
static void play_empty(peal_comm *comm, int rank, void *ctx)
{
    struct play *p = ctx;
    double none = 0;
    peal_status status = rank == 0 ? peal_broadcast(&none, 0, PEAL_FLOAT, 0, comm, NULL)
                                   : peal_allreduce(&none, &none, 0, PEAL_DOUBLE, PEAL_SUM, comm, NULL);
    p->wrong[rank] = status == PEAL_OK ? give(comm, PEAL_FLOAT) : status;
    if (rank == 0)
        peali_clock_sleep(5 * PARLEY_MS * (int64_t)1000000);
    p->next[rank] = give(comm, PEAL_FLOAT);
    pthread_barrier_wait(&p->all);
}

static void test_a_rank_that_comes_back_late_names_the_call(void **state)
{
    peali_layout layout = {.apart = true, .parley_ms = PARLEY_MS}, layouts[2] = {layout, layout};
    struct play p = {0};
    assert_int_equal(pthread_barrier_init(&p.all, NULL, 2), 0);
    assert_int_equal(team_run_in(2, layouts, play_empty, &p), PEAL_OK);
    pthread_barrier_destroy(&p.all);
    assert_int_equal(p.wrong[0], PEAL_OK);
    assert_int_equal(p.next[0], PEAL_ERR_MISMATCH);
    assert_int_equal(p.wrong[1], PEAL_ERR_MISMATCH);
    assert_int_equal(log_lines(log_path, "rank 1 called allreduce number 0: count 0, type double, op sum"), 2);
    assert_int_equal(log_lines(log_path, "rank 0 called broadcast number 0: count 0, type float, root 0"), 2);
}

int main(void)
{
    snprintf(log_path, sizeof log_path, "shown.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_rank_that_is_away_need_not_say_what_it_called),
                                       cmocka_unit_test(test_a_rank_that_comes_back_late_names_the_call)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
