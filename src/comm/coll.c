/* The collectives: arguments are checked here and nowhere below. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "comm/comm_private.h"
#include "comm/select.h"

typedef struct call {
    peal_kind kind;
    const void *in;
    void *out;
    size_t count;
    peal_type type;
    peal_op op;
    int root;
    const void *stream;
} call;

__attribute__((format(printf, 3, 4))) static peal_status refuse(const peal_comm *comm, const call *c, const char *format, ...)
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

static extent given(const peal_comm *comm, const call *c, size_t bytes)
{
    return (extent){(uintptr_t)c->in, c->kind == PEAL_REDUCE_SCATTER ? bytes * (size_t)comm->nranks : bytes};
}

static extent wanted(const peal_comm *comm, const call *c, size_t bytes)
{
    bool none = c->kind == PEAL_REDUCE && comm->rank != c->root;
    return (extent){(uintptr_t)c->out, none ? 0 : c->kind == PEAL_ALLGATHER ? bytes * (size_t)comm->nranks : bytes};
}

/* In place, both buffers are one, or one is this rank's part of the other. */
static bool overlap(const peal_comm *comm, const call *c, size_t bytes)
{
    extent a = given(comm, c, bytes), b = wanted(comm, c, bytes);
    uintptr_t part = bytes * (size_t)comm->rank;
    bool in_place = a.at + (c->kind == PEAL_REDUCE_SCATTER ? part : 0) == b.at + (c->kind == PEAL_ALLGATHER ? part : 0);
    return !in_place && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static peal_status check_buffers(const peal_comm *comm, const call *c, size_t bytes)
{
    extent out = wanted(comm, c, bytes);
    if (bytes > 0 && (!c->in || (out.bytes > 0 && !c->out)))
        return refuse(comm, c, "%s is NULL and count is %zu", c->in ? "recvbuf" : "sendbuf", c->count);
    if (overlap(comm, c, bytes))
        return refuse(comm, c, "sendbuf %p and recvbuf %p overlap; see peal.h for in place", c->in, c->out);
    return PEAL_OK;
}

static peal_status check(const peal_comm *comm, const call *c)
{
    size_t elem = peal_type_bytes(c->type);
    if (elem == 0)
        return refuse(comm, c, "type %d is none of 0 to %d", (int)c->type, PEAL_TYPE_COUNT - 1);
    if (c->op < 0 || c->op >= PEAL_OP_COUNT)
        return refuse(comm, c, "op %d is none of 0 to %d", (int)c->op, PEAL_OP_COUNT - 1);
    if (!peal_op_takes(c->op, c->type))
        return refuse(comm, c, "op %s is not defined for type %s", peal_op_name(c->op), peal_type_name(c->type));
    if (c->root < 0 || c->root >= comm->nranks)
        return refuse(comm, c, "root %d is none of the %d ranks", c->root, comm->nranks);
    if (c->count > PTRDIFF_MAX / elem / (size_t)comm->nranks)
        return refuse(comm, c, "count %zu of type %s is more than memory holds", c->count, peal_type_name(c->type));
    if (c->stream) {
        refuse(comm, c, "stream %p: no device code in this build; pass NULL with host memory", c->stream);
        return PEAL_ERR_UNSUPPORTED;
    }
    return check_buffers(comm, c, c->count * elem);
}

static const peal_algo *choose(const peal_comm *comm, peal_kind kind, size_t bytes)
{
    peal_problem problem = peali_comm_problem(comm, kind, PEAL_SUM, 0);
    return comm->forced[kind] ? comm->forced[kind] : peali_select(&problem, bytes);
}

const char *peal_comm_choice(const peal_comm *comm, peal_kind kind, size_t count, peal_type type, peal_op op)
{
    if (!comm || kind < 0 || kind >= PEAL_KIND_COUNT || !peal_op_takes(op, type))
        return NULL;
    const peal_algo *algo = choose(comm, kind, count * peal_type_bytes(type));
    return algo ? algo->name : NULL;
}

static void tally(peal_comm *comm, const peal_algo *algo)
{
    int i = 0;
    while (peali_algos[i] != algo)
        i++;
    comm->calls[i]++;
}

static peal_status run(peal_comm *comm, const call *c)
{
    peal_problem problem = peali_comm_problem(comm, c->kind, c->op, c->root);
    peali_job job = {.count = c->count, .type = c->type, .op = c->op, .root = c->root};
    job.algo = choose(comm, c->kind, c->count * peal_type_bytes(c->type));
    if (!job.algo) {
        refuse(comm, c, "no algorithm fits %d ranks", comm->nranks);
        return PEAL_ERR_UNSUPPORTED;
    }
    peali_select_slices(comm, &job);
    const peali_plan *plan;
    peali_task task = {&problem, &comm->reach, comm->rank, comm->runner};
    peal_status status = peali_plans_get(&comm->plans, &task, &job, &plan);
    if (status != PEAL_OK)
        return status;
    peali_run_start(comm->runner, plan, c->in, c->out, comm->sequence);
    status = peali_run_wait(comm->runner);
    if (status == PEAL_OK)
        tally(comm, job.algo);
    return status;
}

static peal_status collective(peal_comm *comm, const call *c)
{
    if (!comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "peal_%s: comm is NULL", peal_kind_name(c->kind));
        return PEAL_ERR_INVALID;
    }
    peal_status status = check(comm, c);
    if (status == PEAL_OK && c->count > 0)
        status = run(comm, c);
    comm->sequence++;
    return status;
}

peal_status peal_allreduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, peal_comm *comm,
                           void *stream)
{
    return collective(comm, &(call){PEAL_ALLREDUCE, sendbuf, recvbuf, count, type, op, 0, stream});
}

/* Nothing is combined, and every type has a maximum. */
peal_status peal_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, peal_type type, peal_comm *comm, void *stream)
{
    return collective(comm, &(call){PEAL_ALLGATHER, sendbuf, recvbuf, sendcount, type, PEAL_MAX, 0, stream});
}

peal_status peal_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, peal_type type, peal_op op, peal_comm *comm,
                                void *stream)
{
    return collective(comm, &(call){PEAL_REDUCE_SCATTER, sendbuf, recvbuf, recvcount, type, op, 0, stream});
}

peal_status peal_broadcast(void *buffer, size_t count, peal_type type, int root, peal_comm *comm, void *stream)
{
    return collective(comm, &(call){PEAL_BROADCAST, buffer, buffer, count, type, PEAL_MAX, root, stream});
}

peal_status peal_reduce(const void *sendbuf, void *recvbuf, size_t count, peal_type type, peal_op op, int root, peal_comm *comm,
                        void *stream)
{
    return collective(comm, &(call){PEAL_REDUCE, sendbuf, recvbuf, count, type, op, root, stream});
}

void peal_comm_abort(peal_comm *comm)
{
    peali_runner_abort(comm->runner);
}
