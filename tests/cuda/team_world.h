/* Ranks that are threads or processes, with all that is needed to make a team of GPUs: cards are exchanged, statuses agreed on. */
#ifndef TEAM_WORLD_H
#define TEAM_WORLD_H

#include <pthread.h>

#include "cuda/team.h"

/* In memory that all ranks see. */
typedef struct team_world {
    pthread_barrier_t barrier;
    int n;
    int status[PEALI_CUDA_RANKS];
    peali_team_card cards[PEALI_CUDA_RANKS];
} team_world;

static inline void team_world_begin(team_world *w, int n)
{
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&w->barrier, &shared, (unsigned)n);
    pthread_barrierattr_destroy(&shared);
    w->n = n;
}

/* The worst status of all ranks, after all have come. */
static inline peal_status team_world_agree(team_world *w, int rank, peal_status status)
{
    w->status[rank] = status;
    pthread_barrier_wait(&w->barrier);
    for (int x = 0; x < w->n; x++)
        status = (peal_status)w->status[x] < status ? (peal_status)w->status[x] : status;
    pthread_barrier_wait(&w->barrier);
    return status;
}

/* This thread's current context becomes that of DEVICE, which stays retained. */
static inline peali_cu_ctx team_world_device(const peali_cuda_driver *cu, int device)
{
    peali_cu_ctx context = NULL;
    if (cu->DevicePrimaryCtxRetain(&context, device) != 0 || cu->CtxPushCurrent(context) != 0)
        return NULL;
    return context;
}

/* As team.h says it; *TEAM may be there on failure too. */
static inline peal_status team_world_meet(team_world *w, int rank, peali_team **team)
{
    peal_status status = peali_team_open(team, rank, &w->cards[rank]);
    pthread_barrier_wait(&w->barrier);
    if (status == PEAL_OK)
        status = peali_team_meet(*team, w->cards, w->n, rank);
    status = team_world_agree(w, rank, status);
    if (status == PEAL_OK)
        status = team_world_agree(w, rank, peali_team_prove(*team));
    return status;
}

static inline void team_world_close(team_world *w, int rank, peali_team **team)
{
    if (*team)
        peali_team_part(*team);
    pthread_barrier_wait(&w->barrier);
    peali_team_close(team);
    pthread_barrier_wait(&w->barrier);
}

#endif
