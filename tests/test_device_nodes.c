/*
 * Ranks of several nodes with a GPU each: memory within a node, messages between them, of a proxy. One rank a node, two of two, and
 * nodes that differ; eager and by graphs. With TEST_MPI the ranks are those of mpirun, in nodes as the argument has them ("2+1"),
 * and messages go by PEAL_NET.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "comm/comm_private.h"
#include "comm/device.h"
#include "cuda/device_ranks.h"
#include "cuda/device_values.h"
#include "net/net_fault.h"
#include "sched/sched.h"

enum { MOST = 4 };

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

/*
 * Slices that are few and many, and vectors that leave blocks empty. Up to 8 KiB go by lines, more by bulk (comm/device_choice.c):
 * these tests take both.
 */
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
    static const size_t counts[] = {333, 8200};
    for (int k = 0; k < 2 * PEAL_TYPE_COUNT; k++)
        for (int op = 0; op < PEAL_OP_COUNT; op++)
            if (peal_op_takes((peal_op)op, (peal_type)(k / 2)) && on_gpus((peal_type)(k / 2), (peal_op)op))
                check(s, &(deed){counts[k % 2], (peal_type)(k / 2), (peal_op)op}, 7);
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
    enum { MOST_NUMBERS = 3000 };
    int32_t *at = seat_alloc(s, 4 * MOST_NUMBERS), got[MOST_NUMBERS], scalar = s->rank + 2;
    SEAT_CHECK(s, peal_comm_premul(s->comm, &scalar, PEAL_INT32) == PEAL_OK);
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        if ((*a)->kind != PEAL_ALLREDUCE || !forced(s, *a))
            continue;
        for (int count = 1000; count <= MOST_NUMBERS; count += 2000) {
            for (int i = 0; i < count; i++)
                got[i] = i + s->rank;
            seat_copy(s, at, got, sizeof got);
            SEAT_CHECK(s, peal_allreduce(at, at, (size_t)count, PEAL_INT32, PEAL_PREMUL_SUM, s->comm, s->stream) == PEAL_OK);
            seat_copy(s, got, at, sizeof got);
            compare(s, (*a)->name, got, count, weighted);
        }
    }
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, NULL) == PEAL_OK);
    seat_free(s, at);
}

/* Calls of other kinds have messages on some ranks and none on others, and lanes of different lengths. */
static void other_kinds(seat *s)
{
    enum { MOST_NUMBERS = 3000 };
    static int32_t here[MOST][MOST * MOST_NUMBERS];
    int32_t *in = seat_alloc(s, sizeof here[0]), *out = seat_alloc(s, sizeof here[0]), *got = here[s->rank];
    for (int32_t k = 0; k < 12; k++) {
        int32_t mine = s->rank + 1 + k, root = k / 2 % s->n, sum = s->n * (s->n + 1) / 2 + s->n * k;
        const int n = k % 2 ? MOST_NUMBERS : 500, few = n / 5;
        for (int i = 0; i < MOST * n; i++)
            got[i] = mine;
        seat_copy(s, in, got, sizeof here[0]);
        SEAT_CHECK(s, peal_broadcast(in, (size_t)n, PEAL_INT32, root, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_allgather(in + n, out, (size_t)n - 1, PEAL_INT32, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_barrier(s->comm, s->stream) == PEAL_OK);
        seat_copy(s, got, out, sizeof here[0]);
        for (int i = 0; i < s->n * (n - 1); i++)
            SEAT_CHECK(s, got[i] == i / (n - 1) + 1 + k);
        SEAT_CHECK(s, peal_reduce(in + n, out, (size_t)n - 9, PEAL_INT32, PEAL_SUM, root, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, peal_reduce_scatter(in + n, out + n, (size_t)few, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        seat_copy(s, got, out, sizeof here[0]);
        for (int i = 0; i < few; i++)
            SEAT_CHECK(s, got[n + i] == sum && (s->rank != root || got[i] == sum));
        seat_copy(s, got, in, sizeof here[0]);
        SEAT_CHECK(s, got[0] == root + 1 + k && got[n - 1] == root + 1 + k);
    }
    seat_free(s, in);
    seat_free(s, out);
}

typedef struct chain {
    int32_t *at;
    size_t count;
    int calls;
} chain;

static void capture_chain(seat *s, void *what)
{
    chain *c = what;
    for (int k = 0; k < c->calls; k++)
        SEAT_CHECK(s, peal_allreduce(c->at, c->at, c->count, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
}

/* Sums of sums: after K calls, each number is n to the K (modulo 2^32). No host function is in the graph. */
static void graph_of(seat *s, size_t count)
{
    enum { REPLAYS = 40 };
    uint32_t *numbers = malloc(count * sizeof *numbers), value = 1;
    for (size_t i = 0; i < count; i++)
        numbers[i] = 1;
    chain three = {seat_alloc(s, count * sizeof *numbers), count, 3};
    fake_exec exec = seat_capture(s, PEALI_CU_CAPTURE_GLOBAL, capture_chain, &three, 3);
    seat_copy(s, three.at, numbers, count * sizeof *numbers);
    for (int k = 0; k < REPLAYS; k++) {
        seat_must(cuGraphLaunch(exec, s->stream), "cuGraphLaunch");
        if (k % 3 == 0)
            SEAT_CHECK(s, peal_allreduce(three.at, three.at, count, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
        if (k == REPLAYS / 2) { /* the proxy rests by then */
            seat_sync(s);
            nanosleep(&(struct timespec){0, 50000000}, NULL);
        }
        for (int times = 3 + (k % 3 == 0); times > 0; times--)
            value *= (uint32_t)s->n;
    }
    seat_copy(s, numbers, three.at, count * sizeof *numbers);
    for (size_t i = 0; i < count; i++)
        SEAT_CHECK(s, numbers[i] == value);
    seat_must(cuGraphExecDestroy(exec), "cuGraphExecDestroy");
    seat_free(s, three.at);
    free(numbers);
}

static void graphs(seat *s)
{
    graph_of(s, 900);
    graph_of(s, 9000);
}

#ifndef TEST_MPI
/*
 * No flag of lines stays for so long that its number comes again: each of 1024 slices clears some. Ranks wind their lanes on alike,
 * and of what was there before nothing is left when all parts of an area have had their turn.
 */
static void lines_are_cleaned(seat *s)
{
    enum { COUNT = 1000, EVERY = 1024, BEGIN = 100 * EVERY };
    int32_t *at = seat_alloc(s, 4 * COUNT);
    SEAT_CHECK(s, peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    SEAT_CHECK(s, peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    const peali_team *team = s->comm->device->team;
    peali_cuda_lane *lane = (peali_cuda_lane *)peali_team_token(team) - PEALI_CUDA_DIRECT_LANES;
    const uint32_t parts = (uint32_t)peali_team_layout(team)->area_bytes[PEALI_CUDA_LL] / EVERY;
    for (uint32_t k = 0; k < parts; k++) {
        const uint32_t epoch = BEGIN + k * EVERY - 2;
        seat_sync(s);
        seat_copy(s, &lane->epoch, &epoch, sizeof epoch);
        for (int i = 0; i < 4; i++)
            SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_OK);
    }
    seat_sync(s);
    SEAT_CHECK(s, peal_comm_error(s->comm) == PEAL_OK);
    const peali_post_half *half = (const peali_post_half *)(peali_team_post(team) + 1);
    for (size_t i = 0; i < peali_team_lines_bytes(team) / sizeof *half; i++)
        SEAT_CHECK(s, half[i] == 0 || (uint32_t)(half[i] >> 32) >= ((BEGIN - 2) | 0x80000000u));
    seat_free(s, at);
}
#endif

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
            last = post->orders[lane][i][0] >> 32 > last ? (uint32_t)(post->orders[lane][i][0] >> 32) : last;
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
    seat_copy(s, ones, at, sizeof ones);
    SEAT_CHECK(s, ones[0] == (int32_t)value && ones[255] == (int32_t)value);
    seat_free(s, at);
}

#ifndef TEST_MPI
/* GPUs that share what scratch there is have short lines, too short for as many messages as these ranks have: those go by bulk. */
static void many_ranks(seat *s)
{
    int32_t mine = s->rank, got[18] = {0}, *at = seat_alloc(s, sizeof got);
    seat_copy(s, at + s->rank, &mine, sizeof mine);
    SEAT_CHECK(s, peal_allgather(at + s->rank, at, 1, PEAL_INT32, s->comm, s->stream) == PEAL_OK);
    seat_copy(s, got, at, sizeof got);
    for (int r = 0; r < s->n; r++)
        SEAT_CHECK(s, got[r] == r);
    seat_free(s, at);
}

/* What takes more than one launch on some rank by the algorithm that is as a rule the best, all do by another. */
static void too_long(seat *s)
{
    for (size_t count = 500; count < 40000; count *= 8)
        check(s, &(deed){count, PEAL_INT32, PEAL_SUM}, (uint32_t)count);
    SEAT_CHECK(s, peal_comm_force(s->comm, PEAL_ALLREDUCE, "hierarchical") == PEAL_OK);
    void *at = seat_alloc(s, 4);
    SEAT_CHECK(s, peal_allreduce(at, at, 1, PEAL_INT32, PEAL_SUM, s->comm, s->stream) == PEAL_ERR_UNSUPPORTED); /* on all ranks */
    seat_free(s, at);
}
/* A sum of more than the ranks of a node: the messages that are in it, too. */
static void many_sources(seat *s)
{
    check(s, &(deed){5000, PEAL_INT32, PEAL_SUM}, 5);
}
#endif

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
static void on_all(seat_body *body)
{
    for (int k = 0; k < SEAT_DIVISIONS; k++)
        assert_int_equal(seats_run_in(seat_divisions[k], NULL, body, NULL), 0);
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
    assert_int_equal(seats_run_in("2+2", NULL, long_messages, NULL), 0);
}

static void test_lines_are_cleaned(void **state)
{
    assert_int_equal(seats_run_in("1+1", NULL, lines_are_cleaned, NULL), 0);
}

static void test_many_ranks(void **state)
{
    assert_int_equal(seats_run_in("9+9", NULL, many_ranks, NULL), 0);
}

static void test_too_long(void **state)
{
    assert_int_equal(seats_run_in("1+5+1+1", NULL, too_long, NULL), 0);
}

static void test_many_sources(void **state)
{
    assert_int_equal(seats_run_in("16+2", NULL, many_sources, NULL), 0);
}

static void test_every_type(void **state)
{
    assert_int_equal(seats_run_in("2+2", NULL, every_type, NULL), 0);
    assert_int_equal(seats_run_in("2+1", NULL, every_type, NULL), 0);
}

/* Messages come late, and those of different lanes overtake each other. */
static void test_slow(void **state)
{
    peali_fault faults[MOST];
    for (int r = 0; r < MOST; r++)
        faults[r] = (peali_fault){.seed = (uint64_t)r + 1, .delay = 40};
    assert_int_equal(seats_run_in("2+2", faults, graphs, NULL), 0);
    assert_int_equal(seats_run_in("3+1", faults, other_kinds, NULL), 0);
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
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm), cmocka_unit_test(test_every_type), cmocka_unit_test(test_premultiplied),
        cmocka_unit_test(test_other_kinds), cmocka_unit_test(test_graphs), cmocka_unit_test(test_beside_the_host),
        cmocka_unit_test(test_long_messages),   cmocka_unit_test(test_lines_are_cleaned), cmocka_unit_test(test_slow),
        cmocka_unit_test(test_many_ranks),      cmocka_unit_test(test_too_long),        cmocka_unit_test(test_many_sources),
    };
    setenv("PEAL_SCRATCH", "10m", 0); /* many_ranks */
    setenv("FAKE_CUDA_DEVICES", "4", 0);
    return cmocka_run_group_tests_name("device_nodes", tests, NULL, NULL);
}
#endif
