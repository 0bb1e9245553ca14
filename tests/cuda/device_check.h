/* A call on device memory, and the same on host memory: bits are to be the same. */
#ifndef DEVICE_CHECK_H
#define DEVICE_CHECK_H

#include "device_deeds.h"
#include "device_ranks.h"

enum { DEED_EDGE = 64 };

/* Its buffers on the device, and on the host those of the same call there. */
typedef struct deed_buffers {
    size_t in_bytes, out_bytes;
    unsigned char *in, *out, *dev_in, *dev_out; /* of dev_*: OFF bytes after the allocation */
    unsigned char *all_in, *all_out;
    unsigned char *const *rooms; /* two that are long enough; NULL: it takes memory of its own */
} deed_buffers;

/* Number I, of BYTES. */
static inline unsigned char *deed_room(const seat *s, const deed_buffers *b, int i, size_t bytes)
{
    return b->rooms ? b->rooms[i] : seat_alloc(s, bytes);
}

static inline void deed_buffers_make(const seat *s, const deed *d, deed_buffers *b)
{
    size_t one = d->count * peal_type_bytes(d->type), all = one * (size_t)s->n;
    b->in_bytes = d->kind == PEAL_REDUCE_SCATTER ? all : one;
    b->out_bytes = d->kind == PEAL_ALLGATHER ? all : one;
    size_t own = d->kind == PEAL_ALLGATHER ? (size_t)s->rank * one : 0;
    size_t part = d->kind == PEAL_REDUCE_SCATTER ? (size_t)s->rank * one : 0;
    bool joined = d->in_place || d->kind == PEAL_BROADCAST;
    size_t most = b->in_bytes > b->out_bytes ? b->in_bytes : b->out_bytes;
    b->all_in = calloc(1, most + 2 * DEED_EDGE);
    b->all_out = calloc(1, most + 2 * DEED_EDGE);
    b->in = b->all_in + DEED_EDGE;
    b->out = b->all_out + DEED_EDGE;
    b->dev_in = deed_room(s, b, 0, most + 2 * DEED_EDGE) + DEED_EDGE + d->shift;
    b->dev_out = joined ? b->dev_in : deed_room(s, b, 1, most + 2 * DEED_EDGE) + DEED_EDGE + d->shift;
    if (joined) { /* the shorter one is a part of the longer one */
        b->out = b->in + part;
        b->dev_out = b->dev_in + part;
        b->in += own;
        b->dev_in += own;
    }
    size_t count = b->in_bytes / peal_type_bytes(d->type);
    uint32_t seed = d->seed * 31 + (uint32_t)s->rank;
    if (d->seed == DEED_ANY)
        value_fill_any(b->in, count, d->type, seed);
    else
        value_fill(b->in, count, d->type, d->op, seed);
}

static inline void deed_buffers_free(const seat *s, const deed *d, deed_buffers *b)
{
    size_t one = d->count * peal_type_bytes(d->type);
    bool joined = d->in_place || d->kind == PEAL_BROADCAST;
    if (joined && d->kind == PEAL_ALLGATHER)
        b->dev_in -= (size_t)s->rank * one;
    if (!joined && !b->rooms)
        seat_free(s, b->dev_out - DEED_EDGE - d->shift);
    if (!b->rooms)
        seat_free(s, b->dev_in - DEED_EDGE - d->shift);
    free(b->all_in);
    free(b->all_out);
}

/* Memory comes and goes while no kernel of any rank runs: a driver may wait for all of them then, and they wait for each other. */
static inline void deed_rest(seat *s)
{
    SEAT_CHECK(s, peal_barrier(s->comm, NULL) == PEAL_OK);
}

static inline void deed_show(const char *name, const unsigned char *at, size_t bytes)
{
    fprintf(stderr, "  %s", name);
    for (size_t i = 0; i < bytes && i < 32; i++)
        fprintf(stderr, " %02x", at[i]);
    fprintf(stderr, "\n");
}

static inline void deed_show_first(const unsigned char *got, const unsigned char *want, size_t bytes)
{
    size_t first = 0;
    while (got[first] == want[first])
        first++;
    fprintf(stderr, "  from byte %zu of %zu on\n", first, bytes);
    deed_show("got ", got + first, bytes - first);
    deed_show("want", want + first, bytes - first);
}

/* The same on the host is what the device has to have. */
static inline void deed_compare(seat *s, const deed *d, deed_buffers *b)
{
    bool receives = d->kind != PEAL_REDUCE || s->rank == d->root;
    SEAT_CHECK(s, deed_call(d, b->in, b->out, s->comm, NULL) == PEAL_OK);
    unsigned char *got = malloc(b->out_bytes + 1);
    seat_copy(s, got, b->dev_out, b->out_bytes);
    if (receives && d->kind != PEAL_BARRIER && memcmp(got, b->out, b->out_bytes) != 0) {
        deed_describe(d, s->rank, s->n, "other bits than on the host");
        deed_show_first(got, b->out, b->out_bytes);
        s->wrong++;
    }
    free(got);
}

/* ROOMS: see deed_buffers. */
static inline void deed_check_in(seat *s, const deed *d, unsigned char *const *rooms)
{
    deed_buffers b = {.rooms = rooms};
    deed_buffers_make(s, d, &b);
    seat_copy(s, b.dev_in, b.in, b.in_bytes);
    deed_rest(s);
    peal_status status = deed_call(d, b.dev_in, b.dev_out, s->comm, s->stream);
    if (status != PEAL_OK) {
        deed_describe(d, s->rank, s->n, peal_status_text(status));
        s->wrong++;
    }
    seat_sync(s);
    if (status == PEAL_OK)
        deed_compare(s, d, &b);
    deed_rest(s);
    deed_buffers_free(s, d, &b);
}

static inline void deed_check(seat *s, const deed *d)
{
    deed_check_in(s, d, NULL);
}

#endif
