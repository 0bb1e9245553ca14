/*
 * Programs: what one rank executes for one slice, over addresses that are still symbolic. Plain structs without padding: CPU ranks
 * run them as they are, and for a device they are loaded (cuda/load.h). Proofs compare them as bytes.
 *
 * Instructions run in list order. send and recv only start a message; an instruction that needs one to be over names it among its
 * waits. Flags of other ranks are named among its awaits.
 */
#ifndef PEALI_PROGRAM_H
#define PEALI_PROGRAM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum peali_instr_kind {
    PEALI_I_ENTER,  /* this rank's IN and OUT may be touched by ranks within reach */
    PEALI_I_REDUCE, /* reduce nsrc sources in order, store to ndst destinations; nsrc 1 is a copy, nsrc 0 only waits and signals */
    PEALI_I_SEND,   /* start sending the one source to peer on lane */
    PEALI_I_RECV,   /* start receiving the one destination from peer on lane */
    PEALI_I_EXIT,   /* nobody touches this rank's buffers any more */
};

/* Where an operand lies. The operand's range is the instruction's. */
typedef struct peali_loc {
    int16_t rank; /* index among the ranks within reach */
    int16_t buf;  /* PEAL_BUF_IN, PEAL_BUF_OUT, scratch from PEAL_BUF_TMP on; -1 - i: landing slot i of that rank */
    int32_t base; /* scratch: the cut at which its contents begin; else 0 */
} peali_loc;

static inline bool peali_loc_same(peali_loc a, peali_loc b)
{
    return a.rank == b.rank && a.buf == b.buf && a.base == b.base;
}

typedef struct peali_instr {
    uint8_t kind;
    uint8_t lane;
    uint16_t nsrc, ndst;
    uint16_t reread;    /* 1: a later instruction of a rank within reach reads what this one stores. Speeds it up; no text has it */
    int32_t peer;       /* rank of the communicator */
    int32_t first, end; /* cuts: blocks [cuts[first], cuts[end]) */
    int32_t locs;       /* sources, then destinations, in locs */
    int32_t waits, nwaits;   /* own sends and receives that must be over, in waits: instruction numbers */
    int32_t awaits, nawaits; /* flags of other ranks, in awaits */
    int32_t flag;            /* set when this instruction is done; -1: none */
} peali_instr;

typedef struct peali_await {
    int32_t rank; /* index among the ranks within reach */
    int32_t flag;
} peali_await;

static_assert(sizeof(peali_loc) == 8 && sizeof(peali_instr) == 44 && sizeof(peali_await) == 8, "no padding");

#endif
