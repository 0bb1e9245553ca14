/*
 * The processes of one host find each other: each sends the descriptor of its pool to the others of its communicator over a Unix
 * socket, and maps theirs. A pool is mapped once a process, whatever the number of communicators.
 */
#ifndef PEALI_HOST_H
#define PEALI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/status.h>

typedef struct peali_host peali_host;

/* What a rank tells the others, as bytes, before they meet. All zeros: this rank has no pool, or no socket. */
typedef struct peali_host_card {
    uint64_t socket[2]; /* random name of its abstract Unix socket */
    uint64_t pool[2];   /* peali_pool_view.id */
    uint64_t base, bytes; /* where the pool lies in its process */
    uint64_t user;        /* who may take its messages for true */
} peali_host_card;

/*
 * Opens the socket of this rank for one communicator. PEAL_OK; else CARD is zeros: PEAL_ERR_UNSUPPORTED (logged at info);
 * PEAL_ERR_MEMORY. Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_host_open(peali_host **host, peali_host_card *card);

/*
 * True where the pools of all N ranks of CARDS were mapped for other communicators of this process: then SHIFT is filled, too. HOST
 * may be NULL, and then knows nobody.
 */
bool peali_host_knows(peali_host *host, const peali_host_card *cards, int n, ptrdiff_t *shift);

/*
 * Exchanges pools with the N ranks of CARDS, this rank's at index ME; all of them are on this host and call it, once, at the same
 * time. HOST is NULL where it could not be opened. SHIFT[x] is what must be added to an address in the pool of rank x, as rank x
 * has it, to have it here; 0 for ME. Ranks of one process have the same pool, and shift 0.
 *
 * Returns: PEAL_OK; PEAL_ERR_UNSUPPORTED a rank has no pool or is of another user, which all see, or this one cannot map one
 *          (logged at info, with the reason), or the socket of a rank is not on this host (a warning); PEAL_ERR_TIMEOUT a rank sent
 *          nothing for 30 s, or PEAL_TIMEOUT where that is less (logged, it is named). A rank that fails does not hold up the
 *          others, and they may succeed. What was mapped stays until the host is closed.
 * Blocks:  until all have come.
 */
PEAL_MUST_CHECK peal_status peali_host_meet(peali_host *host, const peali_host_card *cards, int n, int me,
                                            ptrdiff_t *shift);

/* Once all ranks have met, or know each other: closes the socket. Sooner, one that comes late would take this rank for gone. */
void peali_host_hang_up(peali_host *host);

/*
 * Unmaps pools that no other communicator of this process uses, and frees HOST; nothing of peers may be touched afterwards. In a
 * child of the process that opened HOST peers' pools are not mapped at all. Threads: any.
 */
void peali_host_close(peali_host **host);

#endif
