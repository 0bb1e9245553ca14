/*
 * Communicators from inside: what libpeal_mpi and the `peal` command need beyond the public calls. Symbols are exported for
 * the former alone.
 */
#ifndef PEALI_COMM_H
#define PEALI_COMM_H

#include <stdbool.h>

#include <peal/algo.h>
#include <peal/peal.h>

#include "comm/bootstrap.h"
#include "net/net.h"

/* How a communicator is laid out; equal on all ranks, but for `staged` and `fault`. Zero is the default everywhere. */
typedef struct peali_layout {
    const char *net;    /* "mpi", "ucx" or "loop"; NULL: as PEAL_NET has it */
    const struct peali_fault *fault; /* what the transport does wrong, for tests; NULL: nothing */
    const char *nodes;  /* "4+4+3": node sizes in rank order; NULL: the hosts, or a level of a single one */
    bool apart;         /* messages only, also between ranks that could share memory */
    bool push;          /* ranks within reach meet in landing areas in every call, as GPUs do; else in small ones */
    bool pull;          /* never in landing areas */
    size_t piece;       /* ranks help each other with every sum, in pieces of so many bytes; 0: with long ones */
    bool staged;        /* pull: this rank's buffers cannot be touched by peers */
    bool stream;        /* results are written past the caches, whatever their size */
    int parley_ms;      /* without progress for so long, ranks tell each other what they called; 0: 1000 */
    int slices, window; /* slices of every call, and how many are in flight; 0: chosen by size */
    size_t land_bytes;  /* push: of one landing area; 0: by the table's slices */
} peali_layout;

/*
 * Makes a communicator over NET, which it owns from here on, also on failure; NULL where this rank had no memory for one, and no
 * rank gets any. BOOT and LAYOUT (NULL: the default) are not used after the return. Ranks that are threads of one process and
 * share a node are within reach of each other.
 *
 * Returns:    PEAL_OK; PEAL_ERR_CONFIG; PEAL_ERR_MEMORY. All ranks return the same.
 * Collective: yes.    Threads: one per communicator.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peali_comm_create(const peali_bootstrap *boot, peali_net *net, const peali_layout *layout,
                                                          peal_comm **comm);

/* The roll of the ranks of a communicator to be made. Those that speak for all ASK the others, and then say who is MISSING. */
enum { PEALI_ROLL_BYTES = 1024 };
typedef struct peali_roll {
    const char *call, *name; /* what all ranks have to call, and on which communicator of the host library */
    int rank, nranks;
    bool patient;            /* as peali_comm_be_patient */
    bool endless;            /* whatever PEAL_TIMEOUT is */
    bool (*over)(void *ctx); /* have all called? */
    void (*ask)(void *ctx);
    bool (*missing)(void *ctx, char text[PEALI_ROLL_BYTES]); /* who has not called, in words; false: it is not known here */
    void *ctx;
} peali_roll;

/*
 * Waits until all have called; who waits for long is told of. PEAL_OK; PEAL_ERR_TIMEOUT (logged): then those who call later wait
 * in vain. Collective: yes. Threads: any.
 */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peali_comm_roll(const peali_roll *roll);

/*
 * As peal_comm_create_mpi on the MPI_Comm at MPI_COMM, where this rank knows that all others have come to the program's first
 * collective, and waits for them as patiently as in one; whether they go on is asked all the same. In libpeal_mpi, for itself.
 */
PEAL_MUST_CHECK peal_status peali_comm_create_counted(const void *mpi_comm, peal_comm **comm);

/*
 * Makes what ranks ask each other on where they have no communicator yet, as far as MPI gives one. In libpeal_mpi, for itself.
 *
 * Collective: over MPI_COMM_WORLD, at its start.
 */
void peali_comm_meet(void);

/* As peal_comm_create_threads, with a layout. For tests. */
PEAL_MUST_CHECK peal_status peali_comm_create_threads(peal_threads *threads, int rank, const peali_layout *layout,
                                                      peal_comm **comm);

/*
 * From here on COMM warns of absent ranks after 60 s, has no deadline but PEAL_TIMEOUT's, and takes all buffers for host memory, as
 * its caller has staged those that are not: for programs that never asked for Peal.
 */
PEAL_PUBLIC void peali_comm_be_patient(peal_comm *comm);

/* As peal_comm_destroy. False: another thread is in a call on it, which ends; nothing of it is freed. */
PEAL_PUBLIC bool peali_comm_end(peal_comm **comm);

/*
 * This rank's next call on COMM was refused before it was made: the others, which made it, or had it refused, too, get to know as
 * of one that Peal refused.
 */
PEAL_PUBLIC void peali_comm_refuse(peal_comm *comm);

/*
 * Which of A and B (may be NULL) are device memory; WRONG: one that is no memory of this process, as what was freed of a device,
 * else NULL. Next to nothing is asked where the process has no CUDA. Threads: one per COMM.
 */
typedef struct peali_found {
    bool device[2];
    const void *wrong;
} peali_found;
PEAL_PUBLIC peali_found peali_comm_find(peal_comm *comm, const void *a, const void *b);

/* Copies BYTES, each way and within either memory, and waits for it. PEAL_OK; PEAL_ERR_CUDA (logged). Threads: any. */
PEAL_PUBLIC PEAL_MUST_CHECK peal_status peali_comm_copy(const peal_comm *comm, void *to, const void *from, size_t bytes);

/* What a sum, or another call of KIND with root 0, asks of an algorithm on COMM, whose table of nodes it holds. Threads: any. */
peal_problem peali_comm_asks(const peal_comm *comm, peal_kind kind);

/* Into how many slices such a call is cut; as peal_comm_choice. */
PEAL_PUBLIC int peali_comm_slices(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op);

/* Calls started on COMM so far by algorithm, and barriers: NAME and CALLS of entry INDEX 0, 1, ...; 0 past the last. */
PEAL_PUBLIC int peali_comm_tally(const peal_comm *comm, int index, peal_kind *kind, const char **name, long *calls);

#endif
