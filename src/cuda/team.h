/*
 * The GPUs of the ranks of one communicator: scratch that peers store into, and launches. Ranks meet like the processes of a host do
 * (exec/host.h): each opens its side, the cards are exchanged by whoever can, and then they map each other.
 */
#ifndef PEALI_CUDA_TEAM_H
#define PEALI_CUDA_TEAM_H

#include <stdbool.h>

#include "cuda/driver.h"
#include "cuda/load.h"

typedef struct peali_team peali_team;

/* What a rank tells the others, as bytes. */
typedef struct peali_team_card {
    int32_t status;       /* a peal_status: this rank's outcome so far */
    int32_t version;      /* of the driver */
    peali_cu_uuid device;
    uint64_t process;     /* equal on ranks of one process */
    uint64_t address;     /* of the scratch there */
    uint64_t scratch;     /* bytes that this rank can give */
    peali_cu_ipc handle;
} peali_team_card;

/*
 * Opens this rank's side on the device of the calling thread's current context: kernels loaded, scratch taken out of the process'
 * share (PEAL_SCRATCH). CARD is filled on failure too, and exchanged: then no rank gets a team. Legal while a stream of this thread
 * is being captured.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED no driver, no device, or no kernels in this build for its architecture (logged); PEAL_ERR_CUDA;
 *          PEAL_ERR_MEMORY.
 */
PEAL_MUST_CHECK peal_status peali_team_open(peali_team **team, int rank, peali_team_card *card);

/*
 * Maps the scratch of the N ranks whose cards these are; this one is number ME among them. On failure the team is only to be closed,
 * after all ranks have agreed that it failed.
 */
PEAL_MUST_CHECK peal_status peali_team_meet(peali_team *team, const peali_team_card *cards, int n, int me);

/* The layout that all ranks agree on, for peali_cuda_load. */
const peali_cuda_layout *peali_team_layout(const peali_team *team);

/*
 * One launch of CALL, as peali_cuda_load made it, on STREAM. The kernel has a copy of CALL by then. Nothing waits.
 */
PEAL_MUST_CHECK peal_status peali_team_launch(peali_team *team, const peali_cuda_call *call, uint32_t ctas, const void *in, void *out,
                                              peali_cu_strm stream);

/* What the kernels found, without waiting for any: NULL as long as all is well. */
const peali_cuda_report *peali_team_report(const peali_team *team);

/* Makes all kernels of this team that wait leave. Threads: any. */
void peali_team_abort(peali_team *team);

/* Waits for the kernels of this team, and frees it. The ranks have agreed that none launches any more. */
void peali_team_close(peali_team **team);

/* What sort of memory AT is, and of which device. */
typedef enum peali_memory { PEALI_MEMORY_HOST, PEALI_MEMORY_DEVICE, PEALI_MEMORY_MANAGED, PEALI_MEMORY_WRONG } peali_memory;
peali_memory peali_cuda_memory(const void *at, int *device);

#endif
