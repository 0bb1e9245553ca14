/* Ranks that are threads or processes, with all that is needed to make a team of GPUs: cards are exchanged, statuses agreed on. */
#ifndef TEAM_WORLD_H
#define TEAM_WORLD_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/team.h"

/* In memory that all ranks see. */
typedef struct team_world {
    pthread_barrier_t barrier;
    int n;
    int status[PEALI_CUDA_RANKS];
    peali_team_card cards[PEALI_CUDA_RANKS];
    bool far;
    void *staged[PEALI_CUDA_RANKS]; /* of ranks that are threads */
} team_world;

static inline void team_world_begin(team_world *w, int n)
{
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&w->barrier, &shared, (unsigned)n);
    pthread_barrierattr_destroy(&shared);
    w->n = n;
    w->far = false;
    memset(w->staged, 0, sizeof w->staged);
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

/* The scratch of ranks that do not reach each other. */
static inline peal_status team_world_stage(team_world *w, int rank, peali_team *team)
{
    const size_t bytes = (peali_team_layout(team)->bytes + 4095) / 4096 * 4096;
    w->staged[rank] = aligned_alloc(4096, bytes);
    memset(w->staged[rank], 0, bytes);
    peal_status status = team_world_agree(w, rank, peali_team_stage(team, rank, w->staged[rank]));
    for (int x = 0; x < w->n && status == PEAL_OK; x++)
        if (x != rank)
            status = peali_team_stage(team, x, w->staged[x]);
    return team_world_agree(w, rank, status);
}

/* Has any rank found a device far? */
static inline bool team_world_far(team_world *w, int rank, const peali_team *team)
{
    if (peali_team_far(team))
        __atomic_store_n(&w->far, true, __ATOMIC_RELAXED);
    (void)team_world_agree(w, rank, PEAL_OK);
    return __atomic_load_n(&w->far, __ATOMIC_RELAXED);
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
        status = team_world_agree(w, rank, team_world_far(w, rank, *team) ? PEAL_OK : peali_team_prove(*team));
    if (status == PEAL_OK && team_world_far(w, rank, *team))
        status = team_world_stage(w, rank, *team);
    return status;
}

static inline void team_world_close(team_world *w, int rank, peali_team **team)
{
    if (*team)
        peali_team_part(*team);
    pthread_barrier_wait(&w->barrier);
    peali_team_close(team);
    free(w->staged[rank]);
    w->staged[rank] = NULL;
    pthread_barrier_wait(&w->barrier);
}

#endif
