/*
 * Whole collectives over each transport, under mpirun: right everywhere, and the same bits from threads over loop, from MPI, from
 * UCX and from shared memory, for every algorithm that reduces. Then what PEAL_NET must refuse, and what a communicator over UCX
 * costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/sched.h"
#include "team.h"
#include "world.h"

enum { COUNT = 5003, MOST = 8, WAYS = 3 };

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

static void sum(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    double in[COUNT];
    fill(s->type, rank, in);
    if (peal_comm_force(comm, s->algo->kind, s->algo->name) != PEAL_OK || call(s, comm, in, s->out[rank]) != PEAL_OK)
        __atomic_fetch_add(&s->bad, 1, __ATOMIC_RELAXED);
}

/* A communicator of the first N processes over transport NAME, with shared memory or without. */
static peal_status comm_of(const char *name, bool apart, int n, peal_comm **comm)
{
    return world_comm(&(peali_layout){.net = name, .apart = apart}, n, world_rank, comm);
}

static peal_status comm_over(const char *name, int n, peal_comm **comm)
{
    return comm_of(name, true, n, comm);
}

static void equal(const struct scene *s, const struct scene *loop, const char *name, int n)
{
    if (world_rank < n && memcmp(s->out[world_rank], loop->out[world_rank], COUNT * peal_type_bytes(s->type)) != 0)
        fail_msg("%s %s, %d ranks, %s: %s and loop differ", peal_kind_name(s->algo->kind), s->algo->name, n,
                 peal_type_name(s->type), name);
    assert_int_equal(s->bad, 0);
}

static void compare(const peal_algo *algo, int n, peal_comm *const *comms)
{
    static const char *const names[WAYS] = {"mpi", "ucx", "shared memory"};
    static struct scene loop, now;
    peali_layout apart[MOST];
    for (int r = 0; r < n; r++)
        apart[r] = (peali_layout){.net = "loop", .apart = true};
    for (int t = 0; t < TYPES; t++) {
        loop = (struct scene){.algo = algo, .type = types[t]};
        assert_int_equal(team_run_in((unsigned)n, apart, sum, &loop), PEAL_OK);
        assert_int_equal(loop.bad, 0);
        for (int k = 0; k < WAYS; k++) {
            now = (struct scene){.algo = algo, .type = types[t]};
            if (comms[k])
                sum(comms[k], world_rank, &now);
            equal(&now, &loop, names[k], n);
        }
    }
}

static void same_bits(void **state)
{
    for (int n = 2; n <= world_size && n <= MOST; n++) {
        peal_comm *comms[WAYS];
        assert_int_equal(comm_of("mpi", true, n, &comms[0]), PEAL_OK);
        assert_int_equal(comm_of("ucx", true, n, &comms[1]), PEAL_OK);
        assert_int_equal(comm_of("mpi", false, n, &comms[2]), PEAL_OK);
        for (const peal_algo *const *a = peali_algos; *a; a++) {
            const peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = 1};
            if ((*a)->kind != PEAL_ALLGATHER && (*a)->kind != PEAL_BROADCAST && peali_algo_fits(*a, &problem))
                compare(*a, n, comms);
        }
        for (int k = 0; k < WAYS; k++)
            peal_comm_destroy(&comms[k]);
        MPI_Barrier(MPI_COMM_WORLD);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(impossible),
        cmocka_unit_test(small),
        cmocka_unit_test(leaves_alone),
        cmocka_unit_test(host_moves),
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("transports", tests, NULL, NULL);
    MPI_Finalize();
    return failed != 0;
}
