/*
 * A plan: a program made concrete for one count, type and operation. It holds no buffer addresses, so it serves every call with
 * those arguments, in place or not.
 */
#ifndef PEALI_PLAN_H
#define PEALI_PLAN_H

#include "exec/reduce.h"
#include "exec/trial.h"
#include "lower/lower.h"

/*
 * Up to how many bytes a signature and its data are one message, among NRANKS: copying costs less than a second one. As there is
 * room for one to each rank and from it, with many ranks these are fewer.
 */
static inline size_t peali_plan_eager(int nranks)
{
    enum { LEAST = 1024, MOST = 16 * 1024, ALL = 512 * 1024, ALIGN = 64 };
    size_t each = (size_t)ALL / (size_t)nranks / ALIGN * ALIGN;
    return each < LEAST ? LEAST : each < MOST ? each : MOST;
}

/* What a plan is made for; two calls with equal jobs share it. */
typedef struct peali_job {
    peal_kind kind; /* of the call: its algorithm's, or PEAL_BARRIER */
    const peal_algo *algo;
    size_t count;
    peal_type type;
    peal_op op;
    int32_t root;
    int32_t slices; /* K: the vector is cut into K slices, and the program runs once for each */
    int32_t window; /* W: slices in flight at once, 1 to K */
    peali_mode mode; /* how ranks within reach meet */
} peali_job;

/*
 * The vector has count elements (allreduce, reduce, broadcast), cut into slices first and each slice into blocks, so that a range
 * of blocks is contiguous in a slice. Else it has nranks * count, and every block is cut into the same slices: then, with more
 * than one slice, data moves block by block.
 */
enum { PEALI_PLAN_LINE_BYTES = 56 }; /* what fits beside a flag */
#define PEALI_PLAN_IN_LINE SIZE_MAX

/* A part of the vector: bytes from its start. */
typedef struct peali_extent {
    size_t at, bytes;
} peali_extent;

/* Which buffers get what is not reread past the caches; said by who made the plan. Cold: those that no call wrote to lately. */
typedef enum peali_stream { PEALI_STREAM_NONE, PEALI_STREAM_COLD, PEALI_STREAM_ALL } peali_stream;

typedef struct peali_plan {
    peali_arena arena;
    const peali_program *program;
    peali_job job;
    peali_reduce_fn reduce;
    peali_reduce_fn scale;  /* of a premultiplied sum: multiplies; else NULL */
    peali_divide_fn divide; /* of an average; else NULL */
    size_t elem_bytes;
    size_t total;          /* elements of the vector */
    peali_extent given, wanted; /* of IN and OUT, what the user has there */
    bool blockwise;
    peali_stream stream;
    size_t warm;           /* cold: so many of the last OUTs are in the caches still, as far as they are remembered */
    size_t unit_bytes;     /* blockwise: room for one block of one slice, in scratch, staging and landings */
    size_t least, over;    /* elements of the shortest slice, and what of the vector is left over by such slices */
    size_t *cut_offset[2]; /* bytes from a slice's start to each cut: of the shortest, and of one element more; not blockwise */
    size_t *slot_offset;   /* bytes from the start of a slice's scratch to each scratch buffer */
    size_t scratch_bytes;  /* of one slice in flight */
    size_t slice_bytes;    /* of the longest slice of the vector */
    size_t *land_offset;   /* push: bytes from the start of a landing area to each slot, for all ranks within reach; or IN_LINE */
    int32_t *readers;      /* push: ranks that read what lands in that slot */
    size_t land_bytes;     /* push: of a slice's landings at the rank that has most */
    bool takes_over;       /* push: who reads alone what has landed writes to it, too; said by the runner */
    bool helps;            /* ranks that wait help others with their sums; said by the runner */
    bool couriered;        /* its messages may go by the runner's courier; said by the runner */
    peali_trial *trial;    /* couriered: of calls without it, and by it; NULL: all go by it */
    bool closed;           /* push: this rank's end waits for the begin of all within reach */
    int32_t most_operands; /* of any instruction */
    int32_t *first_req;    /* blockwise: of each instruction; else NULL: instruction i has request i */
    int32_t nmessages, nreqs;
    int32_t *lead;         /* per message: which lead carries the call's signature to or from that rank; else -1 */
    bool *opens;           /* per message: the first on its lane to or from that rank, and small enough for the lead, in slice 0 */
    int32_t *first;        /* per lead: the first message to or from that rank */
    int32_t nleads;
    struct peali_small *small; /* small.c; NULL: the general loop runs it */
    int32_t *unheard;      /* ranks that are sent to, and whose answer nothing here depends on */
    int32_t nunheard;
    bool rooted;           /* a rank may leave before all have come */
} peali_plan;

/* Push: one rank only reads what lands in SLOT, and it is not in a line. */
static inline bool peali_plan_alone(const peali_plan *plan, int32_t slot)
{
    return plan->readers[slot] == 1 && plan->land_offset[slot] != PEALI_PLAN_IN_LINE;
}

/* Makes the plan of JOB for PROGRAM. *OUT is freed with peali_plan_free. PEAL_OK or PEAL_ERR_MEMORY. */
PEAL_MUST_CHECK peal_status peali_plan_make(const peali_program *program, const peali_job *job, peali_plan **out);
void peali_plan_free(peali_plan **plan);

/* A contiguous part of the vector in one slice. */
typedef struct peali_span {
    size_t offset; /* bytes from the start of the vector */
    size_t packed; /* bytes from the start of a buffer that holds one slice from cut BASE on */
    size_t bytes;
} peali_span;

/* How many spans instruction I moves, and span U of them in slice SLICE, with respect to cut BASE. */
int32_t peali_plan_units(const peali_plan *plan, const peali_instr *i);
peali_span peali_plan_span(const peali_plan *plan, const peali_instr *i, int32_t unit, int32_t slice, int32_t base);

/* What a premultiplied sum multiplies this rank's elements by: a block of that number, over and over. */
enum { PEALI_PLAN_SCALARS = 4096 };

/*
 * Copies blocks [first, end) of slice SLICE from the vector to packed memory, or back; on the way there a premultiplied sum
 * multiplies them by SCALARS. STREAM: past the caches.
 */
void peali_plan_pack(const peali_plan *plan, const int32_t blocks[2], int32_t slice, unsigned char *packed,
                     const unsigned char *vector, const unsigned char *scalars);
void peali_plan_unpack(const peali_plan *plan, const int32_t blocks[2], int32_t slice, const unsigned char *packed,
                       unsigned char *vector, bool stream);

/* Averages: divides what the user wants of slice SLICE in VECTOR, which holds sums, by the number of ranks. */
void peali_plan_divide(const peali_plan *plan, int32_t slice, unsigned char *vector);

/* The blocks of IN that hold data at the start, and of OUT that the user wants, on this rank. */
void peali_plan_given(const peali_plan *plan, int32_t blocks[2]);
void peali_plan_wanted(const peali_plan *plan, int32_t blocks[2]);

#endif
