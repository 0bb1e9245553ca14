/* Peal without MPI: the ranks are threads of this process. In place: send and receive buffer are one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <peal/peal.h>

enum { NRANKS = 4, COUNT = 1000 };

struct seat {
    peal_threads *threads;
    int rank, wrong;
};

static void must(peal_status status, const char *what)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, peal_status_text(status));
    exit(1);
}

static void *be_rank(void *arg)
{
    struct seat *seat = arg;
    peal_comm *comm;
    int data[COUNT];
    must(peal_comm_create_threads(seat->threads, seat->rank, &comm), "peal_comm_create_threads");
    for (int i = 0; i < COUNT; i++)
        data[i] = seat->rank * i;
    must(peal_allreduce(data, data, COUNT, PEAL_INT32, PEAL_MAX, comm, NULL), "peal_allreduce");
    for (int i = 0; i < COUNT; i++)
        seat->wrong += data[i] != (NRANKS - 1) * i;
    peal_comm_destroy(&comm);
    return NULL;
}

int main(void)
{
    peal_threads *threads;
    struct seat seats[NRANKS];
    pthread_t ids[NRANKS];
    int wrong = 0;
    must(peal_threads_create(NRANKS, &threads), "peal_threads_create");
    for (int r = 0; r < NRANKS; r++) {
        seats[r] = (struct seat){threads, r, 0};
        if (pthread_create(&ids[r], NULL, be_rank, &seats[r]) != 0)
            return 1;
    }
    for (int r = 0; r < NRANKS; r++) {
        pthread_join(ids[r], NULL);
        wrong += seats[r].wrong;
    }
    peal_threads_destroy(&threads);
    printf("%d ranks, %d wrong\n", NRANKS, wrong);
    return wrong != 0;
}
