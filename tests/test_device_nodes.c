/*
 * Ranks of several nodes with a GPU each: memory within a node, messages between them, of a proxy. One rank a node, two of two, and
 * nodes that differ; eager and by graphs; what the transport does wrong has its name on some rank, and ends the call on all. With
 * TEST_MPI the ranks are those of mpirun, in nodes as the argument has them ("2+1"), and messages go by PEAL_NET.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/config.h"
#include "comm/comm_private.h"
#include "comm/device.h"
#include "cuda/device_ranks.h"
#include "cuda/device_values.h"
#include "net/net_fault.h"
#include "sched/sched.h"

enum { MOST = 4 };

/*
 * To the host, when the calls are over. Where messages lie in GPU memory and UCX copies them by itself, each of its copies is a
 * call of CUDA's, which may have to wait for one that this thread is in: to copy behind a call of Peal is to wait for oneself.
 */
static void fetch(seat *s, void *to, const void *from, size_t bytes)
{
    if (peali_config_get()->gdr == PEALI_GDR_ON)
        seat_sync(s);
    seat_copy(s, to, from, bytes);
}

/* The first of the COUNT numbers at GOT that is not WANT of its index; a call that failed is told apart from wrong numbers. */
static void compare(seat *s, const char *what, const int32_t *got, int count, int32_t (*want)(const seat *s, int i))
{
    peal_status status = peal_comm_error(s->comm);
    int i = 0;
    while (i < count && got[i] == want(s, i))
        i++;
    if (status != PEAL_OK)
        seat_wrong(s, "%s: %s", what, peal_status_text(status));
    else if (i < count)
        seat_wrong(s, "%s: element %d of %d is %d instead of %d", what, i, count, got[i], want(s, i));
}

/* False where the algorithm does not fit. */
static bool forced(const seat *s, const peal_algo *algo)
{
    const peal_problem problem = peali_comm_problem(s->comm, algo->kind, PEAL_SUM, 0);
    return peali_algo_fits(algo, &problem) && peal_comm_force(s->comm, algo->kind, algo->name) == PEAL_OK;
}

/* Every rank gives other numbers; what the host makes of them is right. */
typedef struct deed {
    size_t count;
    peal_type type;
    peal_op op;
} deed;

static void check(seat *s, const deed *d, uint32_t seed)
{
    const size_t bytes = d->count * peal_type_bytes(d->type);
    unsigned char *in = malloc(bytes + 1), *want = malloc(bytes + 1), *got = malloc(bytes + 1);
    void *dev = seat_alloc(s, bytes);
    value_fill(in, d->count, d->type, d->op, seed * 31 + (uint32_t)s->rank);
    SEAT_CHECK(s, peal_allreduce(in, want, d->count, d->type, d->op, s->comm, NULL) == PEAL_OK);
    seat_copy(s, dev, in, bytes);
    SEAT_CHECK(s, peal_allreduce(dev, dev, d->count, d->type, d->op, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
    seat_copy(s, got, dev, bytes);
    size_t i = 0;
    while (i < bytes && got[i] == want[i])
        i++;
    if (i < bytes)
        seat_wrong(s, "%zu of %s, %s: byte %zu is %02x, on the host %02x", d->count, peal_type_name(d->type), peal_op_name(d->op),
                   i, got[i], want[i]);
    seat_free(s, dev);
    free(in);
    free(want);
    free(got);
}

/* Slices that are few and many, and vectors that leave blocks empty. */
static void every_algorithm(seat *s)
{
    static const size_t counts[] = {1, 1000, 70001};
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        if ((*a)->kind != PEAL_ALLREDUCE || !forced(s, *a))
            continue;
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            check(s, &(deed){counts[k], PEAL_FLOAT, PEAL_SUM}, (uint32_t)k);
    }
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, NULL) == PEAL_OK);
    check(s, &(deed){300000, PEAL_INT32, PEAL_SUM}, 9);
}

static bool on_gpus(peal_type type, peal_op op)
{
    bool complex = type == PEAL_COMPLEX_FLOAT || type == PEAL_COMPLEX_DOUBLE;
    return type != PEAL_LONG_DOUBLE && type != PEAL_COMPLEX_LONG_DOUBLE && !(complex && op == PEAL_PROD);
}

static void every_type(seat *s)
{
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op < PEAL_OP_COUNT; op++)
            if (peal_op_takes((peal_op)op, (peal_type)type) && on_gpus((peal_type)type, (peal_op)op))
                check(s, &(deed){333, (peal_type)type, (peal_op)op}, 7);
}

static int32_t weighted(const seat *s, int i)
{
    int32_t sum = 0;
    for (int r = 0; r < s->n; r++)
        sum += (i + r) * (r + 2);
    return sum;
}

/* A rank's own elements are scaled once, whether its kernel reads them or a message takes them away. */
static void premultiplied(seat *s)
{
    enum { COUNT = 1000 };
    int32_t *at = seat_alloc(s, 4 * COUNT), got[COUNT], scalar = s->rank + 2;
    SEAT_CHECK(s, peal_comm_premul(s->comm, &scalar, PEAL_INT32) == PEAL_OK);
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        if ((*a)->kind != PEAL_ALLREDUCE || !forced(s, *a))
            continue;
        for (int i = 0; i < COUNT; i++)
            got[i] = i + s->rank;
        seat_copy(s, at, got, sizeof got);
        SEAT_CHECK(s, peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_PREMUL_SUM, s->comm, s->stream) == PEAL_OK);
        fetch(s, got, at, sizeof got);
        compare(s, (*a)->name, got, COUNT, weighted);
    }
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, NULL) == PEAL_OK);
    seat_free(s, at);
}

/* Calls of other kinds have messages on some ranks and none on others, and lanes of different lengths. */
static void other_kinds(seat *s)
{
    int32_t *in = seat_alloc(s, 4 * MOST * 500), *out = seat_alloc(s, 4 * MOST * 500), got[MOST * 500];
    for (int32_t k = 0; k < 12; k++) {
        int32_t mine = s->rank + 1 + k, root = k % s->n, sum = s->n * (s->n + 1) / 2 + s->n * k;
        for (int i = 0; i < MOST * 500; i++)
            got[i] = mine;
        seat_copy(s, in, got, sizeof got);
        SEAT_CHECK(s, peal_broadcast(in, 500, PEAL_INT32, root, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_allgather(in + 500, out, 499, PEAL_INT32, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_barrier(s->comm, s->stream) == PEAL_OK);
        fetch(s, got, out, sizeof got);
        for (int i = 0; i < s->n * 499; i++)
            SEAT_CHECK(s, got[i] == i / 499 + 1 + k);
        SEAT_CHECK(s, peal_reduce(in + 500, out, 321, PEAL_INT32, PEAL_SUM, root, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_reduce_scatter(in + 500, out + 500, 99, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        fetch(s, got, out, sizeof got);
        for (int i = 0; i < 99; i++)
            SEAT_CHECK(s, got[500 + i] == sum && (s->rank != root || got[i] == sum));
        fetch(s, got, in, sizeof got);
        SEAT_CHECK(s, got[0] == root + 1 + k && got[499] == root + 1 + k);
    }
    seat_free(s, in);
    seat_free(s, out);
}

typedef struct chain {
    int32_t *at;
    int calls;
} chain;

static void capture_chain(seat *s, void *what)
{
    chain *c = what;
    for (int k = 0; k < c->calls; k++)
        SEAT_CHECK(s, peal_allreduce(c->at, c->at, 9000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
}

/* Sums of sums: after K calls, each number is n to the K (modulo 2^32). No host function is in the graph. */
static void graphs(seat *s)
{
    enum { REPLAYS = 40, NUMBERS = 9000 };
    uint32_t *numbers = malloc(NUMBERS * sizeof *numbers), value = 1;
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = 1;
    chain three = {seat_alloc(s, NUMBERS * sizeof *numbers), 3};
    fake_exec exec = seat_capture(s, PEALI_CU_CAPTURE_GLOBAL, capture_chain, &three, 3);
    seat_copy(s, three.at, numbers, NUMBERS * sizeof *numbers);
    for (int k = 0; k < REPLAYS; k++) {
        seat_must(cuGraphLaunch(exec, s->stream), "cuGraphLaunch");
        if (k % 3 == 0)
            SEAT_CHECK(s, peal_allreduce(three.at, three.at, NUMBERS, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        if (k == REPLAYS / 2) { /* the proxy rests by then */
            seat_sync(s);
            nanosleep(&(struct timespec){0, 50000000}, NULL);
        }
        for (int times = 3 + (k % 3 == 0); times > 0; times--)
            value *= (uint32_t)s->n;
    }
    fetch(s, numbers, three.at, NUMBERS * sizeof *numbers);
    for (int i = 0; i < NUMBERS; i++)
        SEAT_CHECK(s, numbers[i] == value);
    seat_must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    seat_free(s, three.at);
    free(numbers);
}

/* A message costs the proxy about as much as 30 KiB of it do: so those of a long call are long. */
static void long_messages(seat *s)
{
    enum { BYTES = 1 << 20, LEAST = 24 << 10 };
    float *at = seat_alloc(s, BYTES);
    uint32_t orders = 0;
    SEAT_CHECK(s, peal_allreduce(at, at, BYTES / sizeof *at, PEAL_FLOAT, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
    const peali_post *post = peali_team_post(s->comm->device->team);
    for (int lane = 0; lane < PEALI_POST_LANES; lane++) {
        uint32_t last = 0;
        for (int i = 0; i < PEALI_POST_ORDERS; i++)
            last = post->orders[lane][i].number > last ? post->orders[lane][i].number : last;
        orders += last;
    }
    if (orders == 0 || orders > 2 * (BYTES / 2) / LEAST)
        seat_wrong(s, "%u messages, of which half take away %d bytes", (unsigned)orders, BYTES / 2);
    seat_free(s, at);
}

/* Messages of both kinds at once, over one transport. */
static void beside_the_host(seat *s)
{
    int32_t ones[256], *at = seat_alloc(s, sizeof ones);
    uint32_t value = 1;
    for (int i = 0; i < 256; i++)
        ones[i] = 1;
    seat_copy(s, at, ones, sizeof ones);
    for (int k = 0; k < 30; k++) {
        int32_t mine = k + s->rank, sum = 0;
        SEAT_CHECK(s, peal_allreduce(at, at, 256, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_allreduce(&mine, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
        SEAT_CHECK(s, sum == s->n * k + s->n * (s->n - 1) / 2);
        value *= (uint32_t)s->n;
    }
    fetch(s, ones, at, sizeof ones);
    SEAT_CHECK(s, ones[0] == (int32_t)value && ones[255] == (int32_t)value);
    seat_free(s, at);
}

#ifdef TEST_MPI
/* This process, on a host of its node's name; 0: NODES has another number of ranks. */
static int settle(const char *nodes)
{
    int n = 0;
    for (const char *at = nodes; *at; at += 1 + (at[1] == '+')) {
        if (world_rank >= n && world_rank < n + *at - '0')
            setenv("PEAL_HOST_ID", at, 1);
        n += *at - '0';
    }
    return n == world_size && n <= MOST;
}

static void on_all(seat_body *body)
{
    assert_int_equal(seats_run(world_size, body, NULL), 0);
}
#else
/* BODY on ranks in nodes of sizes as NODES has them, by transports that do FAULTS (NULL: nothing) wrong. */
static int run_in(const char *nodes, const peali_fault *faults, seat_body *body, void *ctx)
{
    peali_layout layouts[PEALI_DEVICE_RANKS] = {{0}};
    seats all = {body, ctx, 0, 0};
    int n = 0;
    for (char *at = (char *)nodes; *at; at += *at == '+')
        n += (int)strtol(at, &at, 10);
    for (int r = 0; r < n; r++) {
        layouts[r].nodes = nodes;
        layouts[r].fault = faults ? &faults[r] : NULL;
    }
    assert_int_equal(team_run_in((unsigned)n, layouts, seat_take, &all), PEAL_OK);
    return all.wrong;
}

static const char *const divisions[] = {"1+1", "2+2", "3+1", "1+2+1"};

static void on_all(seat_body *body)
{
    for (size_t k = 0; k < sizeof divisions / sizeof divisions[0]; k++)
        assert_int_equal(run_in(divisions[k], NULL, body, NULL), 0);
}
#endif

#define TEST(name)                                                                                                                \
    static void test_##name(void **state)                                                                                         \
    {                                                                                                                             \
        on_all(name);                                                                                                             \
    }
TEST(every_algorithm)
TEST(premultiplied)
TEST(other_kinds)
TEST(graphs)
TEST(beside_the_host)
#ifdef TEST_MPI
TEST(every_type)
TEST(long_messages)
#else
static void test_long_messages(void **state)
{
    assert_int_equal(run_in("2+2", NULL, long_messages, NULL), 0);
}

static void test_every_type(void **state)
{
    assert_int_equal(run_in("2+2", NULL, every_type, NULL), 0);
    assert_int_equal(run_in("2+1", NULL, every_type, NULL), 0);
}

/* Messages come late, and those of different lanes overtake each other. */
static void test_slow(void **state)
{
    peali_fault faults[MOST];
    for (int r = 0; r < MOST; r++)
        faults[r] = (peali_fault){.seed = (uint64_t)r + 1, .delay = 40};
    assert_int_equal(run_in("2+2", faults, graphs, NULL), 0);
    assert_int_equal(run_in("3+1", faults, other_kinds, NULL), 0);
}

/* Rank 1's transport begins to fail at its operation number AT, and goes on failing. */
typedef struct breach {
    int64_t at;
} breach;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

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
        nanosleep(&(struct timespec){0, 5000000}, NULL);
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
        assert_int_equal(run_in(k % 2 ? "2+1" : "1+1", faults, broken, &b), 0);
    }
}

/* How many connections over tcp this process has; BREAKS: the last one that was made ends. */
static int connections(bool breaks)
{
    int n = 0, last = -1;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET) {
            last = fd;
            n++;
        }
    }
    if (breaks)
        shutdown(last, SHUT_RDWR);
    return n;
}

/* Over UCX's tcp: each thread of the proxy has connections of its own, and where one breaks the call ends on both ranks. */
static void unlinked(seat *s)
{
    enum { COUNT = 1 << 20 };
    int32_t *at = seat_alloc(s, 4 * COUNT), one = 1, sum = 0;
    SEAT_CHECK(s, peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    const int before = connections(false);
    SEAT_CHECK(s, peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    seat_sync(s);
    SEAT_CHECK(s, peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, s->comm, NULL) == PEAL_OK);
    (void)peali_add_relaxed((int *)s->ctx, 1);
    while (peali_load_relaxed((int *)s->ctx) < 2) /* that call is over on both */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    const int threads = peali_config_get()->proxy_threads, after = connections(s->rank == 1);
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
    assert_int_equal(run_in("1+1", NULL, unlinked, &through), 0);
    FILE *f = fopen(getenv("PEAL_LOG_FILE"), "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); lines++)
        named |= strstr(line, "rank 1") && strstr(line, "to rank 0") && strstr(line, "(within host");
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
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    (void)s->cu->StreamSynchronize(s->stream);
    if (peal_comm_error(s->comm) != PEAL_ERR_MISMATCH)
        seat_wrong(s, "count %zu: %s", *count, peal_status_text(peal_comm_error(s->comm)));
    seat_free(s, at);
}

static void test_differs(void **state)
{
    static const size_t counts[] = {5000, 4000, 90000};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(run_in(divisions[2 * i + k % 2], NULL, differs, (void *)&counts[k]), 0);
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
    assert_int_equal(run_in("1+1", NULL, late, NULL), 0);
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
        nanosleep(&(struct timespec){1, 0}, NULL);
    SEAT_CHECK(s, peal_allreduce(at, at, other ? 4000 : 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
}

static void test_left(void **state)
{
    for (size_t k = 0; k < 2; k++) {
        const int64_t start_ms = now_ms();
        assert_int_equal(run_in(divisions[2 * k], NULL, left, NULL), 0);
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
    assert_int_equal(run_in("2+2", NULL, refused, NULL), 0);
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
    assert_int_equal(run_in("17+1", NULL, refused_to_all, NULL), 0);
    assert_int_equal(run_in("2+32", NULL, refused_to_all, NULL), 0);
    assert_int_equal(run_in("2+1", NULL, single, NULL), 0);
}

#endif

#ifdef TEST_MPI
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm), cmocka_unit_test(test_every_type), cmocka_unit_test(test_premultiplied),
        cmocka_unit_test(test_other_kinds), cmocka_unit_test(test_graphs), cmocka_unit_test(test_beside_the_host),
        cmocka_unit_test(test_long_messages),
    };
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    world_start(&argc, &argv);
    if (argc < 2 || !settle(argv[1])) {
        fprintf(stderr, "say how the %d ranks are divided, as in 2+2\n", world_size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int failed = cmocka_run_group_tests_name("device_nodes_mpi", tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
#else
/*
 * "wrong": what goes wrong; "unlinked": a connection, over UCX, into PEAL_LOG_FILE; "left": and when the communicator has been given
 * up; "direct", "refused": what is refused.
 */
int main(int argc, char **argv)
{
    const struct CMUnitTest direct[] = {cmocka_unit_test(test_refused)}, refusals[] = {cmocka_unit_test(test_refused_to_all)};
    const struct CMUnitTest links[] = {cmocka_unit_test(test_unlinked)};
    const struct CMUnitTest wrong[] = {cmocka_unit_test(test_broken), cmocka_unit_test(test_differs), cmocka_unit_test(test_late)};
    const struct CMUnitTest leaving[] = {cmocka_unit_test(test_left)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm), cmocka_unit_test(test_every_type), cmocka_unit_test(test_premultiplied),
        cmocka_unit_test(test_other_kinds), cmocka_unit_test(test_graphs), cmocka_unit_test(test_beside_the_host),
        cmocka_unit_test(test_long_messages),   cmocka_unit_test(test_slow),
    };
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    if (argc > 1 && strcmp(argv[1], "direct") == 0) {
        setenv("PEAL_PROTO", "direct", 1);
        return cmocka_run_group_tests_name("device_nodes_direct", direct, NULL, NULL);
    }
    if (argc > 1 && strcmp(argv[1], "refused") == 0) {
        setenv("FAKE_CUDA_DEVICES", "16", 1);
        setenv("PEAL_TIMEOUT", "10", 1);
        return cmocka_run_group_tests_name("device_nodes_refused", refusals, NULL, NULL);
    }
    if (argc > 1 && strcmp(argv[1], "left") == 0) {
        setenv("PEAL_TIMEOUT", "30", 1);
        return cmocka_run_group_tests_name("device_nodes_left", leaving, NULL, NULL);
    }
    if (argc > 1) {
        setenv("PEAL_TIMEOUT", "3", 1);
        if (strcmp(argv[1], "unlinked") == 0)
            return cmocka_run_group_tests_name("device_nodes_unlinked", links, NULL, NULL);
        return cmocka_run_group_tests_name("device_nodes_wrong", wrong, NULL, NULL);
    }
    return cmocka_run_group_tests_name("device_nodes", tests, NULL, NULL);
}
#endif
