/*
 * Random collectives, one after the other without a barrier, and what must come of them: for ranks that are threads, and for those
 * that are processes.
 */
#ifndef TURNS_H
#define TURNS_H

#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "sched/sched.h"

enum { TURN_RANKS = 13 };

/* One call, as one rank makes it. Each buffer has room for N times COUNT elements; what it holds is overwritten. */
typedef struct turn {
    const peal_algo *algo;
    unsigned call;
    int n, rank, root, in_place;
    size_t count;
    uint32_t *in, *out;
} turn;

static inline unsigned turn_next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* The shares of one rank: wrapping integer sums show a share that is missing, doubled or of another call. */
static inline uint32_t turn_share(unsigned call, int rank, size_t i)
{
    return (uint32_t)(call * 2654435761u + (unsigned)rank * 40503u + (unsigned)i * 69069u) | 1;
}

/* Divides N ranks into 1 to 4 nodes: "4+3". */
static inline void turn_nodes(char *text, size_t bytes, int n, unsigned *seed)
{
    int nodes = 1 + (int)(turn_next(seed) % 4), at = 0;
    nodes = nodes < n ? nodes : n;
    for (int k = 0, left = n; k < nodes; k++) {
        int size = k == nodes - 1 ? left : 1 + (int)(turn_next(seed) % (unsigned)(left - (nodes - k) + 1));
        left -= size;
        at += snprintf(text + at, bytes - (size_t)at, "%s%d", k ? "+" : "", size);
    }
}

/* One of the algorithms for N ranks on NODES. */
static inline const peal_algo *turn_algo(int n, const char *nodes, unsigned *seed)
{
    int node[TURN_RANKS], nnodes = 0;
    for (int r = 0; r < n; nnodes++) {
        char *end;
        for (long size = strtol(nodes, &end, 10); size > 0; size--)
            node[r++] = nnodes;
        nodes = end + 1;
    }
    const peal_algo *fit[64];
    unsigned nfit = 0;
    for (const peal_algo *const *a = peali_algos; *a && nfit < 64; a++) {
        peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = nnodes, .node = node};
        if (peali_algo_fits(*a, &problem))
            fit[nfit++] = *a;
    }
    return fit[turn_next(seed) % nfit];
}

/* Draws what all ranks of a call have alike. */
static inline void turn_draw(turn *t, const size_t *sizes, unsigned nsizes, const char *nodes, unsigned *seed)
{
    t->count = sizes[turn_next(seed) % nsizes];
    t->in_place = turn_next(seed) % 2;
    t->algo = turn_algo(t->n, nodes, seed);
    peal_kind kind = t->algo->kind;
    t->root = kind == PEAL_BROADCAST || kind == PEAL_REDUCE ? (int)(turn_next(seed) % (unsigned)t->n) : 0;
}

/* Where this rank's IN and OUT begin: in place, the buffer that holds the whole vector is both: OUT, but for a reduce-scatter. */
static inline void turn_buffers(const turn *t, uint32_t **in, uint32_t **out)
{
    peal_kind kind = t->algo->kind;
    size_t part = (size_t)t->rank * t->count;
    *in = t->in;
    *out = t->out;
    if (t->in_place || kind == PEAL_BROADCAST) {
        *in = t->out + (kind == PEAL_ALLGATHER ? part : 0);
        *out = t->out + (kind == PEAL_REDUCE_SCATTER ? part : 0);
    }
}

static inline void turn_fill(const turn *t, uint32_t *in)
{
    peal_kind kind = t->algo->kind;
    size_t at = kind == PEAL_ALLGATHER ? (size_t)t->rank * t->count : 0;
    size_t n = kind == PEAL_REDUCE_SCATTER ? (size_t)t->n * t->count : t->count;
    for (size_t i = 0; i < n && (kind != PEAL_BROADCAST || t->rank == t->root); i++)
        in[i] = turn_share(t->call, t->rank, at + i);
}

/* Fills the input, and starts the call. */
static inline peal_status turn_start(peal_comm *comm, const turn *t, peal_request **request)
{
    uint32_t *in, *out;
    turn_buffers(t, &in, &out);
    turn_fill(t, in);
    peal_kind kind = t->algo->kind;
    peal_status status = peal_comm_force(comm, kind, t->algo->name);
    if (status != PEAL_OK)
        return status;
    switch (kind) {
    case PEAL_ALLREDUCE:
        return peal_iallreduce(in, out, t->count, PEAL_UINT32, PEAL_SUM, comm, NULL, request);
    case PEAL_ALLGATHER:
        return peal_iallgather(in, out, t->count, PEAL_UINT32, comm, NULL, request);
    case PEAL_REDUCE_SCATTER:
        return peal_ireduce_scatter(in, out, t->count, PEAL_UINT32, PEAL_SUM, comm, NULL, request);
    case PEAL_BROADCAST:
        return peal_ibroadcast(out, t->count, PEAL_UINT32, t->root, comm, NULL, request);
    default:
        out = t->rank == t->root ? out : NULL;
        return peal_ireduce(in, out, t->count, PEAL_UINT32, PEAL_SUM, t->root, comm, NULL, request);
    }
}

static inline uint32_t turn_expected(const turn *t, size_t i)
{
    uint32_t sum = 0;
    if (t->algo->kind == PEAL_BROADCAST)
        return turn_share(t->call, t->root, i);
    if (t->algo->kind == PEAL_ALLGATHER)
        return turn_share(t->call, (int)(i / t->count), i);
    for (int r = 0; r < t->n; r++)
        sum += turn_share(t->call, r, i);
    return sum;
}

/* After the call: 1 where this rank's result is wrong, which is printed. */
static inline int turn_wrong(const turn *t)
{
    uint32_t *in, *out;
    turn_buffers(t, &in, &out);
    peal_kind kind = t->algo->kind;
    size_t from = kind == PEAL_REDUCE_SCATTER ? (size_t)t->rank * t->count : 0;
    size_t n = kind == PEAL_REDUCE && t->rank != t->root ? 0 : kind == PEAL_ALLGATHER ? (size_t)t->n * t->count : t->count;
    for (size_t i = 0; i < n; i++)
        if (out[i] != turn_expected(t, from + i)) {
            fprintf(stderr, "call %u rank %d of %d: %s %s count %zu root %d in place %d: element %zu is wrong\n", t->call, t->rank,
                    t->n, peal_kind_name(kind), t->algo->name, t->count, t->root, t->in_place, i);
            return 1;
        }
    return 0;
}

/* The whole call; 1 where it failed or its result is wrong. */
static inline int turn_play(peal_comm *comm, const turn *t)
{
    peal_request *request;
    return turn_start(comm, t, &request) != PEAL_OK || peal_wait(&request) != PEAL_OK || turn_wrong(t);
}

#endif
