/* test_net.c over net_mpi, under mpirun: every process runs the suite, and those beyond N sit a run of N ranks out. */
#include <limits.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "net/net_mpi.h"

static int world_rank, world_size;

static int ranks_most(void)
{
    return world_size;
}

static void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* where MPICH raises what ends a request of any communicator */
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

/* Also where some ranks have given up on a net, and others not, all leave it, and none waits in vain. */
static void stop(void)
{
    int64_t began_ns = peali_clock_ns();
    MPI_Finalize();
    if (peali_clock_ns() - began_ns > 4 * INT64_C(1000000000)) {
        print_error("MPI_Finalize waited for ranks that never come\n");
        exit(1);
    }
}

static void gather_mpi(void *ctx, const void *mine, void *all, size_t bytes)
{
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm *)ctx);
}

static peali_net *net_of(int n)
{
    MPI_Comm shadow;
    peali_net *net = NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < n ? 0 : MPI_UNDEFINED, world_rank, &shadow);
    if (world_rank >= n)
        return NULL;
    if (peali_net_mpi_create(shadow, &net) != PEAL_OK)
        exit(2);
    return dressed(net, gather_mpi, &shadow);
}

/* Runs BODY on N ranks; all processes answer how many errors there were. */
static int run_ranks(int n, play *body)
{
    struct rank me = {.net = net_of(n), .second = net_of(n), .rank = world_rank, .n = n};
    int bad = 0;
    if (me.net)
        body(&me);
    MPI_Allreduce(&me.bad, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me.net) {
        me.second->destroy(me.second);
        me.net->destroy(me.net);
    }
    return bad;
}

static void meet_aside(const struct rank *me)
{
    for (int r = 1; r < me->n; r++) {
        if (me->rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (me->rank == r)
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 0, NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int r = 1; r < me->n && me->rank == 0; r++)
        MPI_Send(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD);
}

static const size_t large = (size_t)INT_MAX + 70000;

/* More than an int can count, from memory that is hardly there: only its marks cost a page. */
static void large_body(struct rank *me)
{
    size_t marks[] = {0, 1000003, (size_t)1 << 30, (size_t)INT_MAX - 1, (size_t)INT_MAX + 1, large - 1};
    unsigned char *data = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    peali_net_req req;
    if (!EXPECT(me, data != MAP_FAILED))
        return;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && me->rank == 0; i++)
        data[marks[i]] = (unsigned char)(i + 1);
    if (me->rank == 0)
        send_to(me, 1, 1, data, large, &req);
    else
        recv_from(me, 0, 1, data, large, &req);
    wait_for(me, &req);
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        EXPECT(me, data[marks[i]] == i + 1);
    EXPECT(me, data[marks[2] + 1] == 0 && data[marks[4] - 1] == 0);
    munmap(data, large);
}

static void large_message(void **state)
{
    (void)state;
    long spare = sysconf(_SC_AVPHYS_PAGES) / 1024 * (sysconf(_SC_PAGESIZE) / 1024), least;
    MPI_Allreduce(&spare, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    if (least < 6000 || world_size < 2) {
        print_message("skipped: a message of 2 GiB needs 6000 MiB of free memory (%ld here) and 2 ranks\n", least);
        skip();
    }
    assert_int_equal(run_ranks(2, large_body), 0);
}

/* The program's own message moves also while one of the net lies there that nobody receives yet. */
static void driven_body(struct rank *me)
{
    enum { BYTES = 1 << 18 }; /* by agreement, which takes the receiver more than one look */
    unsigned char *data = room(BYTES), stray = 1;
    const volatile unsigned char *last = data + BYTES - 1; /* any call of MPI would drive it */
    peali_net_req req;
    MPI_Request own;
    if (me->rank == 1) {
        send_to(me, 0, 7, &stray, 1, &req);
        wait_for(me, &req);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 1, NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memset(data, 1, BYTES);
        MPI_Send(data, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(data, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &own);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        int64_t until_ns = peali_clock_ns() + INT64_C(5000000000);
        while (!*last && peali_clock_ns() < until_ns)
            EXPECT(me, me->net->progress(me->net) == PEAL_OK);
        EXPECT(me, *last);
        MPI_Wait(&own, MPI_STATUS_IGNORE);
        recv_from(me, 1, 7, &stray, 1, &req);
        wait_for(me, &req);
    }
    free(data);
}

static void drives_the_program(void **state)
{
    if (world_size < 2)
        skip();
    assert_int_equal(run_ranks(2, driven_body), 0);
}

/* MPI's clock may be the date, which somebody sets at each look: what was taken back is so all the same, and no memory given up. */
double PMPI_Wtime(void)
{
    static double date_s;
    return date_s += 3600;
}

static void date_is_set(void **state)
{
    static const char *const given_up[] = {"still on their way", NULL};
    if (world_size < 2)
        skip();
    assert_int_equal(run_ranks(2, cancelled), 0);
    assert_false(logged(given_up));
}

static const struct CMUnitTest own_tests[] = {
    cmocka_unit_test(drives_the_program),
    cmocka_unit_test(date_is_set),
    cmocka_unit_test(large_message),
};
