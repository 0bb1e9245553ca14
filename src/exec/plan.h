/*
 * A plan: a program made concrete for one count, type and operation. It holds no buffer addresses, so it serves every call with
 * those arguments, in place or not.
 */
#ifndef PEALI_PLAN_H
#define PEALI_PLAN_H

#include "exec/reduce.h"
#include "lower/lower.h"

/* What a plan is made for; two calls with equal jobs share it. */
typedef struct peali_job {
    const peal_algo *algo;
    size_t count;
    peal_type type;
    peal_op op;
    int32_t root;
    int32_t slices; /* K: the vector is cut into K slices, and the program runs once for each */
    int32_t window; /* W: slices in flight at once, 1 to K */
} peali_job;

typedef struct peali_plan {
    peali_arena arena;
    const peali_program *program;
    peali_job job;
    peali_reduce_fn reduce;
    size_t elem_bytes;
    size_t *cut_offset;    /* bytes from the start of a buffer to each cut; K == 1 only, else NULL */
    size_t *slot_offset;   /* bytes from the start of a slice's scratch to each scratch buffer */
    size_t scratch_bytes;  /* of one slice in flight */
    int32_t most_operands; /* of any instruction */
    size_t *land_offset;   /* push: bytes from the start of a landing area to each slot, for all ranks within reach */
    size_t land_bytes;     /* push: of a slice's landings at the rank that has most */
    size_t slice_bytes;    /* of the longest slice, in whole lines */
} peali_plan;

/* Makes the plan of JOB for PROGRAM. *OUT is freed with peali_plan_free. PEAL_OK or PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_plan_make(const peali_program *program, const peali_job *job, peali_plan **out);
void peali_plan_free(peali_plan **plan);

/* Bytes from the start of a buffer of the vector to cut CUT in slice SLICE, and to the start of that slice. */
size_t peali_plan_offset(const peali_plan *plan, int32_t cut, int32_t slice);
size_t peali_plan_slice(const peali_plan *plan, int32_t slice);

#endif
