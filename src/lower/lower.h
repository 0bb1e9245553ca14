/*
 * Schedules of all ranks within reach of each other, and what one of them executes. LOWERING is the method.
 */
#ifndef PEALI_LOWER_H
#define PEALI_LOWER_H

#include "base/arena.h"
#include "lower/program.h"
#include "sched/sched.h"

/*
 * How ranks within reach meet. Pull (CPU, shared memory): readers load from peers' buffers, and a sum may be stored into their OUT;
 * ranks wait for flags that peers raise. Push (GPU): senders store into landing slots at the receiver, each with a flag beside it,
 * and nobody touches a peer's user memory. Place (GPU, vectors that peers have mapped): as pull, but what a rank has in hand it
 * stores for all who need it, straight into their OUT: what it passes on then takes no second round.
 */
typedef enum peali_mode { PEALI_PULL, PEALI_PUSH, PEALI_PLACE, PEALI_MODES } peali_mode;

/* "pull", "push", "place". */
const char *peali_mode_name(peali_mode mode);

/* The ranks within reach of each other, ascending, the calling rank among them. */
typedef struct peali_reach {
    int nranks;
    const int32_t *ranks;
    peali_mode mode;
} peali_reach;

/* The program of one rank: symbolic, without a count, cached by its communicator. */
typedef struct peali_program {
    peali_arena arena;
    const peal_algo *algo;
    int32_t rank, nranks;
    int32_t me;      /* its index among the ranks within reach */
    int32_t nreach;
    peali_mode mode;
    int32_t nblocks, ncuts;
    int32_t ninstrs, nflags, nlanes;
    int32_t most_flags; /* nflags of the rank within reach that has most */
    int32_t nscratch;
    int32_t nland;      /* landing slots of all ranks within reach */
    const int32_t *cuts;         /* block numbers */
    const int32_t *slot_blocks;  /* the most blocks that scratch buffer PEAL_BUF_TMP + i holds at any rank within reach */
    const peali_instr *instrs;
    const peali_loc *locs;
    const int32_t *waits;
    const peali_await *awaits;
    const int32_t *land_start;  /* push: the first entry in land_* of each rank within reach, and the end */
    const int32_t *land_first, *land_end; /* push: the cuts of each landing slot */
    const int16_t *land_home;   /* push, CPU: the rank within reach that fills each landing slot, and keeps it */
    const int32_t *land_line;   /* and which of its lines that is: one for each of its instructions that fill any */
    const uint8_t *stores_to;   /* push: 1 for each rank within reach whose landing slots this rank stores to */
    bool all_wait;              /* within reach, the end of each rank waits for the begin of all */
    bool all_hear;              /* of all others within reach. Push: all_wait; else: each touches IN or OUT of all others */
    bool tells;                 /* all know at the end if the buffers that count are seen: of a broadcast its root's, else all */
    const uint8_t *shown;       /* from each cut on, PEALI_SHOWN_* that others within reach touch of this rank. No text has it */
    const uint8_t *knows;       /* push: 1 for each rank within reach whose begin this rank's end waits for */
} peali_program;

enum { PEALI_SHOWN_IN = 1, PEALI_SHOWN_OUT = 2 };

/* Where landing slot LOC is in land_*. */
static inline int32_t peali_land_slot(const int32_t *land_start, peali_loc loc)
{
    return land_start[loc.rank] - 1 - loc.buf;
}

/*
 * Lowers ALGO for rank RANK. The ranks in REACH compute the same instructions in the same order, so they agree
 * without talking. *OUT is freed with peali_program_free.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID a schedule is wrong (logged); PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_lower(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach, int rank,
                                        peali_program **out);

/* Likewise for every rank in REACH at once: OUT has reach->nranks entries. For check. */
PEAL_MUST_CHECK peal_status peali_lower_all(const peal_algo *algo, const peal_problem *problem, const peali_reach *reach,
                                            peali_program **out);

void peali_program_free(peali_program **program);

#endif
