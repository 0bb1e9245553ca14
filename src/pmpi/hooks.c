/*
 * The collectives of MPI that Peal stands in front of.
 *
 * Open MPI's Fortran bindings call PMPI_X with MPI_IN_PLACE already translated, C programs call MPI_X: both are exported, and
 * MPI's own PMPI_X, found behind this library, is what a call is passed on to. So every call is met exactly once.
 *
 * Whether a call is taken follows from its op, type, count and communicator alone, which MPI requires to be equal on all ranks:
 * a buffer must never decide. What Peal does not take goes on to MPI untouched, wrong arguments too, so that MPI raises its own
 * error.
 */
#include <dlfcn.h>
#include <mpi.h>

#include <peal/peal.h>

#include "pmpi/attach.h"
#include "pmpi/handles.h"
#include "pmpi/tally.h"

/* A call as far as it decides, and what comes of it. */
struct ask {
    peal_kind kind;
    long long count;
    MPI_Datatype mpi_type;
    MPI_Op mpi_op;
    MPI_Comm mpi_comm;

    peal_type type;
    peal_op op;
    peal_comm *comm;
    int error; /* of MPI: the call is Peal's, but it cannot be done */
};

static struct {
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
} mpi; /* written before main */

/* Behind this library, or, where the program names MPI before it, the first there is. */
static void *behind(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    return f ? f : dlsym(RTLD_DEFAULT, name);
}

__attribute__((constructor)) static void find_mpi(void)
{
    *(void **)&mpi.allreduce = behind("PMPI_Allreduce");
}

static enum peali_pass why_not(struct ask *a)
{
    peali_attach *state = NULL;
    if (!peali_attach_open())
        return PEALI_PASS_MPI;
    if (a->mpi_comm == MPI_COMM_NULL)
        return PEALI_PASS_HANDLE;
    if (a->count <= 0)
        return PEALI_PASS_COUNT;
    enum peali_pass why = peali_handles_find(a->mpi_type, a->mpi_op, &a->type, &a->op);
    if (why != PEALI_TAKE)
        return why;
    a->error = peali_attach_get(a->mpi_comm, &state);
    if (a->error != MPI_SUCCESS)
        return PEALI_TAKE;
    a->comm = state->comm;
    return state->pass;
}

static bool take(struct ask *a)
{
    if (!peali_attach_wanted())
        return false;
    enum peali_pass why = why_not(a);
    if (why != PEALI_TAKE)
        peali_tally_pass(a->kind, why);
    return why == PEALI_TAKE;
}

/* The other ranks are in the call: an error goes to the program's handler, never back to MPI. */
static int finish(const struct ask *a)
{
    if (a->error != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(a->mpi_comm, a->error);
    return a->error;
}

static int error_of(peal_status status)
{
    switch (status) {
    case PEAL_OK:
        return MPI_SUCCESS;
    case PEAL_ERR_INVALID:
        return MPI_ERR_BUFFER; /* all else was right, or the call would not have been taken */
    case PEAL_ERR_MEMORY:
        return MPI_ERR_NO_MEM;
    default:
        return MPI_ERR_OTHER;
    }
}

static int allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ask a = {.kind = PEAL_ALLREDUCE, .count = count, .mpi_type = type, .mpi_op = op, .mpi_comm = comm};
    if (!take(&a))
        return mpi.allreduce(send, recv, count, type, op, comm);
    if (send == MPI_IN_PLACE)
        send = recv;
    if (recv == MPI_IN_PLACE)
        a.error = MPI_ERR_BUFFER;
    if (a.error == MPI_SUCCESS)
        a.error = error_of(peal_allreduce(send, recv, (size_t)count, a.type, a.op, a.comm, NULL));
    return finish(&a);
}

PEAL_PUBLIC int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return allreduce(send, recv, count, type, op, comm);
}

PEAL_PUBLIC int PMPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return allreduce(send, recv, count, type, op, comm);
}
