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

#endif
