/*
 * A child of a rank has no part in its communicators: what it calls there is refused, by name, and disturbs no call that is under
 * way. It may have communicators of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/reach.h"
#include "team.h"

static pthread_barrier_t child_has_ended;
static char said[4096]; /* by the child */
static int ended;       /* as it did */
static int wrong[2];    /* by rank */

static bool works_alone(void)
{
    peal_threads *threads;
    peal_comm *comm;
    int in = 7, out = 0;
    if (peal_threads_create(1, &threads) != PEAL_OK || peal_comm_create_threads(threads, 0, &comm) != PEAL_OK ||
        peal_allreduce(&in, &out, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK)
        return false;
    peal_comm_destroy(&comm);
    peal_threads_destroy(&threads);
    return out == 7;
}

/* 0, or the number of what was not as it should be. */
static int child(peal_comm *comm, peal_request *started)
{
    peal_request *request = NULL;
    int in = 5, out = 0;
    if (peal_allreduce(&in, &out, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_ERR_UNSUPPORTED || out != 0)
        return 1;
    if (peal_ibroadcast(&in, 1, PEAL_INT32, 0, comm, NULL, &request) != PEAL_ERR_UNSUPPORTED || request)
        return 2;
    if (peal_barrier(comm, NULL) != PEAL_ERR_UNSUPPORTED)
        return 3;
    if (peal_test(&started) != PEAL_ERR_UNSUPPORTED || peal_wait(&started) != PEAL_ERR_UNSUPPORTED)
        return 4;
    if (!works_alone())
        return 5;
    peal_comm_destroy(&comm);
    return comm ? 6 : 0;
}

/* Forks, and waits until the child has ended. */
static void have_child(peal_comm *comm, peal_request *started)
{
    int out[2];
    pid_t pid = pipe(out) == 0 ? fork() : -1;
    if (pid < 0)
        abort();
    if (pid == 0) {
        dup2(out[1], 2);
        _exit(child(comm, started));
    }
    close(out[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < sizeof said - 1; n += got > 0 ? (size_t)got : 0)
        got = read(out[0], said + n, sizeof said - 1 - n);
    close(out[0]);
    if (waitpid(pid, &ended, 0) != pid)
        abort();
}

/* Rank 0 has a child while its call, the second one, waits for rank 1. */
static void two_calls(peal_comm *comm, int rank, void *ctx)
{
    int in[2] = {rank + 1, 10}, out[2] = {0};
    peal_request *request;
    wrong[rank] = peal_allreduce(in, out, 2, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK || out[0] != 3 || out[1] != 20;
    if (rank == 1)
        pthread_barrier_wait(&child_has_ended);
    wrong[rank] |= peal_iallreduce(in, out, 2, PEAL_INT32, PEAL_MAX, comm, NULL, &request) != PEAL_OK;
    if (rank == 0) {
        have_child(comm, request);
        pthread_barrier_wait(&child_has_ended);
    }
    wrong[rank] |= peal_wait(&request) != PEAL_OK || out[0] != 2 || out[1] != 10;
}

static void refused(void **state)
{
    assert_int_equal(pthread_barrier_init(&child_has_ended, NULL, 2), 0);
    assert_int_equal(team_run(2, two_calls, NULL), PEAL_OK);
    pthread_barrier_destroy(&child_has_ended);
    assert_int_equal(ended, 0);
    assert_false(wrong[0] || wrong[1]);
    assert_non_null(strstr(said, "rank 0: peal_allreduce number 2: process "));
    assert_non_null(strstr(said, "rank 0: peal_broadcast number 2: process "));
    assert_non_null(strstr(said, "rank 0: peal_barrier number 2: process "));
    assert_non_null(strstr(said, "rank 0: peal_test: process "));
    assert_non_null(strstr(said, "rank 0: peal_wait: process "));
    assert_non_null(strstr(said, "is a child of the one that made the communicator"));
}

/* What a rank showed, and left before a peer did, is its own to free: in a child something else lies there. */
static void left_behind(void **state)
{
    const peali_lands none = {0, 0};
    peali_public *shown = peali_public_create(2, &none, true);
    int reused[2], status;
    char go = 1;
    if (!shown)
        skip();
    peali_public_release(shown, true);
    assert_int_equal(pipe(reused), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(read(reused[0], &go, 1) == 1 && works_alone() ? 0 : 1);
    assert_true(pid > 0);
    peali_public_release(shown, false);
    peali_public *next = peali_public_create(1, &none, true);
    assert_ptr_equal(next, shown);
    memset(next, 0x41, sizeof *next);
    next->refs = 0;
    assert_int_equal(write(reused[1], &go, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    memset(next, 0, sizeof *next);
    next->pooled = true;
    peali_public_drop(next);
    close(reused[0]);
    close(reused[1]);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(left_behind)};
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
