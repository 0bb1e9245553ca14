/*
 * What one rank shows to the ranks within reach: where its buffers of the call at hand lie, the flags it raises (pull), and its
 *                                                landing
 * areas (push). Shared by all calls of a communicator with no barrier between them, because flags only grow (LOWERING, "Waiting",
 * "Epochs and credits").
 */
#ifndef PEALI_REACH_H
#define PEALI_REACH_H

#include "lower/lower.h"

enum {
    PEALI_REACH_FLAGS = 256, /* lines a rank: ring needs 126 on 64 ranks (LOWERING); programs with more use messages */
    PEALI_REACH_SLOTS = 512, /* landing slots a rank and area */
    PEALI_REACH_LINE = 64,
    PEALI_REACH_CALL = 3, /* words of a signature */
};

/* Where slices lie: slice k at AT + (k mod SLICES) * STRIDE; SLICES 0: the whole vector lies at AT. */
typedef struct peali_window {
    unsigned char *at;
    size_t stride;
    int32_t slices;
} peali_window;

typedef struct peali_line {
    _Alignas(PEALI_REACH_LINE) uint64_t value;
} peali_line;

typedef struct peali_public {
    peali_arena arena;
    long refs;                 /* ranks that still look at this */
    uint64_t call[PEALI_REACH_CALL]; /* this rank's signature; relaxed, because it only names a mistake */
    peali_window in, out, tmp; /* written before enter's flag of slice 0 is raised, read after an await that follows it */
    size_t land_bytes;         /* of one landing area */
    int32_t areas;             /* 2W */
    unsigned char *land;
    uint64_t *land_flags;      /* per area and slot: the slice that filled it, plus 1 */
    peali_line left;           /* slices that this rank has left */
    peali_line flags[PEALI_REACH_FLAGS];
} peali_public;

/* Zeroed, for READERS ranks; AREAS landing areas of LAND_BYTES each (push), or none. NULL where there is no memory. */
peali_public *peali_public_create(long readers, int32_t areas, size_t land_bytes);

/* The last reader's release frees it; drop frees what nobody else has seen. Threads: any. */
void peali_public_release(peali_public *shown);
void peali_public_drop(peali_public *shown);

#endif
