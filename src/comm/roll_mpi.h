/*
 * The roll of an MPI communicator, and who is missing there.
 */
#ifndef PEALI_ROLL_MPI_H
#define PEALI_ROLL_MPI_H

#include <mpi.h>

#include "comm/comm.h"

/* What all ranks call, and how they wait for each other: as in peali_roll. */
typedef struct peali_occasion {
    const char *call;
    bool patient, endless;
} peali_occasion;

/*
 * Waits until REQUEST of a collective on COMM, which all its ranks begin on that OCCASION, is over: peali_comm_roll.
 * *ERROR: what MPI said, and then PEAL_OK. After a timeout MPI may write to the buffers yet.
 *
 * Collective: over COMM.    Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_roll_mpi(MPI_Comm comm, const peali_occasion *occasion, MPI_Request *request, int *error);

/*
 * From now on ranks that wait ask each other on LOBBY, which all of MPI_COMM_WORLD have made for that alone. Before other threads
 * call. Leave comes before MPI_Finalize ends it, and receives what has come.
 */
void peali_roll_mpi_meet(MPI_Comm lobby);
void peali_roll_mpi_leave(void);

/* How a communicator of that NAME, which may be "", is called in words. Threads: any. */
const char *peali_roll_mpi_name(const char *name);

/* The numbers of COMM's ranks in MPI_COMM_WORLD, in WORLD if that is not NULL; false: not all have one. Threads: any. */
bool peali_roll_mpi_world(MPI_Comm comm, int nranks, int32_t *world);

#endif
