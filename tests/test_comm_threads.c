/*
 * Threads that make communicators of MPI and of Peal at once, each of some ranks and of all, and use both: MPI_THREAD_MULTIPLE. MPI
 * itself must bear what Peal asks of it meanwhile, which MPI_Comm_create of Open MPI 4.1 did not.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <peal/mpi.h>
#include <peal/peal.h>

enum { THREADS = 4, ROUNDS = 16 };

static int rank, nranks, wrong;
static MPI_Comm own[THREADS];

static void check(int ok, int line)
{
    if (ok)
        return;
    fprintf(stderr, "rank %d: line %d is not so\n", rank, line);
    __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
}
#define CHECK(what) check(what, __LINE__)

static void sum(peal_comm *comm, peal_request **request, int *one)
{
    *one = 1;
    CHECK(peal_iallreduce(one, one, 1, PEAL_INT32, PEAL_SUM, comm, NULL, request) == PEAL_OK);
}

static void turn(MPI_Comm mine, int color, int key, int first)
{
    MPI_Comm some;
    peal_comm *comm[2] = {NULL, NULL};
    peal_request *request[2];
    int sums[2], n;
    MPI_Comm_split(mine, color, key, &some);
    MPI_Comm_size(some, &n);
    CHECK(peal_comm_create_mpi(some, &comm[0]) == PEAL_OK && peal_comm_create_mpi(mine, &comm[1]) == PEAL_OK);
    for (int i = 0; i < 2; i++)
        sum(comm[i], &request[i], &sums[i]);
    for (int i = 0; i < 2; i++)
        CHECK(peal_wait(&request[(first + i) % 2]) == PEAL_OK);
    CHECK(sums[0] == n && sums[1] == nranks);
    for (int i = 0; i < 2; i++)
        peal_comm_destroy(&comm[(first + i) % 2]);
    MPI_Comm_free(&some);
}

static void *thread(void *number)
{
    unsigned me = (unsigned)(size_t)number, seed = me + 1;
    for (int i = 0; i < ROUNDS; i++)
        for (int r = 0, color, key; r < nranks; r++) {
            color = rand_r(&seed) % 2;
            key = rand_r(&seed) % 50;
            if (r == rank)
                turn(own[me], color, key, (rank + i) % 2);
        }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t id[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[t]);
    for (size_t t = 0; t < THREADS && provided == MPI_THREAD_MULTIPLE; t++)
        CHECK(pthread_create(&id[t], NULL, thread, (void *)t) == 0);
    for (int t = 0; t < THREADS && provided == MPI_THREAD_MULTIPLE; t++)
        pthread_join(id[t], NULL);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&own[t]);
    MPI_Finalize();
    return provided == MPI_THREAD_MULTIPLE ? wrong : 77;
}
