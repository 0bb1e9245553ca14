/* The collectives: arguments are checked here and nowhere below. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/device.h"
#include "comm/select.h"

peal_status peali_coll_refuse(const peal_comm *comm, const peali_call *c, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_%s number %llu: %s; nothing was started", peal_kind_name(c->kind),
              (unsigned long long)comm->sequence, why);
    return PEAL_ERR_INVALID;
}

typedef struct extent {
    uintptr_t at;
    size_t bytes;
} extent;

static extent given(const peal_comm *comm, const peali_call *c, size_t bytes)
{
    return (extent){(uintptr_t)c->in, c->kind == PEAL_REDUCE_SCATTER ? bytes * (size_t)comm->nranks : bytes};
}

static extent wanted(const peal_comm *comm, const peali_call *c, size_t bytes)
{
    return (extent){(uintptr_t)c->out, c->kind == PEAL_ALLGATHER ? bytes * (size_t)comm->nranks : bytes};
}

/* In place, both buffers are one, or one is this rank's part of the other. */
static bool overlap(const peal_comm *comm, const peali_call *c, size_t bytes)
{
    extent a = given(comm, c, bytes), b = wanted(comm, c, bytes);
    uintptr_t part = bytes * (size_t)comm->rank;
    bool in_place = a.at + (c->kind == PEAL_REDUCE_SCATTER ? part : 0) == b.at + (c->kind == PEAL_ALLGATHER ? part : 0);
    return !in_place && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static peal_status check_buffers(const peal_comm *comm, const peali_call *c, size_t bytes)
{
    if (bytes > 0 && (!c->in || !c->out))
        return peali_coll_refuse(comm, c, "%s is NULL and count is %zu", c->kind == PEAL_BROADCAST ? "buffer" :
                                 c->in ? "recvbuf" : "sendbuf", c->count);
    if (overlap(comm, c, bytes))
        return peali_coll_refuse(comm, c, "sendbuf %p and recvbuf %p overlap; see peal.h for in place", c->in, c->out);
    return PEAL_OK;
}

/* The place where such a call is remembered, if it is. */
static peali_recent *recent(peal_comm *comm, const peali_call *c)
{
    return &comm->recent[(c->count ^ (size_t)c->kind << 1 ^ (size_t)c->type << 2 ^ (size_t)c->op << 3) % PEALI_RECENT];
}

static bool alike(const peali_recent *r, const peali_call *c)
{
    return r->plan && r->count == c->count && r->kind == c->kind && r->type == c->type && r->op == c->op && r->root == c->root;
}

static peal_status check(const peal_comm *comm, const peali_call *c)
{
    size_t elem = peal_type_bytes(c->type);
    if (elem == 0)
        return peali_coll_refuse(comm, c, "type %d is none of 0 to %d", (int)c->type, PEAL_TYPE_COUNT - 1);
    if (c->op < 0 || c->op > PEAL_PREMUL_SUM)
        return peali_coll_refuse(comm, c, "op %d is none of 0 to %d", (int)c->op, PEAL_PREMUL_SUM);
    if (!peal_op_takes(c->op, c->type))
        return peali_coll_refuse(comm, c, "op %s is not defined for type %s", peal_op_name(c->op), peal_type_name(c->type));
    if (c->op == PEAL_PREMUL_SUM && c->type != comm->premul)
        return peali_coll_refuse(comm, c, "what to multiply %s by is not known; peal_comm_premul says it", peal_type_name(c->type));
    if (c->root < 0 || c->root >= comm->nranks)
        return peali_coll_refuse(comm, c, "root %d is none of the %d ranks", c->root, comm->nranks);
    if (c->count > PTRDIFF_MAX / elem / (size_t)comm->nranks)
        return peali_coll_refuse(comm, c, "count %zu of type %s is more than memory holds", c->count, peal_type_name(c->type));
    return check_buffers(comm, c, c->count * elem);
}

/* Of a call that is KNOWN all but the buffers was right; its plan may be gone. A premultiplied sum asks for more. */
static peal_status recheck(const peal_comm *comm, const peali_call *c, bool known)
{
    return known && c->op != PEAL_PREMUL_SUM ? check_buffers(comm, c, c->count * peal_type_bytes(c->type)) : check(comm, c);
}

/* Nothing is combined: any op will do that the type takes. */
static peal_op any_op(peal_type type)
{
    int op = 0;
    while (op < PEAL_OP_COUNT - 1 && !peal_op_takes((peal_op)op, type))
        op++;
    return (peal_op)op;
}

/* What such a call takes; its algorithm is NULL where there is none. */
static peali_job choice(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op)
{
    bool moves = kind == PEAL_ALLGATHER || kind == PEAL_BROADCAST;
    peali_job job = {.count = count, .type = type, .op = moves ? any_op(type) : op};
    if (kind == PEAL_BARRIER)
        job = (peali_job){.count = 1, .type = PEAL_BYTE, .op = PEAL_BAND};
    if (comm && kind >= 0 && kind < PEAL_KIND_COUNT && peal_op_takes(job.op, job.type))
        (void)peali_select(comm, kind, &job);
    return job;
}

const char *peal_comm_choice(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op)
{
    const peali_job job = choice(comm, kind, count, type, op);
    return job.algo ? job.algo->name : NULL;
}

int peali_comm_slices(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op)
{
    return choice(comm, kind, count, type, op).slices;
}

static long *tally_of(peal_comm *comm, const peali_job *job)
{
    const peal_algo *algo = job->kind == PEAL_BARRIER ? NULL : job->algo;
    int i = 0;
    while (peali_algos[i] != algo)
        i++;
    return &comm->calls[i];
}

/* Of the last call. */
static int class_of(const peal_comm *comm)
{
    return 64 * (int)comm->kind + comm->size;
}

/* Each rank learns the same of a call's memory, so the next one of its size may depend on it. */
static void learn(peal_comm *comm)
{
    int seen = peali_run_seen(comm->runner);
    if (seen < 0 && comm->size >= peali_select_pushed(comm->kind))
        seen = peali_run_look(comm->runner, class_of(comm));
    uint64_t *all = &comm->seen[comm->kind];
    if (seen >= 0 && (*all >> comm->size & 1) != (uint64_t)seen)
        *all ^= (uint64_t)1 << comm->size;
}

/* Is the plan of R, which is of a call like C, still what C takes? */
static bool holds(const peal_comm *comm, const peali_recent *r, const peali_call *c)
{
    return r->made == comm->plans.made && r->seen == (comm->seen[c->kind] >> r->size & 1);
}

/* Chooses the algorithm of such a call, and remembers its plan. PART: of a call that others may be in, which fails then. */
static peal_status choose(peal_comm *comm, const peali_call *c, bool part, peali_recent *r)
{
    peal_problem problem = peali_comm_problem(comm, c->kind, c->op, c->root);
    peali_job job = {.count = c->count, .type = c->type, .op = c->op, .root = c->root};
    if (!peali_select(comm, c->kind, &job)) {
        peali_coll_refuse(comm, c, "no algorithm fits %d ranks", comm->nranks);
        return PEAL_ERR_UNSUPPORTED;
    }
    const peali_plan *plan;
    peali_task task = {&problem, &comm->reach, comm->rank, comm->runner, &comm->lands, comm->layout.stream};
    peal_status status = peali_plans_get(&comm->plans, &task, &job, &plan);
    if (status == PEAL_ERR_MEMORY && !part)
        peali_coll_refuse(comm, c, "no memory for its plan");
    if (status != PEAL_OK)
        return status;
    int size = peali_select_size(comm, c->kind, &job);
    *r = (peali_recent){c->count, c->kind, c->type, c->op, c->root, size, comm->seen[c->kind] >> size & 1, comm->plans.made, plan,
                        tally_of(comm, &job)};
    return PEAL_OK;
}

/* R: where it is remembered; KNOWN: it is. */
static peal_status start(peal_comm *comm, const peali_call *c, const peali_signature *as, peali_recent *r, bool known)
{
    learn(comm);
    peal_status status = known && holds(comm, r, c) ? PEAL_OK : choose(comm, c, as, r);
    if (status != PEAL_OK)
        return status;
    (*r->calls)++;
    comm->kind = c->kind;
    comm->size = r->size;
    if (as)
        peali_run_start_as(comm->runner, r->plan, c->in, c->out, as);
    else
        peali_run_start(comm->runner, r->plan, c->in, c->out, comm->sequence);
    if (r->size >= peali_select_pushed(c->kind))
        peali_run_show(comm->runner, class_of(comm));
    return PEAL_OK;
}

void peali_coll_number(peal_comm *comm, peal_status status)
{
    comm->sequence++;
    comm->refused += status != PEAL_OK;
}

void peali_comm_refuse(peal_comm *comm)
{
    peali_run_refused(comm->runner, comm->sequence);
    peali_coll_number(comm, PEAL_ERR_INVALID);
}

static peal_status begin_on_host(peal_comm *comm, const peali_call *c, peali_recent *r, bool known)
{
    peal_status status = PEAL_OK;
    if (c->count > 0)
        status = start(comm, c, NULL, r, known);
    else
        peali_run_nothing(comm->runner, &(peali_job){.kind = c->kind, .type = c->type, .op = c->op, .root = c->root},
                          comm->sequence);
    if (status != PEAL_OK)
        peali_run_refused(comm->runner, comm->sequence);
    peali_coll_number(comm, status);
    return status;
}

/* Starts the call, or (AT_ONCE) goes on with it; gives its request. One of nothing, and one that is enqueued, is over at once. */
static peal_status begin(peal_comm *comm, const peali_call *c, bool at_once, peal_request **request)
{
    if (!comm || !request) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "peal_i%s: %s is NULL", peal_kind_name(c->kind), comm ? "request" : "comm");
        return PEAL_ERR_INVALID;
    }
    if (!peali_request_owns(comm)) {
        peali_coll_refuse(comm, c, "process %d is a child of the one that made the communicator; call there, or make one here",
                          (int)getpid());
        return PEAL_ERR_UNSUPPORTED;
    }
    if (comm->request.comm)
        return peali_coll_refuse(comm, c, "another call on this communicator is in flight; wait for its request first");
    peali_recent *r = recent(comm, c);
    const bool known = alike(r, c);
    peal_status status = recheck(comm, c, known);
    if (status != PEAL_OK)
        peali_run_refused(comm->runner, comm->sequence);
    else
        status = peali_runner_failure(comm->runner);
    if (status == PEAL_ERR_ABORTED)
        peali_run_aborted(comm->runner, comm->sequence);
    if (status == PEAL_OK)
        status = peali_device_failure(comm);
    bool device = status == PEAL_OK && peali_device_wants(comm, c);
    if (status != PEAL_OK)
        peali_coll_number(comm, status);
    else
        status = device ? peali_device_call(comm, c) : begin_on_host(comm, c, r, known);
    if (status == PEAL_OK)
        *request = peali_request_begin(comm, !device && c->count > 0, at_once);
    return status;
}

static peal_status collective(peal_comm *comm, const peali_call *c)
{
    if (!comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "peal_%s: comm is NULL", peal_kind_name(c->kind));
        return PEAL_ERR_INVALID;
    }
    peal_request *request;
    peal_status status = begin(comm, c, true, &request);
    return status == PEAL_OK ? peali_request_finish(request) : status;
}

peal_status peali_coll_gather(peal_comm *comm, const peali_signature *as, const void *mine, void *all, size_t bytes)
{
    const peali_call c = {PEAL_ALLGATHER, mine, all, bytes, PEAL_UINT8, PEAL_SUM, 0, NULL};
    peali_recent *r = recent(comm, &c);
    peal_status status = start(comm, &c, as, r, alike(r, &c));
    if (status != PEAL_OK)
        peali_run_lost(comm->runner, as, status);
    return peali_request_finish(peali_request_begin(comm, true, true));
}

peal_status peal_allreduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, peal_comm *comm,
                           void *stream)
{
    return collective(comm, &(peali_call){PEAL_ALLREDUCE, sendbuf, recvbuf, count, type, op, 0, stream});
}

peal_status peal_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, peal_type type, peal_comm *comm, void *stream)
{
    return collective(comm, &(peali_call){PEAL_ALLGATHER, sendbuf, recvbuf, sendcount, type, any_op(type), 0, stream});
}

peal_status peal_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, peal_type type, peal_op op, peal_comm *comm,
                                void *stream)
{
    return collective(comm, &(peali_call){PEAL_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, type, op, 0, stream});
}

peal_status peal_broadcast(void *buffer, size_t count, peal_type type, int root, peal_comm *comm, void *stream)
{
    return collective(comm, &(peali_call){PEAL_BROADCAST, buffer, buffer, count, type, any_op(type), root, stream});
}

/* Nobody looks at RECVBUF elsewhere than at the root, nor stores there. */
static void *received(const void *sendbuf, void *recvbuf, int root, const peal_comm *comm)
{
    return comm && comm->rank != root ? (void *)sendbuf : recvbuf;
}

peal_status peal_reduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, int root, peal_comm *comm,
                        void *stream)
{
    void *out = received(sendbuf, recvbuf, root, comm);
    return collective(comm, &(peali_call){PEAL_REDUCE, sendbuf, out, count, type, op, root, stream});
}

/* One byte of the communicator's own: nobody has it combined before all have given theirs. */
static peali_call barrier_call(peal_comm *comm, void *stream)
{
    unsigned char *token = comm ? &comm->token : NULL;
    return (peali_call){PEAL_BARRIER, token, token, 1, PEAL_BYTE, PEAL_BAND, 0, stream};
}

peal_status peal_barrier(peal_comm *comm, void *stream)
{
    peali_call c = barrier_call(comm, stream);
    return collective(comm, &c);
}

peal_status peal_ibarrier(peal_comm *comm, void *stream, peal_request **request)
{
    peali_call c = barrier_call(comm, stream);
    return begin(comm, &c, false, request);
}

peal_status peal_iallreduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, peal_comm *comm,
                            void *stream, peal_request **request)
{
    return begin(comm, &(peali_call){PEAL_ALLREDUCE, sendbuf, recvbuf, count, type, op, 0, stream}, false, request);
}

peal_status peal_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount, peal_type type, peal_comm *comm, void *stream,
                            peal_request **request)
{
    return begin(comm, &(peali_call){PEAL_ALLGATHER, sendbuf, recvbuf, sendcount, type, any_op(type), 0, stream}, false, request);
}

peal_status peal_ireduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, peal_type type, peal_op op, peal_comm *comm,
                                 void *stream, peal_request **request)
{
    return begin(comm, &(peali_call){PEAL_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, type, op, 0, stream}, false, request);
}

peal_status peal_ibroadcast(void *buffer, size_t count, peal_type type, int root, peal_comm *comm, void *stream,
                            peal_request **request)
{
    return begin(comm, &(peali_call){PEAL_BROADCAST, buffer, buffer, count, type, any_op(type), root, stream}, false, request);
}

peal_status peal_ireduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, int root, peal_comm *comm,
                         void *stream, peal_request **request)
{
    void *out = received(sendbuf, recvbuf, root, comm);
    return begin(comm, &(peali_call){PEAL_REDUCE, sendbuf, out, count, type, op, root, stream}, false, request);
}

peal_status peal_comm_error(const peal_comm *comm)
{
    if (!comm)
        return peali_no_comm("peal_comm_error");
    peal_status status = peali_device_failure(comm);
    return status == PEAL_OK ? peali_runner_failure(comm->runner) : status;
}

void peal_comm_abort(peal_comm *comm)
{
    if (comm)
        peali_runner_abort(comm->runner);
    else
        (void)peali_no_comm("peal_comm_abort");
}
