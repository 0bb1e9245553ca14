/*
 * What the interposer did with the program's calls: taken, by algorithm; passed on, by reason. Printed once, at MPI_Finalize.
 */
#ifndef PEALI_TALLY_H
#define PEALI_TALLY_H

#include <peal/peal.h>

/* Why a call went on to MPI. Each reason follows from what MPI requires to be equal on all ranks. */
enum peali_pass {
    PEALI_TAKE, /* it did not: Peal runs it */
    PEALI_PASS_MPI,
    PEALI_PASS_HANDLE,
    PEALI_PASS_FREED,
    PEALI_PASS_COUNT,
    PEALI_PASS_OP,
    PEALI_PASS_USER_OP,
    PEALI_PASS_TYPE,
    PEALI_PASS_PAIR,
    PEALI_PASS_DERIVED,
    PEALI_PASS_OP_TYPE,
    PEALI_PASS_INTER,
    PEALI_PASS_ALONE,
    PEALI_PASS_WORLDS,
    PEALI_PASS_SHADOW,
    PEALI_PASS_IDUP,
    PEALI_PASS_ROOT,
    PEALI_PASS_UNEQUAL,
    PEALI_PASS_LARGE,
    PEALI_PASS_COUNT_OF
};

/* Counts one call of KIND that is passed on. Threads: any. */
void peali_tally_pass(peal_kind kind, enum peali_pass why);

/* Adds the calls done on COMM, which is about to end. Threads: any. */
void peali_tally_taken(const peal_comm *comm);

/* Prints the table of the calls of this process, as RANK of MPI_COMM_WORLD. Threads: one, the last. */
void peali_tally_report(int rank);

#endif
