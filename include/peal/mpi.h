/*
 * Peal on an MPI program's communicators. Link libpeal_mpi, built for the same MPI.
 *
 * Linking it does not take the program's own collectives: that happens where libpeal_mpi.so is named in LD_PRELOAD.
 */
#ifndef PEAL_MPI_H
#define PEAL_MPI_H

#include <mpi.h>

#include <peal/peal.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a communicator of the ranks of MPI_COMM, with messages of its own that the program's cannot meet.
 *
 * Returns:    PEAL_OK; PEAL_ERR_INVALID an intercommunicator or MPI_COMM_NULL; PEAL_ERR_UNSUPPORTED MPI has no communicator
 *             left (one is split off); PEAL_ERR_CONFIG; PEAL_ERR_MEMORY. All ranks return the same, but where MPI itself fails
 *             on some: PEAL_ERR_NET; and where some do not call within PEAL_TIMEOUT: PEAL_ERR_TIMEOUT on those that did, and
 *             for MPI_COMM no further call. *COMM is written on success only.
 * Memory:     less than 1 MiB of the host for each other rank of it, taken when calls need it; and where buffers are not of
 *             peal_mem_alloc, twice what is in flight of a long call.
 * End:        MPI_Finalize waits until all ranks have destroyed what this one has, 5 s at most, as for a rank that has died.
 * When: no MPI_Comm_idup of MPI_COMM is pending (Open MPI 4.1 makes no other communicator of it meanwhile). Calls that this thread
 * has in flight go on.
 * Collective: yes, over MPI_COMM.
 * Threads:    one per MPI_COMM; MPI_THREAD_MULTIPLE where several threads use Peal or MPI at once.    Blocks: until all have
 *             called, and what they tell each other then has come, each for PEAL_TIMEOUT at most; what MPI_Comm_split, which it
 *             calls, waits for has no such limit.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peal_comm_create_mpi(MPI_Comm mpi_comm, peal_comm **comm);

#ifdef __cplusplus
}
#endif
#endif
