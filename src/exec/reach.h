/*
 * What one rank shows to the ranks within reach: where its buffers of the call at hand lie, the flags it raises (pull), and its
 * landing areas (push). Shared by all calls of a communicator with no barrier between them, because flags only grow (LOWERING,
 * "Waiting", "Epochs and credits"). Ranks that are processes have it in their pools (pool.h), so it holds no address of its own.
 */
#ifndef PEALI_REACH_H
#define PEALI_REACH_H

#include <stdbool.h>

#include "exec/signature.h"
#include "lower/lower.h"
#include "topo/process.h"

enum {
    PEALI_REACH_FLAGS = 256, /* lines a rank: ring needs 126 on 64 ranks (LOWERING); programs with more use messages */
    PEALI_REACH_SLOTS = 512, /* lines a rank and landing area */
    PEALI_REACH_LINE = 64,
    PEALI_REACH_OPERANDS = 256, /* of a sum that others help with: of 128 ranks, stored to as many */
    PEALI_REACH_QUARREL = 11, /* words of two calls that differ, and who made them */
    PEALI_REACH_STUCK = 38,  /* words of a text on a message, and its way */
};

/* A flag, and room for what is read together with it: the data of a small message, or a front. */
typedef struct peali_line {
    _Alignas(PEALI_REACH_LINE) uint64_t value;
    unsigned char data[PEALI_REACH_LINE - sizeof(uint64_t)];
} peali_line;

/* What a rank's first flag is read together with. Written before any flag of the call is raised. */
typedef struct peali_front {
    _Alignas(PEALI_REACH_LINE) uint64_t value;
    uint64_t call;         /* hash of the signature */
    uintptr_t in, out, tmp; /* where they begin, in the rank's own address space */
    uint32_t staged;       /* bit 0: in, bit 1: out is staging: the slices in flight, one behind the other */
    bool past;             /* OUT is to be written past the caches */
} peali_front;

/* A sum that waits for nothing any more, in pieces that ranks within reach may add up (help.c); its operands lie where all do. */
typedef struct peali_sum {
    _Alignas(PEALI_REACH_LINE) uint64_t claims; /* which one it is, and which pieces are left */
    _Alignas(PEALI_REACH_LINE) uint64_t done;   /* pieces that others took and have added up */
    uint64_t call;                              /* hash of the signature */
    size_t bytes, piece;
    bool past;                                  /* the caches */
    uint16_t nsrc, ndst;
    int16_t rank[PEALI_REACH_OPERANDS];         /* of each source, then of each destination: whose memory it is, */
    uintptr_t at[PEALI_REACH_OPERANDS];         /* and where it begins in that rank's own address space */
} peali_sum;

/* A word of claims: the sum's number, and of its pieces those that nobody has taken: from the first to before the end. */
#define PEALI_SUM_FIRST ((uint64_t)1 << 20)
#define PEALI_SUM_NUMBER (PEALI_SUM_FIRST * PEALI_SUM_FIRST)

static inline uint64_t peali_sum_number(uint64_t claims)
{
    return claims / PEALI_SUM_NUMBER;
}

static inline uint64_t peali_sum_first(uint64_t claims)
{
    return claims / PEALI_SUM_FIRST % PEALI_SUM_FIRST;
}

static inline uint64_t peali_sum_end(uint64_t claims)
{
    return claims % PEALI_SUM_FIRST;
}

typedef struct peali_public {
    long refs;                 /* ranks that still look at this */
    peali_process process;     /* of its owner */
    bool pooled;
    size_t bytes;              /* of this, with what is behind it */
    struct peali_public *next; /* of those whose owner left first */
    void *kept[3];             /* its owner's scratch, staging and spare room, after the owner: freed with this */
    peali_signature_shown past[PEALI_SIGNATURE_PAST]; /* this rank's calls, by their numbers modulo that */
    int alarm;                 /* 1: look at what is told: set by a rank that found calls that differ, or gave one up */
    uint64_t gave_up;          /* 1 more than the first call that this rank has given up; 0: none */
    uint64_t over[PEALI_REACH_QUARREL]; /* what it gave that up over, written before */
    int tellers, told;         /* ranks that want to write, of which the first may; and 1 when it has */
    uint64_t quarrel[PEALI_REACH_QUARREL]; /* what a rank found that cannot be asked */
    int is_stuck;              /* this rank waits for long for a message, or for who does: */
    uint64_t stuck[PEALI_REACH_STUCK]; /* which, in characters */
    uint64_t sees[PEAL_KIND_COUNT]; /* bit per class of calls (run.h, peali_run_show): this rank's buffers were seen */
    int helping;               /* 1 more than the rank within reach whose sum this one adds up a piece of; 0: none. Relaxed */
    peali_sum sum;             /* the one that it offers */
    peali_line left;           /* slices that this rank has left */
    union {
        peali_front front;
        peali_line flags[PEALI_REACH_FLAGS]; /* the first is the front's value */
    };
    peali_line lines[];        /* per landing area: what this rank fills, for all that read it: a stamp, and the data if it fits */
} peali_public;                /* behind the lines: the landing areas */

/* Of every public of a communicator. */
typedef struct peali_lands {
    int32_t areas;   /* 2W, or 0: no push */
    size_t bytes;    /* of one area, whole lines */
} peali_lands;

/* Zeroed, for READERS ranks, in this process' pool where POOLED. NULL where there is no memory. */
peali_public *peali_public_create(long readers, const peali_lands *lands, bool pooled);

/*
 * A reader's release; the owner's is the one with MINE. Memory is freed when all have released it; in a pool, by its owner, at the
 * latest when it makes or releases another one. Drop frees what nobody else has seen. Threads: any.
 */
void peali_public_release(peali_public *shown, bool mine);
void peali_public_drop(peali_public *shown);

#endif
