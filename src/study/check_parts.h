/*
 * What the proofs of check share: the case, its numbering of operations and pieces, and how a counterexample is said.
 *
 * Operation i of rank r has number base[r] + i. Pieces lie between the cut points of all ranks' ranges, so no operation touches
 * half a piece and all blocks of a piece have one fate.
 */
#ifndef PEALI_CHECK_PARTS_H
#define PEALI_CHECK_PARTS_H

#include "base/arena.h"
#include "study/check.h"
#include "study/check_values.h"

typedef struct peali_checking {
    const peali_check_case *what;
    peali_check_report *report;
    peali_arena arena;
    int32_t n, nblocks, npieces;
    int32_t *base;  /* n + 1 */
    int32_t *match; /* of each send and receive: the number of the other; -1 for local operations */
    int32_t *piece; /* of each block that begins a range, and of block B: its piece */
    int32_t *cut;   /* of each piece, and one past them: its first block */
    peali_value *final; /* of each rank and piece, where not NULL: receives what OUT ends with, which is then not judged */
} peali_checking;

/* Ranges of blocks that rank R may use of a buffer. */
typedef struct peali_span {
    int32_t first, end;
} peali_span;

static inline const peali_op *peali_check_op(const peali_checking *c, int rank, int op)
{
    return &c->what->sched[rank]->ops[op];
}

/* Writes the counterexample (OP -1: of no one operation) and returns PEAL_ERR_INVALID. */
__attribute__((format(printf, 4, 5))) peal_status peali_check_refute(peali_checking *c, int rank, int op, const char *format, ...);

/* "allreduce ring, n 4", and of the problem what else tells it from others of that n. Returns the length. */
int peali_check_say_case(char *text, size_t size, const peali_check_case *what);

/* OP in words: "recv tmp 0 blocks 2..3 from rank 1 lane 0". Cut off where SIZE is short. */
void peali_check_words(char *text, size_t size, const peali_op *op);

/* "block 3" or "blocks 3..5". */
const char *peali_check_blocks(char text[48], int32_t first, int32_t end);

/* The name of a buffer: "IN", "OUT", "tmp 4"; "'" is added to the part of a slot after the wrap. */
const char *peali_check_buffer(char text[24], int buf);

/* The proofs, in the order in which each may rely on those before it. */
PEAL_MUST_CHECK peal_status peali_check_form(peali_checking *c);  /* every operation by itself; pieces */
PEAL_MUST_CHECK peal_status peali_check_match(peali_checking *c); /* sends and receives meet; fills match */
PEAL_MUST_CHECK peal_status peali_check_races(peali_checking *c);
PEAL_MUST_CHECK peal_status peali_check_run(peali_checking *c); /* progress, values, order of sums; counts rounds */

/* The blocks of IN or OUT that the user gives RANK in this kind of collective. */
peali_span peali_check_holds(const peali_checking *c, int rank, int buf);

#endif
