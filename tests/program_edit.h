/*
 * One program taken apart so that a test can edit it, and put together again.
 */
#ifndef PROGRAM_EDIT_H
#define PROGRAM_EDIT_H

#include "lower/lower.h"

enum { EDIT_INSTRS = 160, EDIT_OPERANDS = 40 };

typedef struct edit_instr {
    peali_instr i;
    peali_loc locs[EDIT_OPERANDS]; /* sources, then destinations */
    int32_t waits[EDIT_OPERANDS];
    peali_await awaits[EDIT_OPERANDS];
} edit_instr;

typedef struct edit_program {
    peali_program p; /* what lies outside the instructions; its memory stays the original's */
    int n;
    edit_instr at[EDIT_INSTRS];
} edit_program;

/* False where P is larger than an edit_program. */
bool edit_open(edit_program *e, const peali_program *p);

/* Instruction NO goes, or (FROM: what it is like) comes; waits then name the same instructions as before. */
void edit_drop(edit_program *e, int no);
void edit_insert(edit_program *e, int no, const edit_instr *from);
void edit_swap(edit_program *e, int no, int other);

/* Operand, wait or await K of an instruction goes. */
void edit_drop_operand(edit_instr *i, int k);
void edit_drop_wait(edit_instr *i, int k);
void edit_drop_await(edit_instr *i, int k);

/* The program that E is now, freed with edit_free. */
peali_program *edit_close(const edit_program *e);
void edit_free(peali_program *p);

#endif
