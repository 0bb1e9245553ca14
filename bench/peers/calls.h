/* The collectives as one MPI, or Peal's own calls, make them. race.c is linked with one of calls_mpi.c and calls_peal.c. */
#ifndef PEERS_CALLS_H
#define PEERS_CALLS_H

#include <stdbool.h>
#include <stddef.h>

enum kind { ALLREDUCE, ALLGATHER, REDUCE_SCATTER, BROADCAST, REDUCE, BARRIER, MEMORY, KINDS };

typedef struct job {
    enum kind kind;
    bool max;     /* the largest double; else the sum of floats */
    bool inplace; /* and broadcast, which has one buffer */
    int algo;     /* that Open MPI is to take; 0 leaves it the choice */
    size_t count; /* as the collective counts it */
    size_t bytes; /* of the longest vector in it */
    int calls;    /* at most, */
    long us;      /* and no more after this time */
    int sets;     /* of buffers: calls take them in turn */
} job;

/* Starts MPI. */
void calls_start(int *argc, char ***argv, int *rank, int *nranks);
void calls_end(void);

/* One line that says who this is. */
const char *calls_library(void);

/* How many algorithms of KIND can be asked for. */
int calls_algos(enum kind kind);

/* Does JOB once: IN to OUT, or OUT alone where it is in place. False where it failed. */
bool calls_do(const job *j, const void *in, void *out);

/* The algorithm that JOB takes; "-" where that is not said. */
const char *calls_choice(const job *j);

/* Memory that all ranks can reach; NULL where there is none. */
void *calls_share(size_t bytes);
void calls_unshare(void *memory);

#endif
