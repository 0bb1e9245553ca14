/*
 * What goes wrong between nodes has its name on some rank, and ends the call on all: a transport that fails or loses its
 * connections, calls that differ or come late, a communicator that is left before its calls are over; and what all refuse alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/config.h"
#include "comm/comm_private.h"
#include "comm/device.h"
#include "cuda/device_log.h"
#include "cuda/device_values.h"
#include "net/net_fault.h"

enum { MOST = 4 };

/* Rank 1's transport begins to fail at its operation number AT, and goes on failing. */
typedef struct breach {
    int64_t at;
} breach;

/* The net that each rank came with, and how often it was forsaken. */
static peali_net *nets[MOST];
static int forsaken[MOST];

static void forsake(peali_net *net)
{
    for (int r = 0; r < MOST; r++)
        __atomic_add_fetch(&forsaken[r], nets[r] == net, __ATOMIC_SEQ_CST);
}

static void watch_net(const seat *s)
{
    nets[s->rank] = s->comm->net;
    forsaken[s->rank] = 0;
    s->comm->net->forsake = forsake;
}

/*
 * Calls go on until one has failed, whose name is that of a link on rank 1, and that or a deadline elsewhere. Communicators to come
 * get connections of their own.
 */
static void broken(seat *s)
{
    breach *b = s->ctx;
    watch_net(s);
    int32_t *at = seat_alloc(s, 4 * 5000);
    peal_status status = PEAL_OK;
    int64_t start_ms = now_ms();
    for (int k = 0; k < 100 && status == PEAL_OK; k++) {
        status = peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream);
        if (k % 4 == 0)
            (void)s->cu->StreamSynchronize(s->stream);
    }
    (void)s->cu->StreamSynchronize(s->stream);
    while (status == PEAL_OK && peal_comm_error(s->comm) == PEAL_OK && now_ms() - start_ms < 20000)
        nap_ms(5);
    status = status == PEAL_OK ? peal_comm_error(s->comm) : status;
    if (status != PEAL_ERR_NET && (s->rank == 1 || status != PEAL_ERR_TIMEOUT))
        seat_wrong(s, "fault at %lld: %s", (long long)b->at, peal_status_text(status));
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == status);
    SEAT_CHECK(s, __atomic_load_n(&forsaken[s->rank], __ATOMIC_SEQ_CST) > 0);
    seat_free(s, at);
}

static void test_broken(void **state)
{
    static const int64_t ats[] = {30, 60, 100, 150};
    for (size_t k = 0; k < sizeof ats / sizeof ats[0]; k++) {
        peali_fault faults[MOST] = {{0}};
        breach b = {.at = ats[k]};
        faults[1] = (peali_fault){.fail_at = ats[k], .lasting = true};
        assert_int_equal(seats_run_in(k % 2 ? "2+1" : "1+1", faults, broken, &b), 0);
    }
}

/* How many connections over tcp this process has; all but the first SPARED are ended. */
static int connections(int spared)
{
    int n = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0 || peer.ss_family != AF_INET)
            continue;
        if (n >= spared)
            shutdown(fd, SHUT_RDWR);
        n++;
    }
    return n;
}

/* Over UCX's tcp: each thread of the proxy has connections of its own, and where those break the call ends on both ranks. */
static void unlinked(seat *s)
{
    enum { COUNT = 1 << 20 };
    int32_t *at = seat_alloc(s, 4 * COUNT), one = 1, sum = 0;
    SEAT_CHECK(s, peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    const int threads = peali_config_get()->proxy_threads, before = connections(INT_MAX);
    SEAT_CHECK(s, peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    (void)peali_add_relaxed((int *)s->ctx, 1);
    while (peali_load_relaxed((int *)s->ctx) < 2) /* that call is over on both */
        nap_ms(1);
    const int after = connections(s->rank == 1 ? before : INT_MAX);
    if (s->rank == 1 && (before == 0 || after != threads * before))
        seat_wrong(s, "%d connections, and %d with %d threads", before, after, threads);
    peal_status status = PEAL_OK;
    int64_t start_ms = now_ms();
    while (status == PEAL_OK && now_ms() - start_ms < 20000) {
        status = peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream);
        (void)s->cu->StreamSynchronize(s->stream);
        status = status == PEAL_OK ? peal_comm_error(s->comm) : status;
    }
    if (status != PEAL_ERR_NET && status != PEAL_ERR_TIMEOUT)
        seat_wrong(s, "without a connection: %s", peal_status_text(status));
    seat_free(s, at);
}

static void test_unlinked(void **state)
{
    char line[4096];
    bool named = false;
    int lines = 0, through = 0;
    unlink(getenv("PEAL_LOG_FILE"));
    assert_int_equal(seats_run_in("1+1", NULL, unlinked, &through), 0);
    FILE *f = fopen(getenv("PEAL_LOG_FILE"), "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); lines++)
        named |= strstr(line, " to rank ") && strstr(line, "(within host");
    fclose(f);
    assert_true(named && lines < 20);
}

/* The last rank calls something else: all ranks hear of it. */
static void differs(seat *s)
{
    const size_t *count = s->ctx;
    int32_t *at = seat_alloc(s, 4 * 100000);
    const bool other = s->rank == s->n - 1;
    const peal_op op = other && *count == 5000 ? PEAL_MAX : PEAL_SUM;
    int64_t start_ms = now_ms();
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    peal_status status = peal_allreduce(at, at, other ? *count : 5000, PEAL_INT32, op, s->comm, s->stream);
    SEAT_CHECK(s, status == PEAL_OK || status == PEAL_ERR_MISMATCH);
    while (peal_comm_error(s->comm) == PEAL_OK && now_ms() - start_ms < 20000)
        nap_ms(5);
    (void)s->cu->StreamSynchronize(s->stream);
    if (peal_comm_error(s->comm) != PEAL_ERR_MISMATCH)
        seat_wrong(s, "count %zu: %s", *count, peal_status_text(peal_comm_error(s->comm)));
    seat_free(s, at);
}

static void test_differs(void **state)
{
    static const size_t counts[] = {5000, 4000, 90000, 1000}; /* the last: lines, and bulk elsewhere */
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(seats_run_in(seat_divisions[2 * i + k % 2], NULL, differs, (void *)&counts[k]), 0);
}

/* Rank 0 has left a broadcast that nobody else called, for a kernel that waits for them. */
static void left_on_host(seat *s)
{
    int32_t *at = seat_alloc(s, 4 * 5000), host = 1;
    const int64_t start_ms = now_ms();
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (s->rank == 0) {
        SEAT_CHECK(s, peal_broadcast(&host, 1, PEAL_INT32, 0, s->comm, NULL) == PEAL_OK);
        SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    } else {
        SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_ERR_MISMATCH);
    }
    while (peal_comm_error(s->comm) == PEAL_OK && now_ms() - start_ms < 20000)
        nap_ms(5);
    (void)s->cu->StreamSynchronize(s->stream);
    if (peal_comm_error(s->comm) != PEAL_ERR_MISMATCH)
        seat_wrong(s, "it is: %s", peal_status_text(peal_comm_error(s->comm)));
    seat_free(s, at);
}

static void test_left_on_host(void **state)
{
    seats_parley_ms = 200;
    assert_int_equal(seats_run_in("2", NULL, left_on_host, NULL), 0);
    assert_int_equal(seats_run_in("1+1", NULL, left_on_host, NULL), 0);
    seats_parley_ms = 0;
}

/* The last rank's call is not launched: all ranks hear of it, of whatever node. */
static void not_launched(seat *s)
{
    const bool last = s->rank == s->n - 1;
    int32_t *at = seat_alloc(s, 4 * 5000), host = 1;
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_allreduce(&host, &host, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    if (last) {
        await_others(s); /* the next launch is this rank's */
        fake_cuda_fail("cuLaunchKernelEx", 1, PEALI_CU_OUT_OF_MEMORY);
    }
    peal_status status = peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream);
    SEAT_CHECK(s, status == (last ? PEAL_ERR_MEMORY : PEAL_OK));
    if (!last)
        say_done();
    (void)s->cu->StreamSynchronize(s->stream);
    if (peal_comm_error(s->comm) != PEAL_ERR_MEMORY)
        seat_wrong(s, "where one rank launched nothing: %s", peal_status_text(peal_comm_error(s->comm)));
    seat_free(s, at);
}

static void test_not_launched(void **state)
{
    for (int k = 0; k < SEAT_DIVISIONS; k++)
        assert_int_equal(seats_run_in(seat_divisions[k], NULL, not_launched, NULL), 0);
}

/* Whose kernels have given up leaves at once, before anybody has looked at them. */
static void late(seat *s)
{
    int32_t *at = seat_alloc(s, 4 * 5000);
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (s->rank == s->n - 1)
        return;
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    (void)s->cu->StreamSynchronize(s->stream);
}

static void test_late(void **state)
{
    const int64_t start_ms = now_ms();
    assert_int_equal(seats_run_in("1+1", NULL, late, NULL), 0);
    assert_true(now_ms() - start_ms < 15000);
}

/* As destroying waits for GPUs: the last rank calls something else when the others are in there, and no kernel waits in vain. */
static void left(seat *s)
{
    const bool other = s->rank == s->n - 1;
    int32_t *at = seat_alloc(s, 4 * 5000);
    SEAT_CHECK(s, peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    if (other)
        nap_ms(1000);
    SEAT_CHECK(s, peal_allreduce(at, at, other ? 4000 : 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
}

static void test_left(void **state)
{
    for (size_t k = 0; k < 2; k++) {
        const int64_t start_ms = now_ms();
        assert_int_equal(seats_run_in(seat_divisions[2 * k], NULL, left, NULL), 0);
        assert_true(now_ms() - start_ms < 15000);
    }
}

/* PEAL_PROTO=direct: no rank maps what another node has. */
static void refused(seat *s)
{
    int32_t *at = seat_alloc(s, 400);
    SEAT_CHECK(s, peal_allreduce(at, at, 100, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, peal_register(s->comm, at, 400) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, peal_deregister(s->comm, at) == PEAL_ERR_UNSUPPORTED);
    seat_free(s, at);
}

static void test_refused(void **state)
{
    assert_int_equal(seats_run_in("2+2", NULL, refused, NULL), 0);
}

/* It cannot be had, for a node has more ranks than kernels take, and all ranks return that. */
static void refused_to_all(seat *s)
{
    int32_t *at = seat_alloc(s, 400), host = 1;
    SEAT_CHECK(s, peal_allreduce(at, at, 100, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED);
    SEAT_CHECK(s, peal_allreduce(&host, &host, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK && host == s->n);
    seat_free(s, at);
}

/* MPI need not give each process as much: one rank's transport is for one thread. */
static void single(seat *s)
{
    s->comm->net->any_thread = s->rank != 1;
    refused_to_all(s);
}

static void test_refused_to_all(void **state)
{
    assert_int_equal(seats_run_in("17+1", NULL, refused_to_all, NULL), 0);
    assert_int_equal(seats_run_in("2+32", NULL, refused_to_all, NULL), 0);
    assert_int_equal(seats_run_in("2+1", NULL, single, NULL), 0);
}

/*
 * Without an argument what fails; "left": and when the communicator has been given up; "unlinked": a connection, over UCX, into
 * PEAL_LOG_FILE; "direct", "refused": what is refused.
 */
int main(int argc, char **argv)
{
    const struct CMUnitTest direct[] = {cmocka_unit_test(test_refused)}, refusals[] = {cmocka_unit_test(test_refused_to_all)};
    const struct CMUnitTest wrong[] = {cmocka_unit_test(test_broken), cmocka_unit_test(test_differs),
                                       cmocka_unit_test(test_left_on_host),
                                       cmocka_unit_test(test_not_launched), cmocka_unit_test(test_late)};
    const struct CMUnitTest leaving[] = {cmocka_unit_test(test_left)}, links[] = {cmocka_unit_test(test_unlinked)};
    const char *scene = argc > 1 ? argv[1] : "";
    setenv("FAKE_CUDA_DEVICES", strcmp(scene, "refused") == 0 ? "16" : "4", 1);
    if (strcmp(scene, "direct") == 0) {
        setenv("PEAL_PROTO", "direct", 1);
        return cmocka_run_group_tests_name("device_nodes_direct", direct, NULL, NULL);
    }
    setenv("PEAL_TIMEOUT", strcmp(scene, "refused") == 0 ? "10" : strcmp(scene, "left") == 0 ? "30" : "3", 1);
    if (strcmp(scene, "refused") == 0)
        return cmocka_run_group_tests_name("device_nodes_refused", refusals, NULL, NULL);
    if (strcmp(scene, "left") == 0)
        return cmocka_run_group_tests_name("device_nodes_left", leaving, NULL, NULL);
    if (strcmp(scene, "unlinked") == 0)
        return cmocka_run_group_tests_name("device_nodes_unlinked", links, NULL, NULL);
    return cmocka_run_group_tests_name("device_nodes_wrong", wrong, NULL, NULL);
}
