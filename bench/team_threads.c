/* Ranks as threads: one barrier on two atomics serves all that they agree on. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "team.h"

struct room {
    peal_threads *threads;
    int nranks;
    atomic_int arrived;
    atomic_int round; /* the last to arrive raises it (release); the others see it raised (acquire) */
    const double **values; /* of each rank, between two barriers */
    peal_threads **pairs;  /* of each even rank and the next */
    int (*body)(peali_team *team, void *arg);
    void *arg;
};

struct seat {
    struct room *room;
    int rank, result;
    pthread_t thread;
};

/* The core is given away at once: ranks often outnumber the cores. */
static void barrier(peali_team *team)
{
    struct room *room = team->room;
    int round = atomic_load_explicit(&room->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&room->arrived, 1, memory_order_acq_rel) == room->nranks - 1) {
        atomic_store_explicit(&room->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&room->round, round + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&room->round, memory_order_acquire) == round)
        peali_clock_yield();
}

static void max(peali_team *team, double *values, int n)
{
    struct room *room = team->room;
    double *mine = malloc((size_t)n * sizeof *mine);
    if (!mine)
        team->quit(team);
    memcpy(mine, values, (size_t)n * sizeof *mine);
    room->values[team->rank] = mine;
    barrier(team);
    for (int r = 0; r < room->nranks; r++)
        for (int i = 0; i < n; i++)
            values[i] = room->values[r][i] > values[i] ? room->values[r][i] : values[i];
    barrier(team);
    free(mine);
}

static void quit(peali_team *team)
{
    fflush(NULL);
    _Exit(1);
}

static peal_comm *pair(peali_team *team)
{
    struct room *room = team->room;
    peal_threads **threads = &room->pairs[team->rank / 2];
    peal_comm *comm = NULL;
    bool even = team->rank % 2 == 0;
    if (even && !*threads && peal_threads_create(2, threads) != PEAL_OK)
        quit(team);
    barrier(team);
    if (even && team->rank + 1 == team->nranks)
        return NULL;
    if (peal_comm_create_threads(*threads, team->rank % 2, &comm) != PEAL_OK)
        quit(team);
    return comm;
}

static void *sit(void *arg)
{
    struct seat *seat = arg;
    struct room *room = seat->room;
    peali_team team = {.rank = seat->rank, .nranks = room->nranks, .room = room,
                       .barrier = barrier, .max = max, .pair = pair, .quit = quit};
    if (peal_comm_create_threads(room->threads, seat->rank, &team.comm) != PEAL_OK)
        quit(&team);
    seat->result = room->body(&team, room->arg);
    peal_comm_destroy(&team.comm);
    return NULL;
}

static int fill(struct room *room, struct seat *seats)
{
    int result = 0;
    for (int r = 0; r < room->nranks; r++) {
        seats[r] = (struct seat){.room = room, .rank = r};
        if (pthread_create(&seats[r].thread, NULL, sit, &seats[r]) != 0) {
            fprintf(stderr, "peal: the system refuses thread %d of %d\n", r, room->nranks);
            quit(NULL);
        }
    }
    for (int r = 0; r < room->nranks; r++) {
        pthread_join(seats[r].thread, NULL);
        result = seats[r].result > result ? seats[r].result : result;
    }
    return result;
}

int peali_team_threads(int nranks, int (*body)(peali_team *team, void *arg), void *arg)
{
    struct room room = {.nranks = nranks, .body = body, .arg = arg};
    struct seat *seats = calloc((size_t)nranks, sizeof *seats);
    room.values = calloc((size_t)nranks, sizeof *room.values);
    room.pairs = calloc((size_t)nranks, sizeof *room.pairs);
    int result = 2;
    if (!seats || !room.values || !room.pairs)
        fprintf(stderr, "peal: no memory for %d threads\n", nranks);
    else if (peal_threads_create(nranks, &room.threads) == PEAL_OK)
        result = fill(&room, seats);
    peal_threads_destroy(&room.threads);
    for (int i = 0; room.pairs && i < nranks; i++)
        peal_threads_destroy(&room.pairs[i]);
    free(room.pairs);
    free(room.values);
    free(seats);
    return result;
}
