/*
 * Eight threads, eight communicators, no order among them, and all of them used for the first time at once. And what MPI does not
 * allow: two threads of a rank in the first call on one, and the end of one that a thread is in a call on.
 */
#include <pthread.h>
#include <unistd.h>

#include "pmpi.h"

enum { THREADS = 8, ROUNDS = 200, MOST = 3000, MAKERS = 2, MADE = 150 };

static pthread_barrier_t barrier;
static MPI_Comm comms[THREADS];

static void one(MPI_Comm comm, int count, int seed)
{
    long in[MOST] = {0}, out[MOST];
    for (int i = 0; i < count; i++)
        in[i] = (long)(rank + 1) * (i + seed);
    CHECK(MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == (long)nranks * (nranks + 1) / 2 * (i + seed));
}

/* Through the scratch memory of the communicator: the one by rows, the others whole. */
static void bcast(MPI_Comm comm, int root, int seed)
{
    enum { ROWS = 300 };
    int data[2 * ROWS], gaps = rank % 2;
    MPI_Datatype row = MPI_INT;
    for (int i = 0; i < 2 * ROWS; i++)
        data[i] = rank == root ? seed + i / (gaps + 1) : -1;
    if (gaps) {
        MPI_Type_vector(ROWS, 1, 2, MPI_INT, &row);
        MPI_Type_commit(&row);
    }
    CHECK(MPI_Bcast(data, gaps ? 1 : ROWS, row, root, comm) == MPI_SUCCESS);
    for (int i = 0; i < ROWS; i++)
        CHECK(data[i * (gaps + 1)] == seed + i);
    if (gaps)
        MPI_Type_free(&row);
}

static void *worker(void *arg)
{
    int me = (int)(size_t)arg;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; i++) {
        one(comms[me], 1 + i * (me + 3) % MOST, i + me);
        bcast(comms[me], i % nranks, i + me);
    }
    return NULL;
}

/*
 * MPICH is done with a communicator when its last operation is, and deletes its attributes then, in either thread. Open MPI 4.1
 * crashes where one is freed before that, by itself.
 */
static void *maker(void *arg)
{
    for (int i = 0; i < MADE; i++) {
        int one = 1, sum = 0, other = 0;
        MPI_Comm comm;
        MPI_Request request;
#ifdef OPEN_MPI
        const int early = 0;
#else
        const int early = i % 2;
#endif
        MPI_Comm_split(comms[(size_t)arg], 0, rank, &comm);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        MPI_Iallreduce(&one, &other, 1, MPI_INT, MPI_SUM, comm, &request);
        if (early)
            MPI_Comm_free(&comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (!early)
            MPI_Comm_free(&comm);
        CHECK(sum == nranks && other == nranks);
    }
    return NULL;
}

static void *first(void *arg)
{
    int got = 0;
    return (void *)(size_t)(MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)arg) == MPI_SUCCESS && got > 0);
}

/* Rank 0's have begun when the others come: one is right, and the other is refused. */
static void two_at_once(void)
{
    pthread_t threads[2];
    void *well[2];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank > 0)
        usleep(500000);
    const int n = rank > 0 ? 1 : 2;
    for (int i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, first, &comm) == 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], &well[i]);
    CHECK(rank > 0 ? !!well[0] : !well[0] != !well[1]);
    MPI_Comm_free(&comm);
}

static void *unmet(void *arg)
{
    int got;
    return (void *)(size_t)MPI_Allreduce(&rank, &got, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)arg);
}

/* Nor: to free a communicator that a thread is in a call on. The call ends. */
static void freed_meanwhile(void)
{
    pthread_t thread;
    MPI_Comm comm, same;
    void *error = NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    sum_ranks(comm);
    same = comm;
    if (rank == 0) {
        CHECK(pthread_create(&thread, NULL, unmet, &same) == 0);
        usleep(300000);
    }
    MPI_Comm_free(&comm);
    if (rank == 0)
        pthread_join(thread, &error);
    CHECK(rank > 0 || error);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)(size_t)((i + rank) % THREADS)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < MAKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, maker, (void *)(size_t)i) == 0);
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    two_at_once();
    freed_meanwhile();
    expect("taken", 2L * THREADS * ROUNDS + (long)MAKERS * MADE + 3);
    MPI_Finalize();
    return 0;
}
