/*
 * The GPUs of the ranks of one communicator: scratch that peers store into, and launches. Ranks meet like the processes of a host
 * do (exec/host.h): each opens its side, the cards are exchanged by whoever can, and then they map each other. In order:
 *
 *     open, exchange of the cards, meet, agreement, prove, agreement, launches ..., part, agreement, close
 *
 * where, after meet or after prove, some device is far from another, all ranks go on to stage, and not to prove any more.
 *
 * An agreement is the worst status of all ranks, after all have come; where it is not PEAL_OK, all ranks go on to part (its
 * agreement too) and close. All of it may be called while streams of this thread or others are captured, unless a function says
 * otherwise.
 */
#ifndef PEALI_CUDA_TEAM_H
#define PEALI_CUDA_TEAM_H

#include <stdbool.h>

#include "cuda/driver.h"
#include "cuda/load.h"

typedef struct peali_team peali_team;

enum { PEALI_TEAM_BUS = 16 };

/* What a rank tells the others, as bytes. */
typedef struct peali_team_card {
    int32_t status;       /* a peal_status: this rank's outcome so far */
    int32_t exported;     /* handle is one */
    int32_t rank;         /* in the communicator */
    int32_t sms;          /* multiprocessors; 0: not known */
    peali_cu_uuid device;
    char bus[PEALI_TEAM_BUS]; /* where people find it: of PCI */
    uint64_t process;     /* equal on ranks of one process */
    uint64_t context;     /* there: of this rank's device */
    uint64_t address;     /* there: of the scratch */
    uint64_t scratch;     /* bytes that this rank can give */
    peali_cu_ipc handle;
} peali_team_card;

/*
 * Opens this rank's side on the device of the calling thread's current context (where there is none: device 0's primary context):
 * kernels loaded, scratch taken out of the process' share. CARD is filled on failure too, and exchanged: then no rank gets a team.
 *
 * PEAL_SCRATCH is what all communicators of a process take of one GPU. Each takes half of what is left; a team uses what its rank
 * with the least has.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED no driver, no device, or no kernels in this build for its architecture (logged);
 *          PEAL_ERR_CUDA (logged); PEAL_ERR_MEMORY no memory, or no scratch left (logged). *TEAM is NULL on failure.
 */
PEAL_MUST_CHECK peal_status peali_team_open(peali_team **team, int rank, peali_team_card *card);

/*
 * Maps the scratch of the N ranks whose cards these are; this one is number ME among them. It leaves a mark in each, which prove
 * looks for. Devices may turn out to be far from each other.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED too many ranks, or too little scratch (logged); a status of open that another rank's card
 *          has (not logged); PEAL_ERR_TIMEOUT a peer's GPU took no store for 10 s, or half of PEAL_TIMEOUT where that is less
 *          (logged), and from then on this one is not to be relied on; PEAL_ERR_CUDA.
 */
PEAL_MUST_CHECK peal_status peali_team_meet(peali_team *team, const peali_team_card *cards, int n, int me);

/*
 * Before meet: what the layout is to be cut for, so that ranks out of reach have the same: each has SCRATCH at least, as many
 * within reach as WITHIN at most, and APART: there are such.
 */
void peali_team_limit(peali_team *team, uint64_t scratch, int within, bool apart);

/*
 * After meet, for programs with messages: makes their post, in host memory, and behind it so many bytes of lines, of which half are
 * for what arrives. PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_CUDA (logged).
 */
PEAL_MUST_CHECK peal_status peali_team_make_post(peali_team *team);
peali_post *peali_team_post(const peali_team *team);
size_t peali_team_lines_bytes(const peali_team *team);

/* Where the messages lie that a post speaks of. */
typedef struct peali_team_mail {
    unsigned char *at; /* as the host knows it, and as the transport does */
    size_t bytes;
    bool device;       /* it is an allocation of the device, */
    uint64_t id;       /* of this id, which is no other's */
} peali_team_mail;

/*
 * Makes it, once, or again after drop. It begins with what arrives, and half of it is that. PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_CUDA
 * (logged).
 */
PEAL_MUST_CHECK peal_status peali_team_make_mail(peali_team *team, bool device, const peali_team_mail **mail);
void peali_team_drop_mail(peali_team *team);

/* In place of drop, for good: a transport may still touch it. */
void peali_team_keep_mail(peali_team *team);

/* May the host touch memory of the device where it is? So can any transport. */
bool peali_team_host_reads(const peali_team *team);

/*
 * Can kernels be sure to see what a network has written to the device, after a flush where it needs one? Between enter and leave,
 * which gets what enter left in VISIT, the context is the thread's, and a transport may touch the device. Any thread.
 */
bool peali_team_takes_writes(peali_team *team);
PEAL_MUST_CHECK peal_status peali_team_enter(const peali_team *team, uint32_t *visit);
void peali_team_leave(const peali_team *team, const uint32_t *visit);

/* Flush does what is needed; copy copies between mail and host memory, and waits. One thread at a time. */
PEAL_MUST_CHECK peal_status peali_team_flush(const peali_team *team);
PEAL_MUST_CHECK peal_status peali_team_copy(peali_team *team, void *to, const void *from, size_t bytes);

/*
 * Did the stores of all ranks arrive here? Some machines promise access between GPUs and lose stores: they are far.
 *
 * Returns: PEAL_OK; PEAL_ERR_CUDA; PEAL_ERR_TIMEOUT as meet.
 */
PEAL_MUST_CHECK peal_status peali_team_prove(peali_team *team);

/* This rank's device and another's that do not, or may not, reach each other, and why; NULL where none was found. */
const char *peali_team_far(const peali_team *team);

/*
 * Rank X's scratch is host memory at SCRATCH: zeroed, of whole pages, as many bytes as the layout has, mapped by all ranks. This
 * rank's own comes first, and those of the others when all ranks have done that. It is kept until close, of other ranks until part.
 *
 * Returns: PEAL_OK; PEAL_ERR_CUDA, PEAL_ERR_MEMORY (logged).
 */
PEAL_MUST_CHECK peal_status peali_team_stage(peali_team *team, int x, void *scratch);

/* The layout that all ranks agree on, for peali_cuda_load; and the ordinal of this rank's device. */
const peali_cuda_layout *peali_team_layout(const peali_team *team);
int peali_team_device(const peali_team *team);

/*
 * Do lines of 128 bytes that this device stores arrive whole at all others, as NVLink brings them? False where that cannot be
 * known, as for a device that this process may not see.
 */
bool peali_team_lines(const peali_team *team);

/* Bytes of this rank's device that are a barrier's to combine. */
void *peali_team_token(const peali_team *team);

/* As peali_gpu_capturing, of a stream of this team's calls: a default one is its device's. */
peali_cu_result peali_team_capturing(const peali_team *team, peali_cu_strm stream, peali_cu_enum *state);

/*
 * One launch of CALL, as peali_cuda_load made it, with signature and deadline_ns, on STREAM. The kernel has a copy of CALL by then.
 * Nothing waits.
 */
PEAL_MUST_CHECK peal_status peali_team_launch(peali_team *team, const peali_cuda_call *call, uint32_t ctas, const void *in,
                                              void *out, peali_cu_strm stream);

/* What the kernels found, without waiting for any: NULL as long as all is well. */
const peali_cuda_report *peali_team_report(const peali_team *team);

/*
 * For whom a kernel waits for longer than a call's notice_ns, and goes on waiting: NULL where none does. Heed makes room for the
 * next one. Threads: one at a time.
 */
const peali_cuda_report *peali_team_notice(const peali_team *team);
void peali_team_heed(peali_team *team);

/* Makes all kernels of this team that wait leave. Threads: any. */
void peali_team_abort(peali_team *team);

/*
 * An allocation of this rank's device, all of it, as other ranks map it. Its id is never another's, whatever comes to lie where it
 * was.
 */
typedef struct peali_team_region {
    uint64_t base, bytes, id;
    int32_t exported; /* 0: it cannot be mapped */
    int32_t spare;
    peali_cu_ipc handle;
} peali_team_region;

/*
 * The allocation that AT lies in. False: none that the driver knows. What has no IPC handle, as memory of cuMemCreate, of a pool
 * or managed, is not exported. Threads: any.
 */
bool peali_team_export(const peali_team *team, const void *at, peali_team_region *region);

/* The id of the allocation that AT lies in now, 0 where there is none. Legal in captures. Threads: any. */
uint64_t peali_team_buffer(const peali_team *team, const void *at);

/* Where REGION of rank X begins as this device sees it, 0 (logged at info) where it cannot be mapped; and lets go of it. */
uint64_t peali_team_map(const peali_team *team, int x, const peali_team_region *region);
void peali_team_unmap(const peali_team *team, int x, uint64_t at);

/*
 * Lets go of peers' scratch. Where there was a launch, it first waits until this rank's GPU has done all that this process gave it:
 * then no stream of the context is being captured, because the driver would invalidate the capture. The user starts nothing more on
 * this communicator, by a graph neither.
 */
void peali_team_part(peali_team *team);

/*
 * Frees TEAM and its scratch, which no rank has mapped any more. Parts first where that was not done. NULL in *TEAM does nothing.
 */
void peali_team_close(peali_team **team);

/*
 * What sort of memory AT is, and of which device (-1: none). WRONG: nothing that this process can read, as memory of a device that
 * was freed; the driver knows as little of it as of the program's own memory, so for that the kernel is asked, by a system call.
 * Needs the driver; without it all is host memory. Threads: any.
 */
typedef enum peali_memory { PEALI_MEMORY_HOST, PEALI_MEMORY_DEVICE, PEALI_MEMORY_MANAGED, PEALI_MEMORY_WRONG } peali_memory;
peali_memory peali_cuda_memory(const void *at, int *device);

/* The same without asking the kernel, so that what is WRONG counts as HOST. Threads: any. */
peali_memory peali_cuda_known(const void *at, int *device);

#endif
