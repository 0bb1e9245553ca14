/* N threads as the ranks of one communicator, for tests: each runs BODY(comm, rank, ctx). */
#ifndef TEAM_H
#define TEAM_H

#include <pthread.h>
#include <stdlib.h>

#include "comm/comm.h"

typedef struct team_member {
    peal_threads *threads;
    int rank;
    const peali_layout *layout;
    void (*body)(peal_comm *comm, int rank, void *ctx);
    void *ctx;
    peal_status status;
} team_member;

static void *team_thread(void *arg)
{
    team_member *m = arg;
    peal_comm *comm = NULL;
    m->status = peali_comm_create_threads(m->threads, m->rank, m->layout, &comm);
    if (m->status == PEAL_OK)
        m->body(comm, m->rank, m->ctx);
    peal_comm_destroy(&comm);
    return NULL;
}

/*
 * Runs BODY on N ranks, rank r in LAYOUTS[r] (NULL: the default); the first status that is not PEAL_OK of making the
 * communicators.
 */
static inline peal_status team_run_in(unsigned n, const peali_layout *layouts,
                                      void (*body)(peal_comm *comm, int rank, void *ctx), void *ctx)
{
    peal_threads *threads;
    peal_status status = peal_threads_create((int)n, &threads);
    if (status != PEAL_OK)
        return status;
    team_member *members = calloc(n, sizeof *members);
    pthread_t *ids = calloc(n, sizeof *ids);
    for (unsigned r = 0; r < n; r++) {
        members[r] = (team_member){threads, (int)r, layouts ? &layouts[r] : NULL, body, ctx, PEAL_OK};
        if (pthread_create(&ids[r], NULL, team_thread, &members[r]) != 0)
            abort();
    }
    for (unsigned r = 0; r < n; r++) {
        pthread_join(ids[r], NULL);
        if (status == PEAL_OK)
            status = members[r].status;
    }
    free(members);
    free(ids);
    peal_threads_destroy(&threads);
    return status;
}

static inline peal_status team_run(unsigned n, void (*body)(peal_comm *comm, int rank, void *ctx), void *ctx)
{
    return team_run_in(n, NULL, body, ctx);
}

#endif
