/* The ranks that a race runs on: MPI processes, or threads of this process. */
#ifndef PEALI_TEAM_H
#define PEALI_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include <peal/peal.h>

typedef struct peali_team peali_team;
struct peali_team {
    int rank, nranks;
    const char *library;   /* the MPI's version in its own words, NULL: none */
    const char *peer;      /* whose collectives `own` calls: "openmpi", "mpich", "intel"; NULL: none */
    peal_comm *comm;
    void *room;

    void (*barrier)(peali_team *team);

    /* Replaces each of N values by its maximum over the ranks. */
    void (*max)(peali_team *team, double *values, int n);

    /* Collective: by how many nanoseconds rank 0's clock is ahead of this rank's. NULL: ranks have one clock. */
    int64_t (*ahead)(peali_team *team);

    /* The peer's own collective, root 0; false where it refuses. IN is NULL: in place. */
    bool (*own)(peal_kind kind, const void *in, void *out, size_t count, peal_type type, peal_op op);

    /* A communicator of this rank and its neighbour (0 and 1, 2 and 3, ...), to be destroyed; NULL for a last rank without one. */
    peal_comm *(*pair)(peali_team *team);

    /* Ends all ranks: a rank that failed would leave the others waiting. */
    void (*quit)(peali_team *team);
};

/* Runs BODY as each rank and returns the highest exit code, or 2 where the ranks could not be had (printed, with what to do). */
int peali_team_threads(int nranks, int (*body)(peali_team *team, void *arg), void *arg);

/*
 * REFUSED: why this rank of COMMAND cannot take part ("": that is printed already), or NULL. Where any rank cannot, the first of
 * those says why and all leave together: a launcher ends the others as soon as one has failed, and they may have more to say.
 */
int peali_team_mpi(const char *command, const char *refused, int (*body)(peali_team *team, void *arg), void *arg);

#endif
