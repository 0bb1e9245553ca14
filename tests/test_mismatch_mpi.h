/* test_mismatch.c with the processes of mpirun as ranks, over the transport that PEAL_NET names. */
#include <mpi.h>

#include <peal/mpi.h>

enum { SAMPLE = 29, MOST_SECONDS = 5 };

/* UCX may need a while to take back what a failed call has under way, and all scenes of a process wait for that. */
static int at_once(void)
{
    const char *net = getenv("PEAL_NET");
    return net && strcmp(net, "ucx") == 0 ? MOST_AT_ONCE / 6 : MOST_AT_ONCE;
}

static int world_rank, world_size;

static void play(struct player *p);
static int play_all(int n, const char *name);

static void begin(int *argc, char ***argv, char *path, size_t bytes)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    snprintf(path, bytes, "mismatch.%d.log", (int)getpid());
    MPI_Bcast(path, (int)bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void end(const char *path)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        unlink(path);
    MPI_Finalize();
}

static bool judges(void)
{
    return world_rank == 0;
}

static int nodes(void)
{
    return getenv("PEAL_NODES") ? 2 : 1;
}

static peal_comm *comm_new(struct player *p)
{
    peal_comm *comm = NULL;
    if (peal_comm_create_mpi(MPI_COMM_WORLD, &comm) != PEAL_OK)
        exit(2);
    return comm;
}

static void meet(struct player *p)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each process has a round of its own. */
static bool owns_round(const struct player *p)
{
    return true;
}

/* A late rank calls so late that others have said that it did not; one rank reads the log. */
static bool may_come(const struct round *r, int k)
{
    return peali_clock_ns() - r->start_ns > 3 * SECOND;
}

static void run_ranks(struct round *r)
{
    struct end mine[MOST_AT_ONCE];
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        exit(2);
    *p = (struct player){.rank = world_rank, .round = r};
    play(p);
    memcpy(mine, r->ends[world_rank], sizeof mine);
    MPI_Gather(mine, sizeof mine, MPI_BYTE, r->ends, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(p);
}

static void test_world(void **state)
{
    const char *net = getenv("PEAL_NET");
    assert_int_equal(play_all(world_size, net ? net : "mpi"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_world),
};
