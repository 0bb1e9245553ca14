/*
 * peal_comm_create_mpi, under mpirun: what it refuses, that all ranks answer alike, and that the program's own messages, error
 * handler and attributes are left alone. And that a barrier between processes is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <peal/mpi.h>

#include "base/arena.h"
#include "base/config.h"
#include "sched/tuning.h"

static int rank, size;

/* The least and the greatest VALUE of all ranks are one. */
static void assert_alike(int value)
{
    int both[2] = {value, -value}, least[2];
    MPI_Allreduce(both, least, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    assert_int_equal(least[0], -least[1]);
}

static void refused(void **state)
{
    (void)state;
    peal_comm *comm = NULL;
    MPI_Comm half, inter;
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_NULL, &comm), PEAL_ERR_INVALID);
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, NULL), PEAL_ERR_INVALID);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
    assert_int_equal(peal_comm_create_mpi(inter, &comm), PEAL_ERR_INVALID);
    assert_null(comm);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void ranks_are_those_of_mpi(void **state)
{
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        MPI_Comm mpi;
        peal_comm *comm = NULL;
        MPI_Comm_split(MPI_COMM_WORLD, turn == 2 ? rank : 0, turn == 0 ? rank : -rank, &mpi);
        assert_int_equal(peal_comm_create_mpi(mpi, &comm), PEAL_OK);
        assert_int_equal(peal_comm_size(comm), turn == 2 ? 1 : size);
        assert_int_equal(peal_comm_rank(comm), turn == 0 ? rank : turn == 1 ? size - 1 - rank : 0);
        peal_comm_destroy(&comm);
        MPI_Comm_free(&mpi);
    }
}

/*
 * Each allocation of one rank fails once: every rank gets the same answer, and the next attempt is not disturbed. Without memory to
 * map the others' ranks do with messages.
 */
static void one_rank_without_memory(void **state)
{
    (void)state;
    int failures = 0, denied = 1;
    for (long at = 1; denied; at++) {
        peal_comm *comm = NULL;
        long before = peali_alloc_count();
        peali_alloc_fail_at(rank == 1 ? at : 0);
        peal_status status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
        peali_alloc_fail_at(0);
        denied = peali_alloc_count() - before >= at;
        MPI_Bcast(&denied, 1, MPI_INT, 1, MPI_COMM_WORLD);
        assert_alike(status);
        failures += status != PEAL_OK;
        assert_true(status == PEAL_ERR_MEMORY || (status == PEAL_OK && comm));
        assert_true(denied || status == PEAL_OK);
        peal_comm_destroy(&comm);
    }
    assert_true(failures > 0);
}

static int copies;

static int count_copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    copies++;
    *flag = 0;
    return MPI_SUCCESS;
}

/* A wildcard receive that is posted before, the attributes and the error handler see nothing of it. */
static void program_is_left_alone(void **state)
{
    (void)state;
    int key, found = 0, in = 0, out = 7;
    peal_comm *comm = NULL;
    MPI_Errhandler before, after;
    MPI_Request wild;
    MPI_Comm_create_keyval(count_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &found);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &wild);
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &comm), PEAL_OK);
    MPI_Test(&wild, &found, MPI_STATUS_IGNORE);
    assert_int_equal(found, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&out, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD);
    MPI_Wait(&wild, MPI_STATUS_IGNORE);
    assert_int_equal(in, 7);
    peal_comm_destroy(&comm);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    assert_true(before == after);
    MPI_Errhandler_free(&before);
    MPI_Errhandler_free(&after);
    assert_int_equal(copies, 0);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* one for all ranks of this host */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A communicator is made while a call is in flight on another one, which half of the ranks wait for first. */
static void made_in_a_call(void **state)
{
    (void)state;
    int in = rank, out = -1;
    peal_comm *first = NULL, *second = NULL;
    peal_request *request;
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &first), PEAL_OK);
    assert_int_equal(peal_iallreduce(&in, &out, 1, PEAL_INT32, PEAL_SUM, first, NULL, &request), PEAL_OK);
    if (rank % 2)
        assert_int_equal(peal_wait(&request), PEAL_OK);
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &second), PEAL_OK);
    if (rank % 2 == 0)
        assert_int_equal(peal_wait(&request), PEAL_OK);
    assert_int_equal(out, size * (size - 1) / 2);
    peal_comm_destroy(&first);
    peal_comm_destroy(&second);
}

/* No rank leaves before the last one, which is another each time, has entered. */
static void barrier_holds(void **state)
{
    (void)state;
    peal_comm *comm = NULL;
    struct timespec nap = {0, 2000 * 1000};
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &comm), PEAL_OK);
    for (int round = 0; round < 40; round++) {
        peal_request *request;
        if (round % size == rank)
            nanosleep(&nap, NULL);
        double times[2] = {seconds()}, ends[2];
        assert_int_equal(peal_ibarrier(comm, NULL, &request), PEAL_OK);
        assert_int_equal(peal_wait(&request), PEAL_OK);
        times[1] = -seconds();
        MPI_Allreduce(times, ends, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        assert_true(ends[0] <= -ends[1]);
    }
    peal_comm_destroy(&comm);
}

/*
 * A child, made between start and wait, has the send buffer as it was; and what peers exchange through the buffers is not lost, nor
 * what the program writes beside them meanwhile, in the same page.
 */
static void forks_in_calls(void **state)
{
    (void)state;
    enum { COUNT = 50000, CALLS = 30 };
    int *in = peal_mem_alloc(COUNT * sizeof *in), *out = peal_mem_alloc((COUNT + 1) * sizeof *out);
    peal_comm *comm = NULL;
    assert_true(in && out);
    assert_int_equal(peal_comm_create_mpi(MPI_COMM_WORLD, &comm), PEAL_OK);
    for (int call = 0, wrong = 0; call < CALLS; call++) {
        peal_request *request;
        int status;
        for (int i = 0; i < COUNT; i++)
            in[i] = i + rank + call;
        const bool average = call % 2;
        assert_int_equal(peal_iallreduce(in, out, COUNT, PEAL_INT32, average ? PEAL_AVG : PEAL_SUM, comm, NULL, &request), PEAL_OK);
        pid_t child = call % 3 == 2 ? fork() : -1;
        for (int i = 0; child == 0 && i < COUNT; i++)
            wrong += in[i] != i + rank + call;
        if (child == 0)
            _exit(wrong != 0);
        out[COUNT] = call;
        assert_int_equal(peal_wait(&request), PEAL_OK);
        assert_int_equal(out[COUNT], call);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(out[i], (size * (i + call) + size * (size - 1) / 2) / (average ? size : 1));
        assert_true(child < 0 || (waitpid(child, &status, 0) == child && status == 0));
        if (call % 9 == 0) { /* what a fork made private is made anew */
            peal_mem_free(in);
            peal_mem_free(out);
            in = peal_mem_alloc(COUNT * sizeof *in);
            out = peal_mem_alloc((COUNT + 1) * sizeof *out);
            assert_true(in && out);
        }
    }
    peal_comm_destroy(&comm);
    peal_mem_free(in);
    peal_mem_free(out);
}

/* What one rank has set otherwise than the rest: what follows from it would be other calls. */
static void set_otherwise(peali_config *c, peali_tuning *table, int what)
{
    switch (what) {
    case 0: c->algo = "ring"; break;
    case 1: c->nodes = "4"; break;
    case 2: c->level = "none"; break;
    case 3: c->slice_bytes = 1; break;
    case 4: c->shm = !c->shm; break;
    case 5: c->proto = 0; break;
    case 6: c->max_ctas = 1; break;
    case 7: c->engines_bytes = 1; break;
    default: table->rows[0].bytes++; break;
    }
}

static void variables_differ(void **state)
{
    (void)state;
    enum { WHAT = 9 };
    peali_config *c = (peali_config *)peali_config_get(), kept = *c; /* read once, from what is this process' own */
    peali_tuning *table = (peali_tuning *)peali_tuning_get();
    const size_t bytes = table->rows[0].bytes;
    for (int what = 0; what < WHAT; what++) {
        peal_comm *comm = NULL;
        if (rank == what % size)
            set_otherwise(c, table, what);
        peal_status status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
        *c = kept;
        table->rows[0].bytes = bytes;
        assert_int_equal(status, PEAL_ERR_CONFIG);
        assert_null(comm);
    }
}

/* With a question to a rank that was late under way, which outlasts the call, and what a root has left unheard. */
static peal_comm *outlast(void)
{
    peal_comm *comm = NULL;
    int in = rank, out = 0;
    if (peal_comm_create_mpi(MPI_COMM_WORLD, &comm) != PEAL_OK)
        exit(2);
    if (rank == 1)
        usleep(1200000);
    if (peal_allreduce(&in, &out, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK ||
        peal_broadcast(&in, 1, PEAL_INT32, 0, comm, NULL) != PEAL_OK)
        exit(2);
    return comm;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(ranks_are_those_of_mpi),
        cmocka_unit_test(one_rank_without_memory),
        cmocka_unit_test(program_is_left_alone),
        cmocka_unit_test(made_in_a_call),
        cmocka_unit_test(barrier_holds),
        cmocka_unit_test(forks_in_calls),
        cmocka_unit_test(variables_differ),
    };
    peal_comm *comm = NULL;
    int early = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int failed = cmocka_run_group_tests_name("comm over mpi", tests, NULL, NULL);
    peal_comm *left = outlast();
    double ending = seconds();
    MPI_Finalize();
    if (seconds() - ending > 4) { /* for what it waits no rank will do */
        fprintf(stderr, "MPI_Finalize took %.1f s\n", seconds() - ending);
        failed++;
    }
    peal_comm_destroy(&left);
    if (early != PEAL_ERR_INVALID || peal_comm_create_mpi(MPI_COMM_WORLD, &comm) != PEAL_ERR_INVALID) {
        fprintf(stderr, "a communicator before MPI_Init or after MPI_Finalize: not PEAL_ERR_INVALID\n");
        return 1;
    }
    return failed != 0;
}
