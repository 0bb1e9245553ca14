/*
 * Whole collectives over each transport, under mpirun: right everywhere, and the same bits from threads over loop, from MPI, from
 * UCX and from shared memory in all its ways, for every algorithm that reduces. Then what PEAL_NET must refuse, what a
 * communicator over UCX costs, and what comes of each allocation that fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "sched/sched.h"
#include "team.h"
#include "world.h"

enum { COUNT = 5003, MOST = 8 };

/* How data goes from rank to rank. */
static const struct way {
    const char *name;
    peali_layout layout;
    bool in_place; /* buffers are where peers reach them */
} ways[] = {
    {"mpi", {.net = "mpi", .apart = true}, false},
    {"ucx", {.net = "ucx", .apart = true}, false},
    {"shared memory", {0}, false},
    {"shared buffers", {0}, true},
    {"pull", {.pull = true}, true},
    {"pull from staging", {.pull = true}, false},
    {"push", {.push = true}, false},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static const peal_type types[] = {PEAL_INT32, PEAL_FLOAT, PEAL_DOUBLE};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* One call: its algorithm, and what each rank that this process plays gave and got. */
struct scene {
    const peal_algo *algo;
    peal_type type;
    _Alignas(64) unsigned char out[MOST][COUNT * sizeof(double)];
    int bad;
};

static void fill(peal_type type, int rank, void *data)
{
    for (size_t i = 0; i < COUNT; i++) {
        double value = (double)((i * 31 + (size_t)rank * 17) % 1009) * 0.1; /* not exact: order shows in the bits */
        if (type == PEAL_INT32)
            ((int32_t *)data)[i] = (int32_t)(value * 10);
        else if (type == PEAL_FLOAT)
            ((float *)data)[i] = (float)value;
        else
            ((double *)data)[i] = value;
    }
}

static peal_status call(const struct scene *s, peal_comm *comm, const void *in, void *out)
{
    if (s->algo->kind == PEAL_REDUCE)
        return peal_reduce(in, out, COUNT, s->type, PEAL_SUM, 0, comm, NULL);
    if (s->algo->kind == PEAL_REDUCE_SCATTER)
        return peal_reduce_scatter(in, out, (size_t)(COUNT / peal_comm_size(comm)), s->type, PEAL_SUM, comm, NULL);
    return peal_allreduce(in, out, COUNT, s->type, PEAL_SUM, comm, NULL);
}

/* What this process gives and gets: ordinary memory, and such as peers reach. */
static double *room[2][2];

static void sum_in(peal_comm *comm, int rank, struct scene *s, double *in, double *out)
{
    size_t bytes = COUNT * peal_type_bytes(s->type);
    fill(s->type, rank, in);
    memcpy(out, s->out[rank], bytes);
    if (peal_comm_force(comm, s->algo->kind, s->algo->name) != PEAL_OK || call(s, comm, in, out) != PEAL_OK)
        __atomic_fetch_add(&s->bad, 1, __ATOMIC_RELAXED);
    memcpy(s->out[rank], out, bytes);
}

static void sum(peal_comm *comm, int rank, void *ctx)
{
    double in[COUNT], out[COUNT];
    sum_in(comm, rank, ctx, in, out);
}

/* A communicator of the first N processes by messages over transport NAME. */
static peal_status comm_over(const char *name, int n, peal_comm **comm)
{
    return world_comm(&(peali_layout){.net = name, .apart = true}, n, world_rank, comm);
}

static void equal(const struct scene *s, const struct scene *loop, const char *name, int n)
{
    if (world_rank < n && memcmp(s->out[world_rank], loop->out[world_rank], COUNT * peal_type_bytes(s->type)) != 0)
        fail_msg("%s %s, %d ranks, %s: %s and loop differ", peal_kind_name(s->algo->kind), s->algo->name, n,
                 peal_type_name(s->type), name);
    assert_int_equal(s->bad, 0);
}

static void compare(const peal_algo *algo, int n, int slices, peal_comm *const *comms)
{
    static struct scene loop, now;
    peali_layout apart[MOST];
    for (int r = 0; r < n; r++)
        apart[r] = (peali_layout){.net = "loop", .apart = true, .slices = slices};
    for (int t = 0; t < TYPES; t++) {
        loop = (struct scene){.algo = algo, .type = types[t]};
        assert_int_equal(team_run_in((unsigned)n, apart, sum, &loop), PEAL_OK);
        assert_int_equal(loop.bad, 0);
        for (int k = 0; k < WAYS; k++) {
            now = (struct scene){.algo = algo, .type = types[t]};
            if (!comms[k])
                continue;
            for (int twice = 0; twice < 2; twice++) /* what the first call shows of its buffers, the second one counts on */
                sum_in(comms[k], world_rank, &now, room[ways[k].in_place][0], room[ways[k].in_place][1]);
            equal(&now, &loop, ways[k].name, n);
        }
    }
}

static void all_algos(int n, int slices)
{
    peal_comm *comms[WAYS];
    for (int k = 0; k < WAYS; k++) {
        peali_layout layout = ways[k].layout;
        layout.slices = slices;
        comms[k] = NULL;
        if (slices > 0 || !layout.push)
            assert_int_equal(world_comm(&layout, n, world_rank, &comms[k]), PEAL_OK);
    }
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        const peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = 1};
        if ((*a)->kind != PEAL_ALLGATHER && (*a)->kind != PEAL_BROADCAST && peali_algo_fits(*a, &problem))
            compare(*a, n, slices, comms);
    }
    for (int k = 0; k < WAYS; k++)
        peal_comm_destroy(&comms[k]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Blocks are cut within slices, so all ways have as many: where landing areas make push have some, all are given more. */
static void same_bits(void **state)
{
    for (int k = 0; k < 2; k++) {
        room[0][k] = malloc(COUNT * sizeof(double));
        room[1][k] = peal_mem_alloc(COUNT * sizeof(double));
    }
    for (int n = 2; n <= world_size && n <= MOST; n++)
        all_algos(n, 4 + n);
    all_algos(world_size, 0);
    for (int k = 0; k < 2; k++) {
        free(room[0][k]);
        peal_mem_free(room[1][k]);
    }
}

static void impossible(void **state)
{
    peal_comm *comm;
    assert_int_equal(comm_over("loop", world_size, &comm), PEAL_ERR_CONFIG);
    assert_null(comm);
    assert_int_equal(comm_over(world_rank == 0 ? "mpi" : "ucx", world_size, &comm), PEAL_ERR_CONFIG);
    assert_null(comm);
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        pages = -1;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Fifty communicators beside a first one, each having called once: less than 1 MiB for each. */
static void small(void **state)
{
    enum { COMMS = 50 };
    peal_comm *comms[COMMS];
    static struct scene s = {.type = PEAL_DOUBLE};
    const peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = world_size, .nnodes = 1};
    for (const peal_algo *const *a = peali_algos; *a && !s.algo; a++)
        s.algo = (*a)->kind == PEAL_ALLREDUCE && peali_algo_fits(*a, &problem) ? *a : NULL;
    long before = 0;
    for (int k = 0; k < COMMS; k++) {
        assert_int_equal(comm_over("ucx", world_size, &comms[k]), PEAL_OK);
        sum(comms[k], world_rank, &s);
        if (k == 0)
            before = resident_kib();
    }
    long each = (resident_kib() - before) / (COMMS - 1);
    assert_int_equal(s.bad, 0);
    print_message("a communicator over ucx takes %ld KiB\n", each);
    assert_true(each < 1024);
    for (int k = 0; k < COMMS; k++)
        peal_comm_destroy(&comms[k]);
}

/* A legal program: the last to leave the call waits for nobody who has left it, here for one that is in MPI. */
static void leaves_alone(void **state)
{
    for (int k = 0; k < 20; k++) {
        peal_comm *comm;
        int token = 0;
        static struct scene s = {.type = PEAL_INT32};
        s.algo = peali_algo_find(PEAL_ALLREDUCE, "ring");
        assert_int_equal(comm_over("ucx", world_size, &comm), PEAL_OK);
        sum(comm, world_rank, &s);
        if (world_rank > 0)
            MPI_Recv(&token, 1, MPI_INT, world_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (world_rank < world_size - 1)
            MPI_Send(&token, 1, MPI_INT, world_rank + 1, 0, MPI_COMM_WORLD);
        assert_int_equal(s.bad, 0);
        peal_comm_destroy(&comm);
    }
}

/*
 * A legal program, before there are connections: rank 0, whose call takes so long that it tells all ranks of it, waits for none of
 * those who have left, here for the last, whom it has no other message for; and communicators to come are none the worse for what
 * it told those whose communicator is gone.
 */
static void slow_over(const char *net)
{
    peal_comm *comm;
    int32_t one = 1, sum_of_all = 0;
    assert_int_equal(comm_over(net, world_size, &comm), PEAL_OK);
    assert_int_equal(peal_comm_force(comm, PEAL_REDUCE, "binomial"), PEAL_OK);
    if (world_rank == 1)
        usleep(1500000);
    assert_int_equal(peal_reduce(&one, &sum_of_all, 1, PEAL_INT32, PEAL_SUM, 0, comm, NULL), PEAL_OK);
    if (world_rank == 0)
        MPI_Send(&sum_of_all, 1, MPI_INT, world_size - 1, 0, MPI_COMM_WORLD);
    if (world_rank == world_size - 1)
        MPI_Recv(&sum_of_all, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    assert_true(world_rank % (world_size - 1) != 0 || sum_of_all == world_size);
    peal_comm_destroy(&comm);
}

static void slow(void **state)
{
    slow_over("ucx");
    slow_over("mpi");
}

/* A legal program: MPI's own messages move while this rank waits for UCX's. */
static void host_moves(void **state)
{
    static char data[1 << 20];
    static struct scene s = {.type = PEAL_INT32};
    peal_comm *comm;
    MPI_Request request = MPI_REQUEST_NULL;
    s.algo = peali_algo_find(PEAL_ALLREDUCE, "ring");
    assert_int_equal(comm_over("ucx", world_size, &comm), PEAL_OK);
    for (int k = 0; k < 5; k++) {
        if (world_rank == 0)
            MPI_Irecv(data, sizeof(data), MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
        if (world_rank == 1)
            MPI_Ssend(data, sizeof(data), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        sum(comm, world_rank, &s);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    assert_int_equal(s.bad, 0);
    peal_comm_destroy(&comm);
}

/* A few sums, until one fails; where it was refused for want of memory, the next call ends as differing calls do. */
static peal_status sums(peal_comm *comm, int32_t *data)
{
    static const size_t counts[] = {1, 500, COUNT, 500};
    peal_status status = PEAL_OK;
    for (int k = 0; k < 4 && status == PEAL_OK; k++) {
        for (size_t i = 0; i < counts[k]; i++)
            data[i] = (int32_t)i + world_rank;
        status = peal_allreduce(data, data, counts[k], PEAL_INT32, PEAL_SUM, comm, NULL);
        for (size_t i = 0; i < counts[k] && status == PEAL_OK; i++)
            if (data[i] != world_size * (int32_t)i + world_size * (world_size - 1) / 2)
                return PEAL_ERR_SYSTEM;
    }
    return status == PEAL_ERR_MEMORY ? peal_barrier(comm, NULL) : status;
}

/* Allocation AT of the last rank fails. False where it does not make as many. */
static bool lacks_memory(const peali_layout *layout, long at, int32_t *data)
{
    bool lacks = world_rank == world_size - 1;
    peal_comm *comm;
    long before = peali_alloc_count();
    peali_alloc_fail_at(lacks ? at : 0);
    peal_status made = world_comm(layout, world_size, world_rank, &comm);
    peal_status status = made == PEAL_OK ? sums(comm, data) : PEAL_OK;
    peali_alloc_fail_at(0);
    bool failed = peali_alloc_count() - before >= at;
    peal_comm_destroy(&comm);
    assert_true(world_all(made == PEAL_OK) || world_all(made == PEAL_ERR_MEMORY));
    assert_true(world_all(status == PEAL_OK) || world_all(status == PEAL_ERR_MISMATCH));
    return !world_all(!lacks || !failed);
}

static void no_memory(void **state)
{
    enum { OWN = 3 }; /* of world_comm, which gives up without them */
    int32_t *data = peal_mem_alloc(COUNT * sizeof(*data));
    for (int k = 0; k < 3; k++) {
        peali_layout layout = ways[k].layout;
        layout.parley_ms = 10;
        long at = OWN;
        while (lacks_memory(&layout, at, data))
            at++;
        assert_true(at > 30);
    }
    peal_mem_free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(impossible),
        cmocka_unit_test(small),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(host_moves),
        cmocka_unit_test(no_memory),
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("transports", tests, NULL, NULL);
    MPI_Finalize();
    return failed != 0;
}
