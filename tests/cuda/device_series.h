/* Calls that each make an odd multiple of what is there, so that no number of them comes to nothing: by graphs, on communicators. */
#ifndef DEVICE_SERIES_H
#define DEVICE_SERIES_H

#include "device_ranks.h"

/* Calls of COUNT numbers; the longer of two graphs has CALLS of them, each of which is so many NODES, or SEAT_MANY. */
typedef struct series {
    size_t count;
    int calls;
    size_t nodes;
} series;

typedef struct series_link {
    const series *of;
    int32_t *at;
    int calls;
} series_link;

/* Rank 0 gives what it has once and the others twice: a call makes it 2 n - 1 times as much, modulo 2^32. */
static inline peal_status series_call(const seat *s, const series *of, int32_t *at, peal_comm *comm, peali_cu_strm stream)
{
    return peal_allreduce(at, at, of->count, PEAL_INT32, PEAL_PREMUL_SUM, comm, stream);
}

static inline void series_premul(seat *s, peal_comm *comm)
{
    const int32_t times = s->rank == 0 ? 1 : 2;
    SEAT_CHECK(s, peal_comm_premul(comm, &times, PEAL_INT32) == PEAL_OK);
}

/* 1, 2, 3 and so on. */
static inline void series_begin(seat *s, const series *of, int32_t *at)
{
    uint32_t *first = malloc(of->count * sizeof *first);
    for (uint32_t i = 0; i < of->count; i++)
        first[i] = i + 1;
    seat_copy(s, at, first, of->count * sizeof *first);
    free(first);
}

/* Each number is what it was at first, times VALUE. */
static inline void series_end(seat *s, const series *of, const int32_t *at, uint32_t value)
{
    uint32_t *got = malloc(of->count * sizeof *got), wrong = 0;
    seat_copy(s, got, at, of->count * sizeof *got);
    for (uint32_t i = 0; i < of->count; i++)
        wrong += got[i] != value * (i + 1);
    if (wrong)
        seat_wrong(s, "%u of %zu numbers are wrong", wrong, of->count);
    free(got);
}

static inline void series_capture(seat *s, void *what)
{
    series_link *l = what;
    for (int k = 0; k < l->calls; k++)
        SEAT_CHECK(s, series_call(s, l->of, l->at, s->comm, s->stream) == PEAL_OK);
}

/* The communicator's first call is captured. */
static inline void series_replay(seat *s, const series *of, peali_cu_enum mode, int replays)
{
    uint32_t value = 1;
    series_link c = {of, seat_alloc(s, of->count * sizeof(int32_t)), of->calls}, d = {of, c.at, 1};
    const size_t nodes = of->nodes == SEAT_MANY ? SEAT_MANY : of->nodes * (size_t)of->calls;
    series_premul(s, s->comm);
    fake_exec all = seat_capture(s, mode, series_capture, &c, nodes), one = seat_capture(s, mode, series_capture, &d, of->nodes);
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK); /* on one GPU, to make a graph waits for the kernels of others */
    series_begin(s, of, c.at);
    for (int k = 0; k < replays; k++) {
        seat_must(cuGraphLaunch(all, s->stream), "cuGraphLaunch");
        if (k % 3 == 0)
            SEAT_CHECK(s, series_call(s, of, c.at, s->comm, s->stream) == PEAL_OK);
        if (k % 5 == 0)
            seat_must(cuGraphLaunch(one, s->stream), "cuGraphLaunch");
        for (int calls = of->calls + (k % 3 == 0) + (k % 5 == 0); calls > 0; calls--)
            value *= 2 * (uint32_t)s->n - 1;
    }
    series_end(s, of, c.at, value);
    seat_must(cuGraphExecDestroy(all), "cuGraphExecDestroy");
    seat_must(cuGraphExecDestroy(one), "cuGraphExecDestroy");
    seat_free(s, c.at);
}

/* On two communicators, each on a stream of its own; none waits for the other. */
static inline void series_on_two(seat *s, const series *of, int calls)
{
    uint32_t value = 1;
    peal_comm *second = NULL;
    peali_cu_strm stream;
    int32_t *a = seat_alloc(s, of->count * sizeof *a), *b = seat_alloc(s, of->count * sizeof *b);
    seat_must(s->cu->StreamCreate(&stream, PEALI_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    SEAT_CHECK(s, peal_comm_create_threads(s->ctx, s->rank, &second) == PEAL_OK);
    series_premul(s, s->comm);
    series_premul(s, second);
    series_begin(s, of, a);
    series_begin(s, of, b);
    for (int k = 0; k < calls; k++) {
        SEAT_CHECK(s, series_call(s, of, a, s->comm, s->stream) == PEAL_OK);
        SEAT_CHECK(s, series_call(s, of, b, second, stream) == PEAL_OK);
        value *= 2 * (uint32_t)s->n - 1;
    }
    seat_must(s->cu->StreamSynchronize(stream), "cuStreamSynchronize");
    series_end(s, of, a, value);
    series_end(s, of, b, value);
    peal_comm_destroy(&second);
    seat_must(s->cu->StreamDestroy(stream), "cuStreamDestroy");
    seat_free(s, a);
    seat_free(s, b);
}

#endif
