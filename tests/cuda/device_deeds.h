/* Calls that are drawn by a seed, and made on device memory or on host memory alike. */
#ifndef DEVICE_DEEDS_H
#define DEVICE_DEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device_values.h"
#include "sched/sched.h"

/* One call. */
typedef struct deed {
    peal_kind kind;
    size_t count;
    peal_type type;
    peal_op op;
    int root;
    bool in_place;
    size_t shift; /* bytes by which buffers are off the alignment of the allocation */
    uint32_t seed; /* DEED_ANY: elements are any bits, numbers or not */
} deed;

static const uint32_t DEED_ANY = UINT32_MAX;

static inline peal_status deed_call(const deed *d, const void *in, void *out, peal_comm *comm, void *stream)
{
    unsigned char scalar[2 * sizeof(long double)];
    bool few_bits = d->type == PEAL_FP8_E4M3 || d->type == PEAL_FP8_E5M2, premul = d->op == PEAL_PREMUL_SUM;
    value_fill(scalar, 1, d->type, few_bits ? PEAL_SUM : PEAL_PROD, d->seed + (unsigned)peal_comm_rank(comm));
    if (premul && peal_op_takes(d->op, d->type) && peal_comm_premul(comm, scalar, d->type) != PEAL_OK)
        return PEAL_ERR_INVALID;
    switch (d->kind) {
    case PEAL_ALLREDUCE: return peal_allreduce(in, out, d->count, d->type, d->op, comm, stream);
    case PEAL_ALLGATHER: return peal_allgather(in, out, d->count, d->type, comm, stream);
    case PEAL_REDUCE_SCATTER: return peal_reduce_scatter(in, out, d->count, d->type, d->op, comm, stream);
    case PEAL_BROADCAST: return peal_broadcast(out, d->count, d->type, d->root, comm, stream);
    case PEAL_REDUCE: return peal_reduce(in, out, d->count, d->type, d->op, d->root, comm, stream);
    default: return peal_barrier(comm, stream);
    }
}

static inline bool deed_on_gpus(peal_type type, peal_op op)
{
    bool complex = type == PEAL_COMPLEX_FLOAT || type == PEAL_COMPLEX_DOUBLE;
    return type != PEAL_LONG_DOUBLE && type != PEAL_COMPLEX_LONG_DOUBLE && !(complex && (op == PEAL_PROD || op == PEAL_PREMUL_SUM));
}

/* All but its size and place. */
static inline deed deed_draw(const unsigned r[6], int n)
{
    deed d = {(peal_kind)(r[0] % PEAL_KIND_COUNT), 0, (peal_type)(r[1] % PEAL_TYPE_COUNT), (peal_op)(r[2] % (PEAL_PREMUL_SUM + 1)),
              (int)(r[3] % (unsigned)n), r[4] & 1, 0, r[5]};
    bool sums = d.kind != PEAL_ALLGATHER && d.kind != PEAL_BROADCAST;
    if (sums && (!peal_op_takes(d.op, d.type) || !deed_on_gpus(d.type, d.op)))
        d.type = PEAL_INT32;
    return d;
}

static inline void deed_describe(const deed *d, int rank, int n, const char *what)
{
    fprintf(stderr, "rank %d of %d: %s %zu %s %s root %d%s shift %zu seed %u: %s\n", rank, n, peal_kind_name(d->kind), d->count,
            peal_type_name(d->type), peal_op_name(d->op), d->root, d->in_place ? " in place" : "", d->shift, d->seed, what);
}

#endif
