/*
 * The workbench of one lowering: pending values (fuse.c) become emitted instructions (emit.c), driven by the operations of all ranks
 * within reach in one fixed order (lower.c). All of it lies in one arena that ends with the lowering.
 */
#ifndef PEALI_WORK_H
#define PEALI_WORK_H

#include "lower/lower.h"
#include "sched/cuts.h"

/* A value that is known but not stored yet: sources in order, and where it goes. All operands have the range [first, end) of cuts. */
typedef struct peali_pending {
    int32_t exec; /* index of the rank that runs it */
    int32_t first, end;
    int32_t nsrc, ndst, src_cap, dst_cap;
    peali_loc *src, *dst;
    bool live;
} peali_pending;

/* An emitted instruction. */
typedef struct peali_rec {
    peali_instr i;
    int32_t rank, no, seq; /* index of its rank; its number there; its number among all */
    bool async;            /* send or recv: over only where somebody waited */
    struct peali_rec *waiter; /* async: the first instruction of its rank that waits for it and is itself not async */
    bool waited;
    const peali_loc *locs;
    struct peali_rec **waits, **awaits;
    int32_t *clock; /* instructions of each rank that are over before this one is */
} peali_rec;

typedef struct peali_link {
    void *what;
    struct peali_link *next;
} peali_link;

/* One piece of a rank's IN and OUT (which may be one memory), or one scratch buffer of a rank. */
typedef struct peali_cell {
    peali_link *writers, *readers; /* pending values; dead ones are skipped */
    peali_rec *wrote;              /* emitted: the last writer, and readers since */
    peali_link *read;
} peali_cell;

typedef struct peali_vec {
    void **at;
    int32_t n, cap;
} peali_vec;

typedef struct peali_work {
    peali_arena arena;
    const peali_reach *reach;
    peal_sched **scheds; /* per rank within reach */
    peali_cuts cuts;
    int32_t npieces, ncells;
    peali_cell *cells;   /* ncells of each rank: pieces, then scratch buffers */
    peali_vec *code;     /* per rank: its peali_rec in order */
    peali_vec pendings;  /* all, in order of birth */
    peali_vec deps;      /* of the instruction being emitted */
    int32_t nrecs;
    bool failed;         /* memory ran out; all functions then do nothing of use, and the lowering ends with an error */
} peali_work;

/* Zeroed memory of the workbench; NULL and w->failed where there is none. */
void *peali_work_get(peali_work *w, size_t count, size_t size);
void peali_work_push(peali_work *w, peali_vec *v, void *what);
void peali_work_link(peali_work *w, peali_link **list, void *what);

/* The cells that LOC touches over cuts [first, end): the first, and how many. */
static inline peali_cell *peali_work_cells(const peali_work *w, peali_loc loc, int32_t first, int32_t end, int32_t *n)
{
    peali_cell *mine = w->cells + (int64_t)loc.rank * w->ncells;
    *n = loc.buf >= PEAL_BUF_TMP ? 1 : end - first;
    return loc.buf >= PEAL_BUF_TMP ? mine + w->npieces + loc.buf - PEAL_BUF_TMP : mine + first;
}

/* Emission. Operands: nsrc sources, then ndst destinations. */
peali_rec *peali_emit(peali_work *w, int32_t rank, peali_instr instr, const peali_loc *locs);

/* Moves D <- S over [first, end): a copy of rank RANK, or (from != rank) a message of FROM received by RANK within reach. DEAD: the
 * scratch buffer of S is not read any more. */
typedef struct peali_move {
    int32_t rank, from;
    int32_t first, end;
    peali_loc d, s;
    bool dead;
} peali_move;

void peali_fuse_move(peali_work *w, const peali_move *m);
void peali_fuse_reduce(peali_work *w, const peali_move *m);

/* What a message out of reach reads: stores or looks through whatever is pending there. */
peali_loc peali_fuse_source(peali_work *w, int32_t rank, peali_loc s, int32_t first, int32_t end);

/* D is about to be overwritten by something that is no pending value: what reads it is stored, what would write it is dropped. */
void peali_fuse_overwrite(peali_work *w, peali_loc d, int32_t first, int32_t end);

/* Stores all that reaches OUT and drops the rest. */
void peali_fuse_finish(peali_work *w);

/* The program of the rank with index X, in memory of its own. */
PEAL_MUST_CHECK peal_status peali_pack(peali_work *w, int x, const peal_algo *algo, peali_program **out);

#endif
