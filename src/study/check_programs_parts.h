/*
 * What the proofs of programs share. Instruction i of rank r has number base[r] + i; pieces are those of the schedules.
 */
#ifndef PEALI_CHECK_PROGRAMS_PARTS_H
#define PEALI_CHECK_PROGRAMS_PARTS_H

#include "study/check_parts.h"
#include "study/check_programs.h"

struct peali_truth {
    peali_arena arena;
    peali_check_case what;
    const int *host; /* NULL: the nodes */
    peali_check_report found;
    peali_checking c; /* pieces, matches and final values of the schedules */
};

typedef struct peali_proving {
    const peali_truth *truth;
    peali_mode mode;
    const peali_program *const *program; /* of each rank */
    peali_programs_report *report;
    peali_arena arena;
    int32_t n;
    int32_t *domain;   /* of each rank: the first of the ranks within its reach */
    int32_t **near;    /* of each rank: the ranks within its reach, ascending, */
    int32_t *nnear;    /* how many, */
    int32_t *place;    /* and which of them it is */
    int32_t **piece;   /* of each rank: the piece at each cut of its program */
    int32_t *base;     /* n + 1 */
    int32_t *rank;     /* of each instruction */
    int32_t *op;       /* of each message: the number of its operation in the schedules */
    int32_t *match;    /* of each message: the number of the other end */
    int32_t *waiter;   /* of each message: the first instruction of its rank that waits for it; -1: none */
    int32_t *flags;    /* of each rank: its first entry in flag */
    int32_t *flag;     /* the instruction of its rank that raises each flag */
    int32_t *lands;    /* of each rank: its first entry in filler */
    int32_t *filler;   /* the number of the instruction that fills each landing slot */
    int32_t *sequence; /* all instructions in the order in which the run ran them */
    int32_t **clock;   /* of each rank: per instruction as many as are within reach: instructions of each that began before it */
} peali_proving;

static inline const peali_instr *peali_proving_instr(const peali_proving *p, int32_t number)
{
    int32_t rank = p->rank[number];
    return &p->program[rank]->instrs[number - p->base[rank]];
}

static inline const peali_loc *peali_proving_locs(const peali_proving *p, int32_t number)
{
    return p->program[p->rank[number]]->locs + peali_proving_instr(p, number)->locs;
}

static inline bool peali_proving_async(const peali_instr *i)
{
    return i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV;
}

/* The number of the instruction that fills the landing slot LOC of a rank within reach of RANK. */
static inline int32_t *peali_proving_filler(const peali_proving *p, int rank, peali_loc loc)
{
    return &p->filler[p->lands[p->near[rank][loc.rank]] - 1 - loc.buf];
}

/* The pieces of an instruction's range. */
static inline peali_span peali_proving_range(const peali_proving *p, int32_t number)
{
    const peali_instr *i = peali_proving_instr(p, number);
    const int32_t *piece = p->piece[p->rank[number]];
    return i->first < i->end ? (peali_span){piece[i->first], piece[i->end]} : (peali_span){0, 0};
}

/* Writes the counterexample (NO -1: of no one instruction) and returns PEAL_ERR_INVALID. */
__attribute__((format(printf, 4, 5))) peal_status peali_proving_refute(peali_proving *p, int rank, int no, const char *format, ...);

/* Instruction NO of RANK in words: "copy OUT of rank 2, blocks 1..3, to OUT". Cut off where SIZE is short. */
void peali_proving_words(const peali_proving *p, int rank, int no, char *text, size_t size);

/* The proofs, in the order in which each may rely on those before it. */
PEAL_MUST_CHECK peal_status peali_programs_form(peali_proving *p);     /* every instruction by itself; flags, landing slots */
PEAL_MUST_CHECK peal_status peali_programs_messages(peali_proving *p); /* those of the schedules, in their order, all waited for */
PEAL_MUST_CHECK peal_status peali_programs_run(peali_proving *p);      /* progress, values, races, closure */
PEAL_MUST_CHECK peal_status peali_programs_events(peali_proving *p);   /* nothing outgoing waits for more than in list order */

#endif
