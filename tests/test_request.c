/*
 * Requests: a thread drives all calls that it started, whichever it waits for, and no other thread does; a communicator that is
 * destroyed ends its call.
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

static char log_path[64];

static int logged(const char *text)
{
    return log_lines(log_path, text) > 0;
}

typedef struct waiter {
    peal_threads *threads;
    int rank, apart, wrong;
    struct late *late;
} waiter;

/* RANKS threads, each a rank of the same communicators, which run BODY on their part of W and find nothing wrong. */
static void play(int ranks, void *(*body)(void *), waiter *w)
{
    enum { MOST = 4 };
    pthread_t ids[MOST];
    peal_threads *threads;
    assert_true(ranks <= MOST);
    assert_int_equal(peal_threads_create(ranks, &threads), PEAL_OK);
    for (int r = 0; r < ranks; r++) {
        w[r].threads = threads;
        w[r].rank = r;
        assert_int_equal(pthread_create(&ids[r], NULL, body, &w[r]), 0);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(ids[r], NULL);
        assert_int_equal(w[r].wrong, 0);
    }
    peal_threads_destroy(&threads);
}

/* Two calls in flight on two communicators, waited for in opposite orders on the two ranks. */
static void *wait_crosswise(void *arg)
{
    waiter *w = arg;
    peal_comm *comm[2] = {NULL, NULL};
    static const size_t count = 50000;
    double *buf[2];
    peal_request *request[2];
    for (int k = 0; k < 2; k++) {
        buf[k] = malloc(count * sizeof **buf);
        for (size_t i = 0; i < count; i++)
            buf[k][i] = (double)i + w->rank + k;
        w->wrong |= peal_comm_create_threads(w->threads, w->rank, &comm[k]) != PEAL_OK;
    }
    for (int k = 0; k < 2; k++)
        w->wrong |= peal_iallreduce(buf[k], buf[k], count, PEAL_DOUBLE, PEAL_SUM, comm[k], NULL, &request[k]) != PEAL_OK;
    w->wrong |= peal_iallreduce(buf[0], buf[0], count, PEAL_DOUBLE, PEAL_SUM, comm[0], NULL, &request[0]) != PEAL_ERR_INVALID;
    w->wrong |= peal_comm_premul(comm[0], &buf[0][0], PEAL_DOUBLE) != PEAL_ERR_INVALID;
    peal_status status;
    while ((status = peal_test(&request[w->rank])) == PEAL_IN_PROGRESS)
        ;
    w->wrong |= status != PEAL_OK || peal_wait(&request[1 - w->rank]) != PEAL_OK || peal_wait(&request[0]) != PEAL_ERR_INVALID;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < count; i++)
            w->wrong |= buf[k][i] != 2 * (double)i + 1 + 2 * k;
        peal_comm_destroy(&comm[k]);
        free(buf[k]);
    }
    return NULL;
}

static void test_requests_are_driven_together(void **state)
{
    waiter w[2] = {{0}};
    play(2, wait_crosswise, w);
}

struct elsewhere {
    pthread_barrier_t over;
    int wrong[2];
};

static void *wait_elsewhere(void *request)
{
    peal_request *its = request;
    return peal_wait(&its) == PEAL_ERR_INVALID && its && peal_test(&its) == PEAL_ERR_INVALID && its ? request : NULL;
}

/* Only who started a call drives it: another thread that waited for it would do so for ever. */
static void wait_in_another_thread(peal_comm *comm, int rank, void *ctx)
{
    struct elsewhere *e = ctx;
    int32_t one = 1, sum = 0;
    peal_request *request;
    pthread_t other;
    void *refused = NULL;
    if (rank == 1)
        pthread_barrier_wait(&e->over);
    e->wrong[rank] |= peal_iallreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, NULL, &request) != PEAL_OK;
    if (rank == 0) {
        if (pthread_create(&other, NULL, wait_elsewhere, request) != 0)
            abort();
        pthread_join(other, &refused);
        e->wrong[rank] |= refused != request;
        pthread_barrier_wait(&e->over);
    }
    e->wrong[rank] |= peal_wait(&request) != PEAL_OK || sum != 2;
}

static void test_requests_are_of_a_thread(void **state)
{
    struct elsewhere e = {.wrong = {0}};
    pthread_barrier_init(&e.over, NULL, 2);
    alarm(30);
    assert_int_equal(team_run(2, wait_in_another_thread, &e), PEAL_OK);
    alarm(0);
    pthread_barrier_destroy(&e.over);
    assert_int_equal(e.wrong[0] | e.wrong[1], 0);
    assert_true(logged("rank 0: peal_wait: this thread did not start the call"));
}

static int gone;

/* Rank 0 ends its communicator with a call under way, and rank 1 then makes that call. */
static void *leave(void *arg)
{
    waiter *w = arg;
    enum { COUNT = 5000 };
    peal_comm *comm = NULL;
    peal_request *request;
    const peali_layout layout = {.apart = w->apart};
    int32_t *buf = calloc(COUNT, sizeof *buf);
    w->wrong |= peali_comm_create_threads(w->threads, w->rank, &layout, &comm) != PEAL_OK;
    while (w->rank == 1 && !__atomic_load_n(&gone, __ATOMIC_SEQ_CST))
        usleep(1000);
    w->wrong |= peal_iallreduce(buf, buf, COUNT, PEAL_INT32, PEAL_SUM, comm, NULL, &request) != PEAL_OK;
    w->wrong |= peal_test(&request) != PEAL_IN_PROGRESS;
    if (w->rank == 1) {
        usleep(20000);
        w->wrong |= peal_test(&request) != PEAL_IN_PROGRESS;
        peal_comm_abort(comm);
        w->wrong |= peal_wait(&request) != PEAL_ERR_ABORTED;
    }
    peal_comm_destroy(&comm);
    free(buf);
    __atomic_store_n(&gone, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void test_destroy_ends_a_call(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        waiter w[2] = {{.apart = apart}, {.apart = apart}};
        gone = 0;
        play(2, leave, w);
    }
    assert_true(logged("rank 0: peal_comm_destroy: allreduce number 0"));
}

enum { LATE_RANKS = 3 };

struct late {
    pthread_barrier_t all_wait, all_have;
    size_t count; /* of the calls that rank 0 makes */
};

static peal_status within(peal_request **request, double seconds)
{
    const int64_t until = peali_clock_ns() + (int64_t)(seconds * 1e9);
    peal_status status = peal_test(request);
    while (status == PEAL_IN_PROGRESS && peali_clock_ns() < until)
        status = peal_test(request);
    return status;
}

/* Rank 0 comes last to a call of the second communicator, while the others wait for what it started on the first. */
static void *come_last(void *arg)
{
    waiter *w = arg;
    struct late *l = w->late;
    peal_comm *comm[2] = {NULL, NULL};
    peal_request *first, *second;
    int32_t one = 1, sums[2] = {0};
    for (int k = 0; k < 2; k++)
        w->wrong |= peal_comm_create_threads(w->threads, w->rank, &comm[k]) != PEAL_OK;
    w->wrong |= peal_iallreduce(&one, &sums[0], 1, PEAL_INT32, PEAL_SUM, comm[0], NULL, &first) != PEAL_OK;
    if (w->rank > 0) {
        w->wrong |= peal_iallreduce(&one, &sums[1], l->count, PEAL_INT32, PEAL_SUM, comm[1], NULL, &second) != PEAL_OK;
        w->wrong |= peal_test(&first) != PEAL_IN_PROGRESS;
        pthread_barrier_wait(&l->all_wait);
        w->wrong |= peal_wait(&second) != PEAL_OK || within(&first, 10) != PEAL_OK;
        pthread_barrier_wait(&l->all_have);
    } else {
        pthread_barrier_wait(&l->all_wait);
        w->wrong |= peal_allreduce(&one, &sums[1], l->count, PEAL_INT32, PEAL_SUM, comm[1], NULL) != PEAL_OK;
        pthread_barrier_wait(&l->all_have);
        w->wrong |= peal_wait(&first) != PEAL_OK;
    }
    w->wrong |= sums[0] != LATE_RANKS || sums[1] != LATE_RANKS * (int)l->count;
    for (int k = 0; k < 2; k++)
        peal_comm_destroy(&comm[k]);
    return NULL;
}

/* One that finds all that it needs ends with its first step; one of nothing has no step at all. */
static void test_calls_that_end_at_once_drive_the_others(void **state)
{
    for (size_t count = 0; count < 2; count++) {
        struct late l = {.count = count};
        waiter w[LATE_RANKS] = {{.late = &l}, {.late = &l}, {.late = &l}};
        pthread_barrier_init(&l.all_wait, NULL, LATE_RANKS);
        pthread_barrier_init(&l.all_have, NULL, LATE_RANKS);
        play(LATE_RANKS, come_last, w);
        pthread_barrier_destroy(&l.all_wait);
        pthread_barrier_destroy(&l.all_have);
    }
}

int main(void)
{
    snprintf(log_path, sizeof log_path, "request.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_driven_together),
        cmocka_unit_test(test_calls_that_end_at_once_drive_the_others),
        cmocka_unit_test(test_requests_are_of_a_thread),
        cmocka_unit_test(test_destroy_ends_a_call),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
