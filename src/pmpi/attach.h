/*
 * Peal's side of a program's communicators: made at the first collective, kept as an attribute, ended with them.
 */
#ifndef PEALI_ATTACH_H
#define PEALI_ATTACH_H

#include <mpi.h>
#include <stdbool.h>

#include <peal/peal.h>

#include "pmpi/tally.h"

/* What Peal keeps of one communicator. */
typedef struct peali_attach {
    enum peali_pass pass; /* PEALI_TAKE, or why every call on it is passed on; equal on all ranks */
    peal_comm *comm;      /* where pass is PEALI_TAKE */
    bool lost; /* some ranks gave up making it: what they and others sent for that is still there, so every call fails */
    bool gone; /* the program freed the communicator, while another thread was in a call on it; release, acquire */
    void *room; /* see peali_attach_room */
    size_t room_bytes;
    struct peali_attach *prev, *next; /* all of this process */
} peali_attach;

/* True where the program's calls are to be taken; one load once that is known. Threads: any. */
bool peali_attach_wanted(void);

/* Has ranks ask each other who is missing, where calls are to be taken. Collective: over MPI_COMM_WORLD, at its start. */
void peali_attach_meet(void);

/* True between MPI's start, as far as the calling thread can tell, and the end of MPI_COMM_SELF in MPI_Finalize. Threads: any. */
bool peali_attach_open(void);

/*
 * The state of COMM, an existing communicator, in *ATTACH; made where there is none.
 *
 * Returns:    MPI_SUCCESS; an error that the handler of COMM has heard of: nothing was made here, and where not all ranks came to
 *             it in time, never will be.
 * Collective: yes, over COMM.
 * Threads:    one per COMM.    Blocks: where it is made, until all ranks have called.
 */
int peali_attach_get(MPI_Comm comm, peali_attach **attach);

/*
 * Passes all calls on COMM on to MPI, for reason WHY, where it has no state yet; what is no communicator is left to MPI.
 *
 * Returns:    as peali_attach_get.
 * Collective: yes, over COMM.
 * Threads:    one per COMM.    Blocks: no.
 */
int peali_attach_leave(MPI_Comm comm, enum peali_pass why);

/* Ends what belongs to communicators that the program has freed. Threads: any; not while MPI deletes attributes. */
void peali_attach_end_dead(void);

/* BYTES of scratch memory, until the next call here; NULL where there are none. Threads: one per communicator. */
void *peali_attach_room(peali_attach *a, size_t bytes);

/* Ends the use of that memory. Threads: one per communicator. */
void peali_attach_room_end(peali_attach *a);

#endif
