/*
 * What Peal stands in front of: MPI's start, the end of communicators, and its collectives, the blocking ones, with counts of int
 * and, where MPI has such, of MPI_Count (mpi4py takes these). Nonblocking and persistent calls are MPI's.
 *
 * Open MPI's Fortran bindings call PMPI_X with MPI_IN_PLACE already translated, C programs call MPI_X: both are exported, and
 * MPI's own PMPI_X, found behind this library, is what a call is passed on to. MPICH's Fortran bindings call MPI_X in C, and MPICH
 * itself calls some PMPI_X: there MPI_X alone is exported. But mpi_f08 calls PMPI_Barrier and PMPI_Init, which have no buffers; so
 * these are exported too, and the barrier answers MPI-IO as well. So every call is met exactly once.
 *
 * Whether a call is taken follows from what MPI requires to be equal on all ranks, and from nothing else; a buffer must never
 * decide. Reductions: "the routine is called by all group members using the same arguments for count, datatype, op, root and comm",
 * and the counts of a reduce-scatter are equal everywhere (MPI 4.1, sections 6.9.1, 6.10). Broadcast and allgather: only the type
 * signature is, not the type nor the count (sections 6.4, 6.7), so all that decides is the bytes that travel (bytes.h).
 *
 * What Peal does not take goes on to MPI untouched, wrong arguments too, so that MPI raises its own error. But of a communicator
 * that is gone MPI says so when it is asked for what Peal keeps there, and that is all.
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include <peal/peal.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "pmpi/attach.h"
#include "pmpi/behind.h"
#include "pmpi/bytes.h"
#include "pmpi/handles.h"
#include "pmpi/stage.h"
#include "pmpi/tally.h"

/* A call as far as it decides, and what comes of it. */
struct ask {
    peal_kind kind;
    long long count;   /* of elements; of bytes where they only move */
    const int *counts; /* of MPI_Reduce_scatter: one for each rank; else NULL */
    const MPI_Count *large_counts; /* of MPI_Reduce_scatter_c */
    MPI_Datatype mpi_type;
    MPI_Op mpi_op;
    int root;
    MPI_Comm mpi_comm;

    peal_type type;
    peal_op op;
    peali_attach *state;
    int error; /* of MPI: the call is Peal's, but it cannot be done */
    bool told; /* the program's handler has heard of it */
    bool made; /* Peal was called, whatever came of it */
};

/* Member by member: to zero as much at once, gcc 12 has the processor repeat a store, which takes it a tenth of a small call. */
static struct ask ask_of(peal_kind kind, long long count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct ask a;
    a.kind = kind;
    a.count = count;
    a.counts = NULL;
    a.large_counts = NULL;
    a.mpi_type = type;
    a.mpi_op = op;
    a.root = root;
    a.mpi_comm = comm;
    a.state = NULL;
    a.error = MPI_SUCCESS;
    a.told = a.made = false;
    return a;
}

static long long count_of(const struct ask *a, int r)
{
    return a->counts ? a->counts[r] : a->large_counts[r];
}

/* One count for all ranks is what peal_reduce_scatter takes. */
static enum peali_pass see_counts(struct ask *a)
{
    int n = 0;
    a->error = PMPI_Comm_size(a->mpi_comm, &n);
    a->count = count_of(a, 0);
    for (int r = 1; r < n; r++)
        if (count_of(a, r) != a->count)
            return PEALI_PASS_UNEQUAL;
    return PEALI_TAKE;
}

static enum peali_pass see_reduction(struct ask *a)
{
    enum peali_pass why = a->counts || a->large_counts ? see_counts(a) : PEALI_TAKE;
    if (why != PEALI_TAKE)
        return why;
    return a->count <= 0 ? PEALI_PASS_COUNT : peali_handles_find(a->mpi_type, a->mpi_op, &a->type, &a->op);
}

/* MPI_Pack counts bytes in int, and any rank might need it. */
static enum peali_pass see_bytes(struct ask *a)
{
    if (a->mpi_type == MPI_DATATYPE_NULL || !a->mpi_type)
        return PEALI_PASS_HANDLE;
    if (a->count > 0)
        a->count = peali_bytes_of(a->count, a->mpi_type);
    return a->count <= 0 ? PEALI_PASS_COUNT : a->count > INT_MAX ? PEALI_PASS_LARGE : PEALI_TAKE;
}

static enum peali_pass see(struct ask *a)
{
    switch (a->kind) {
    case PEAL_BARRIER:
        return PEALI_TAKE;
    case PEAL_BROADCAST:
    case PEAL_ALLGATHER:
        return see_bytes(a);
    default:
        return see_reduction(a);
    }
}

/*
 * The communicator that this thread frees: calls on it, by callbacks of the program's attributes, are MPI's. What Peal keeps there
 * goes at some time meanwhile, and would be made anew, for a handle that is another's next; nor may MPICH be asked for it then.
 */
static PEALI_THREAD_LOCAL MPI_Comm leaving;

static int leave(int (*behind)(MPI_Comm *), MPI_Comm *comm)
{
    const MPI_Comm outer = leaving;
    leaving = comm ? *comm : outer;
    int error = behind(comm);
    leaving = outer;
    peali_attach_end_dead();
    return error;
}

PEAL_PUBLIC int MPI_Comm_free(MPI_Comm *comm)
{
    return leave(peali_behind.comm_free, comm);
}

PEAL_PUBLIC int MPI_Comm_disconnect(MPI_Comm *comm)
{
    return leave(peali_behind.comm_disconnect, comm);
}

/*
 * Until such a duplicate is complete, which no rank can tell of the others, nothing else may make a communicator of COMM (Open MPI
 * 4.1 hangs): so Peal makes none of one that has none yet.
 */
PEAL_PUBLIC int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    int error = peali_attach_leave(comm, PEALI_PASS_IDUP);
    return error == MPI_SUCCESS ? peali_behind.comm_idup(comm, copy, request) : error;
}

#if MPI_VERSION >= 4
PEAL_PUBLIC int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *copy, MPI_Request *request)
{
    int error = peali_attach_leave(comm, PEALI_PASS_IDUP);
    return error == MPI_SUCCESS ? peali_behind.comm_idup_with_info(comm, info, copy, request) : error;
}
#endif

static enum peali_pass why_not(struct ask *a)
{
    if (!peali_attach_open())
        return PEALI_PASS_MPI;
    if (a->mpi_comm == MPI_COMM_NULL || !a->mpi_comm) /* 0: of a variable that was never set */
        return PEALI_PASS_HANDLE;
    if (a->mpi_comm == leaving)
        return PEALI_PASS_FREED;
    enum peali_pass why = see(a);
    if (why == PEALI_TAKE && a->error == MPI_SUCCESS)
        a->error = peali_attach_get(a->mpi_comm, &a->state);
    if (a->error != MPI_SUCCESS)
        return PEALI_TAKE;
    if (why != PEALI_TAKE || a->state->pass != PEALI_TAKE)
        return why != PEALI_TAKE ? why : a->state->pass;
    const bool is_rank = a->root == 0 || (a->root > 0 && a->root < peal_comm_size(a->state->comm));
    return is_rank ? PEALI_TAKE : PEALI_PASS_ROOT;
}

static bool take(struct ask *a)
{
    if (!peali_attach_wanted())
        return false;
    enum peali_pass why = why_not(a);
    a->told = a->error != MPI_SUCCESS;
    if (why != PEALI_TAKE)
        peali_tally_pass(a->kind, why);
    return why == PEALI_TAKE;
}

/*
 * The other ranks are in the call: an error goes to the program's handler, never back to MPI. What was wrong before Peal was called
 * is a call of this communicator all the same: else the next one here would meet this one there.
 */
static int finish(const struct ask *a)
{
    if (a->error != MPI_SUCCESS && a->state && a->state->comm && !a->made)
        peali_comm_refuse(a->state->comm);
    if (a->error != MPI_SUCCESS && !a->told && !(a->state && peali_load_acquire(&a->state->gone)))
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

/* Of a call of Peal's. */
static int made(struct ask *a, peal_status status)
{
    a->made = true;
    return error_of(status);
}

/* MPI will name no call in what it prints of ERROR. */
static int refuse(const struct ask *a, int error, const char *why)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, peal_comm_rank(a->state->comm), "MPI %s on %d ranks: %s; nothing was started",
              peal_kind_name(a->kind), peal_comm_size(a->state->comm), why);
    return error;
}

static int run_allreduce(struct ask *a, const void *send, void *recv)
{
    if (recv == MPI_IN_PLACE)
        return refuse(a, MPI_ERR_BUFFER, "recvbuf is MPI_IN_PLACE, which is for sendbuf");
    if (send == MPI_IN_PLACE)
        send = recv;
    size_t bytes = (size_t)a->count * peal_type_bytes(a->type);
    peali_stage s;
    peali_stage_begin(&s, a->state->comm, send, recv);
    send = peali_stage_buffer(&s, send, bytes, PEALI_STAGE_READ);
    recv = peali_stage_buffer(&s, recv, bytes, PEALI_STAGE_WRITTEN);
    if (s.error == MPI_SUCCESS)
        s.error = made(a, peal_allreduce(send, recv, (size_t)a->count, a->type, a->op, a->state->comm, NULL));
    return peali_stage_end(&s, s.error);
}

static int allreduce(struct ask *a, const void *send, void *recv)
{
    if (a->error == MPI_SUCCESS)
        a->error = run_allreduce(a, send, recv);
    return finish(a);
}

PEAL_PUBLIC int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_ALLREDUCE, count, type, op, 0, comm);
    return take(&a) ? allreduce(&a, send, recv) : peali_behind.allreduce(send, recv, count, type, op, comm);
}

/* In place at the root alone; the others' RECV is not theirs to look at. */
static int run_reduce(struct ask *a, const void *send, void *recv)
{
    bool at_root = peal_comm_rank(a->state->comm) == a->root;
    if ((send == MPI_IN_PLACE && !at_root) || (recv == MPI_IN_PLACE && at_root))
        return refuse(a, MPI_ERR_BUFFER, "MPI_IN_PLACE is for sendbuf, and at the root alone");
    if (send == MPI_IN_PLACE)
        send = recv;
    if (!at_root)
        recv = NULL;
    size_t bytes = (size_t)a->count * peal_type_bytes(a->type);
    peali_stage s;
    peali_stage_begin(&s, a->state->comm, send, recv);
    send = peali_stage_buffer(&s, send, bytes, PEALI_STAGE_READ);
    recv = peali_stage_buffer(&s, recv, bytes, PEALI_STAGE_WRITTEN);
    if (s.error == MPI_SUCCESS)
        s.error = made(a, peal_reduce(send, recv, (size_t)a->count, a->type, a->op, a->root, a->state->comm, NULL));
    return peali_stage_end(&s, s.error);
}

static int reduce(struct ask *a, const void *send, void *recv)
{
    if (a->error == MPI_SUCCESS)
        a->error = run_reduce(a, send, recv);
    return finish(a);
}

PEAL_PUBLIC int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE, count, type, op, root, comm);
    return take(&a) ? reduce(&a, send, recv) : peali_behind.reduce(send, recv, count, type, op, root, comm);
}

/*
 * MPI's in place leaves the result at the front of the input, Peal's in this rank's part of it: so there it passes through scratch
 * memory, and the rest of the input stays what it was.
 */
static int run_reduce_scatter_on_host(struct ask *a, const void *send, void *recv)
{
    size_t count = (size_t)a->count, bytes = count * peal_type_bytes(a->type);
    if (send != MPI_IN_PLACE)
        return made(a, peal_reduce_scatter(send, recv, count, a->type, a->op, a->state->comm, NULL));
    void *room = peali_attach_room(a->state, bytes);
    if (!room)
        return refuse(a, MPI_ERR_NO_MEM, "no memory for the result");
    const int error = made(a, peal_reduce_scatter(recv, room, count, a->type, a->op, a->state->comm, NULL));
    if (error == MPI_SUCCESS)
        memcpy(recv, room, bytes);
    peali_attach_room_end(a->state);
    return error;
}

static int run_reduce_scatter(struct ask *a, const void *send, void *recv)
{
    size_t bytes = (size_t)a->count * peal_type_bytes(a->type), all = bytes * (size_t)peal_comm_size(a->state->comm);
    bool in_place = send == MPI_IN_PLACE;
    if (recv == MPI_IN_PLACE)
        return refuse(a, MPI_ERR_BUFFER, "recvbuf is MPI_IN_PLACE, which is for sendbuf");
    peali_stage s;
    peali_stage_begin(&s, a->state->comm, in_place ? recv : send, recv);
    send = peali_stage_buffer(&s, send, all, PEALI_STAGE_READ);
    recv = peali_stage_buffer(&s, recv, in_place ? all : bytes, PEALI_STAGE_WRITTEN | (in_place ? PEALI_STAGE_READ : 0));
    if (s.error == MPI_SUCCESS)
        s.error = run_reduce_scatter_on_host(a, send, recv);
    return peali_stage_end(&s, s.error);
}

static int reduce_scatter(struct ask *a, const void *send, void *recv)
{
    if (a->error == MPI_SUCCESS)
        a->error = run_reduce_scatter(a, send, recv);
    return finish(a);
}

PEAL_PUBLIC int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE_SCATTER, count, type, op, 0, comm);
    return take(&a) ? reduce_scatter(&a, send, recv) : peali_behind.reduce_scatter_block(send, recv, count, type, op, comm);
}

PEAL_PUBLIC int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE_SCATTER, 0, type, op, 0, comm);
    a.counts = counts;
    return take(&a) ? reduce_scatter(&a, send, recv) : peali_behind.reduce_scatter(send, recv, counts, type, op, comm);
}

/*
 * Packs, and unpacks, where there was no error yet. MPI itself tells the program's handler of one here. Who has nothing to PACK has
 * MPI look at the type all the same: one that no rank can pack is refused by all, before the call.
 */
static void pack(struct ask *a, const peali_elements *at, void *packed, bool any)
{
    if (a->error != MPI_SUCCESS)
        return;
    const peali_elements none = {packed, 0, at->type, at->comm};
    a->error = peali_bytes_pack(any ? at : &none, packed, (size_t)a->count);
    a->told = a->error != MPI_SUCCESS;
}

static void unpack(struct ask *a, const peali_elements *at, void *packed)
{
    if (a->error != MPI_SUCCESS)
        return;
    a->error = peali_bytes_unpack(at, packed, (size_t)a->count);
    a->told = a->error != MPI_SUCCESS;
}

/* Where BYTES of what is at AT travel from or to: AT itself, if its type is PLAIN. NULL and an error where there is no place. */
static char *place(struct ask *a, const peali_elements *at, bool plain, size_t bytes)
{
    char *to = plain ? at->buf : peali_attach_room(a->state, bytes);
    if (at->buf == MPI_IN_PLACE || (plain && !to))
        a->error = refuse(a, MPI_ERR_BUFFER, to ? "MPI_IN_PLACE is not for this buffer" : "a buffer is NULL");
    else if (!to)
        a->error = refuse(a, MPI_ERR_NO_MEM, "no memory to pack elements");
    return a->error == MPI_SUCCESS ? to : NULL;
}

static void run_bcast(struct ask *a, const peali_elements *data)
{
    bool plain = peali_bytes_plain(data), at_root = peal_comm_rank(a->state->comm) == a->root;
    void *at = place(a, data, plain, (size_t)a->count);
    if (!plain)
        pack(a, data, at, at_root);
    if (a->error == MPI_SUCCESS)
        a->error = made(a, peal_broadcast(at, (size_t)a->count, PEAL_UINT8, a->root, a->state->comm, NULL));
    if (!plain && !at_root)
        unpack(a, data, at);
    peali_attach_room_end(a->state);
}

static int bcast(struct ask *a, peali_elements data)
{
    if (a->error == MPI_SUCCESS) {
        const void *first = peali_stage_first(&data);
        peali_stage s;
        peali_stage_begin(&s, a->state->comm, first, first);
        bool at_root = peal_comm_rank(a->state->comm) == a->root;
        peali_stage_elements(&s, &data, 1, at_root ? PEALI_STAGE_READ : PEALI_STAGE_WRITTEN);
        a->error = s.error;
        if (a->error == MPI_SUCCESS)
            run_bcast(a, &data);
        a->error = peali_stage_end(&s, a->error);
    }
    return finish(a);
}

PEAL_PUBLIC int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_BROADCAST, count, type, MPI_OP_NULL, root, comm);
    return take(&a) ? bcast(&a, (peali_elements){buf, count, type, comm}) : peali_behind.bcast(buf, count, type, root, comm);
}

/* The elements of rank R in the buffer ALL of an allgather. */
static peali_elements part(const peali_elements *all, int r)
{
    MPI_Aint first, extent = peali_handles_bytes(all->type);
    if (extent == 0)
        PMPI_Type_get_extent(all->type, &first, &extent);
    return (peali_elements){(char *)all->buf + (MPI_Aint)r * all->count * extent, all->count, all->type, all->comm};
}

static void unpack_all(struct ask *a, const peali_elements *all, char *packed)
{
    for (int r = 0; r < peal_comm_size(a->state->comm); r++) {
        peali_elements of_one = part(all, r);
        unpack(a, &of_one, packed + (size_t)r * (size_t)a->count);
    }
}

/* What must be packed is packed into its place in the result, from where it travels as in place. */
static void run_allgather(struct ask *a, const peali_elements *give, const peali_elements *all)
{
    peal_comm *comm = a->state->comm;
    bool plain = peali_bytes_plain(all);
    size_t bytes = (size_t)a->count;
    char *to = place(a, all, plain, bytes * (size_t)peal_comm_size(comm));
    if (a->error != MPI_SUCCESS)
        return;
    peali_elements mine = give->buf == MPI_IN_PLACE ? part(all, peal_comm_rank(comm)) : *give;
    void *from = mine.buf;
    if (mine.type == MPI_DATATYPE_NULL) {
        a->error = refuse(a, MPI_ERR_TYPE, "sendtype is null");
    } else if (peali_bytes_of(mine.count, mine.type) != a->count) {
        char why[160];
        snprintf(why, sizeof why, "sendcount %lld and sendtype give %lld bytes, and recvcount %lld and recvtype take %lld",
                 (long long)mine.count, (long long)peali_bytes_of(mine.count, mine.type), (long long)all->count,
                 (long long)a->count);
        a->error = refuse(a, MPI_ERR_COUNT, why);
    } else if (!peali_bytes_plain(&mine)) {
        from = to + (size_t)peal_comm_rank(comm) * bytes;
        pack(a, &mine, from, true);
    }
    if (a->error == MPI_SUCCESS)
        a->error = made(a, peal_allgather(from, to, bytes, PEAL_UINT8, comm, NULL));
    if (!plain)
        unpack_all(a, all, to);
    peali_attach_room_end(a->state);
}

static int allgather(struct ask *a, peali_elements give, peali_elements all)
{
    if (a->error == MPI_SUCCESS) {
        bool in_place = give.buf == MPI_IN_PLACE;
        const void *first = peali_stage_first(&all);
        if (!give.type) /* of a variable that was never set: MPI would raise its error elsewhere */
            give.type = MPI_DATATYPE_NULL;
        peali_stage s;
        peali_stage_begin(&s, a->state->comm, in_place ? first : peali_stage_first(&give), first);
        peali_stage_elements(&s, &give, 1, PEALI_STAGE_READ);
        peali_stage_elements(&s, &all, peal_comm_size(a->state->comm), PEALI_STAGE_WRITTEN | (in_place ? PEALI_STAGE_READ : 0));
        a->error = s.error;
        if (a->error == MPI_SUCCESS)
            run_allgather(a, &give, &all);
        a->error = peali_stage_end(&s, a->error);
    }
    return finish(a);
}

PEAL_PUBLIC int MPI_Allgather(const void *send, int sendcount, MPI_Datatype sendtype, void *recv, int recvcount,
                              MPI_Datatype recvtype, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_ALLGATHER, recvcount, recvtype, MPI_OP_NULL, 0, comm);
    if (!take(&a))
        return peali_behind.allgather(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
    return allgather(&a, (peali_elements){(void *)send, sendcount, sendtype, comm},
                     (peali_elements){recv, recvcount, recvtype, comm});
}

PEAL_PUBLIC int MPI_Barrier(MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_BARRIER, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, 0, comm);
    if (!take(&a))
        return peali_behind.barrier(comm);
    if (a.error == MPI_SUCCESS)
        a.error = made(&a, peal_barrier(a.state->comm, NULL));
    return finish(&a);
}

#if MPI_VERSION >= 4
PEAL_PUBLIC int MPI_Allreduce_c(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_ALLREDUCE, count, type, op, 0, comm);
    return take(&a) ? allreduce(&a, send, recv) : peali_behind.allreduce_c(send, recv, count, type, op, comm);
}

PEAL_PUBLIC int MPI_Reduce_c(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE, count, type, op, root, comm);
    return take(&a) ? reduce(&a, send, recv) : peali_behind.reduce_c(send, recv, count, type, op, root, comm);
}

PEAL_PUBLIC int MPI_Reduce_scatter_block_c(const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op,
                                           MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE_SCATTER, count, type, op, 0, comm);
    return take(&a) ? reduce_scatter(&a, send, recv) : peali_behind.reduce_scatter_block_c(send, recv, count, type, op, comm);
}

PEAL_PUBLIC int MPI_Reduce_scatter_c(const void *send, void *recv, const MPI_Count counts[], MPI_Datatype type, MPI_Op op,
                                     MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_REDUCE_SCATTER, 0, type, op, 0, comm);
    a.large_counts = counts;
    return take(&a) ? reduce_scatter(&a, send, recv) : peali_behind.reduce_scatter_c(send, recv, counts, type, op, comm);
}

PEAL_PUBLIC int MPI_Bcast_c(void *buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_BROADCAST, count, type, MPI_OP_NULL, root, comm);
    return take(&a) ? bcast(&a, (peali_elements){buf, count, type, comm}) : peali_behind.bcast_c(buf, count, type, root, comm);
}

PEAL_PUBLIC int MPI_Allgather_c(const void *send, MPI_Count sendcount, MPI_Datatype sendtype, void *recv, MPI_Count recvcount,
                                MPI_Datatype recvtype, MPI_Comm comm)
{
    struct ask a = ask_of(PEAL_ALLGATHER, recvcount, recvtype, MPI_OP_NULL, 0, comm);
    if (!take(&a))
        return peali_behind.allgather_c(send, sendcount, sendtype, recv, recvcount, recvtype, comm);
    return allgather(&a, (peali_elements){(void *)send, sendcount, sendtype, comm},
                     (peali_elements){recv, recvcount, recvtype, comm});
}
#endif

static int begun(int error)
{
    if (error == MPI_SUCCESS)
        peali_attach_meet();
    return error;
}

PEAL_PUBLIC int MPI_Init(int *argc, char ***argv)
{
    return begun(peali_behind.init(argc, argv));
}

PEAL_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return begun(peali_behind.init_thread(argc, argv, required, provided));
}

PEAL_PUBLIC int PMPI_Init(int *argc, char ***argv)
{
    return begun(peali_behind.pinit(argc, argv));
}

PEAL_PUBLIC int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return begun(peali_behind.pinit_thread(argc, argv, required, provided));
}

#define SAME(name) __attribute__((visibility("default"), alias(name)))
#ifdef OPEN_MPI
SAME("MPI_Allreduce") __typeof__(MPI_Allreduce) PMPI_Allreduce;
SAME("MPI_Reduce") __typeof__(MPI_Reduce) PMPI_Reduce;
SAME("MPI_Reduce_scatter_block") __typeof__(MPI_Reduce_scatter_block) PMPI_Reduce_scatter_block;
SAME("MPI_Reduce_scatter") __typeof__(MPI_Reduce_scatter) PMPI_Reduce_scatter;
SAME("MPI_Bcast") __typeof__(MPI_Bcast) PMPI_Bcast;
SAME("MPI_Allgather") __typeof__(MPI_Allgather) PMPI_Allgather;
SAME("MPI_Comm_idup") __typeof__(MPI_Comm_idup) PMPI_Comm_idup;
#endif
SAME("MPI_Barrier") __typeof__(MPI_Barrier) PMPI_Barrier;
SAME("MPI_Comm_free") __typeof__(MPI_Comm_free) PMPI_Comm_free;
SAME("MPI_Comm_disconnect") __typeof__(MPI_Comm_disconnect) PMPI_Comm_disconnect;
