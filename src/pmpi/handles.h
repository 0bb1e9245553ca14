/* MPI's named types and predefined ops as Peal's. */
#ifndef PEALI_HANDLES_H
#define PEALI_HANDLES_H

#include <mpi.h>

#include <peal/peal.h>

#include "pmpi/tally.h"

/* Finds out the sizes of the named types; MPI is initialized. Threads: one, before all others. */
void peali_handles_init(void);

/*
 * Bytes of an element of TYPE where that is one of MPI's own, and its elements lie one right behind the other; else 0. For most
 * calls that spares several questions to MPI. Threads: any.
 */
int peali_handles_bytes(MPI_Datatype type);

/* PEALI_TAKE and *TYPE, *OP where Peal does MPI_OP on MPI_TYPE; else why not. Threads: any. */
enum peali_pass peali_handles_find(MPI_Datatype mpi_type, MPI_Op mpi_op, peal_type *type, peal_op *op);

/*
 * How TYPE was built, and of how many parts: the combiner of MPI_Type_get_envelope. PEALI_HANDLES_LARGE: with counts of MPI_Count,
 * which MPICH ends programs for asking for as if they were int. Threads: any.
 */
enum { PEALI_HANDLES_LARGE = -1 };
int peali_handles_built(MPI_Datatype type, int *integers, int *addresses, int *types);

#endif
