/* As comm/plans.c, for what runs on GPUs: symbolic programs, and launches in a set-associative cache. */
#include "comm/device_plans.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "comm/device.h"

static const uint64_t NOTICE_NS = 1000000000; /* as host calls ask after so long */

struct peali_device_program {
    const peal_algo *algo;
    int root;
    peali_program *program;
    struct peali_device_program *next;
};

static peal_status lower(const peal_comm *comm, const peali_call *c, const peal_algo *algo, peali_program **out)
{
    peal_problem problem = peali_device_problem(comm, c);
    return peali_lower(algo, &problem, &(peali_reach){comm->nranks, comm->near, PEALI_PUSH}, comm->rank, out);
}

static peal_status program_of(peal_comm *comm, const peali_call *c, const peal_algo *algo, const peali_program **out)
{
    peali_device_plans *plans = &comm->device->plans;
    struct peali_device_program *e = plans->programs;
    while (e && (e->algo != algo || e->root != c->root))
        e = e->next;
    if (!e) {
        e = peali_alloc(1, sizeof *e);
        peal_status status = e ? lower(comm, c, algo, &e->program) : PEAL_ERR_MEMORY;
        if (status != PEAL_OK) {
            peali_free(e);
            return status;
        }
        e->algo = algo;
        e->root = c->root;
        e->next = plans->programs;
        plans->programs = e;
    }
    *out = e->program;
    return PEAL_OK;
}

static bool is_for(const peali_device_plan *p, const peal_comm *comm, const peali_call *c)
{
    return p->count == c->count && p->kind == c->kind && p->type == c->type && p->op == c->op && p->root == c->root &&
           p->forced == comm->forced[c->kind] && p->most_ctas == comm->max_ctas;
}

/* 32 bits for what must be equal on all ranks, and for what follows from it; and what they mean. */
static void sign(peal_comm *comm, const peali_call *c, peali_device_plan *plan)
{
    const peali_device_choice *how = &plan->choice;
    peali_ledger_call entry = {.call = peali_device_signature(comm, c)};
    entry.call.sequence = PEALI_SIGNATURE_ANY;
    snprintf(entry.how, sizeof entry.how, "%s, %s, at most %u CTAs", how->algo->name, peali_proto_name(how->proto), how->ctas);
    uint32_t key = (uint32_t)XXH3_64bits(&entry, sizeof entry);
    plan->call.signature = key ? key : 1;
    plan->call.notice_ns = NOTICE_NS;
    plan->call.deadline_ns = (uint64_t)peali_run_limit_ns(false);
    peali_ledger_write(comm->device->mine, plan->call.signature, &entry);
}

static bool gpus_do(const peali_call *c)
{
    bool moves = c->kind == PEAL_ALLGATHER || c->kind == PEAL_BROADCAST;
    bool complex = c->type == PEAL_COMPLEX_FLOAT || c->type == PEAL_COMPLEX_DOUBLE;
    bool quad = c->type == PEAL_LONG_DOUBLE || c->type == PEAL_COMPLEX_LONG_DOUBLE;
    return moves || !(quad || (complex && c->op == PEAL_PROD));
}

static peal_status fill(peal_comm *comm, const peali_call *c, const peali_device_traits *traits, peali_device_plan *plan)
{
    const peali_program *program;
    if (!gpus_do(c)) {
        peali_coll_refuse(comm, c, "GPUs do no %s of %s; take host memory", peal_op_name(c->op), peal_type_name(c->type));
        return PEAL_ERR_UNSUPPORTED;
    }
    if (!peali_device_choose(comm, c, traits, &plan->choice))
        return PEAL_ERR_UNSUPPORTED;
    peal_status status = program_of(comm, c, plan->choice.algo, &program);
    if (status != PEAL_OK)
        return status;
    peali_cuda_job job = {peali_comm_schedules(c->kind), c->count, c->type, c->op, c->root, plan->choice.proto, plan->choice.ctas,
                          0};
    status = peali_cuda_load(program, &job, traits->layout, &plan->call, &plan->ctas);
    if (status == PEAL_OK)
        sign(comm, c, plan);
    if (status == PEAL_ERR_UNSUPPORTED)
        peali_coll_refuse(comm, c, "%s is too long for one launch on %d GPUs; unset PEAL_ALGO, or name another one",
                          plan->choice.algo->name, comm->nranks);
    return status;
}

static peal_status make(peal_comm *comm, const peali_call *c, const peali_device_traits *traits, peali_device_plan **out)
{
    peali_device_plan *plan = peali_alloc(1, sizeof *plan);
    if (!plan)
        return PEAL_ERR_MEMORY;
    plan->kind = c->kind;
    plan->count = c->count;
    plan->type = c->type;
    plan->op = c->op;
    plan->root = c->root;
    plan->forced = comm->forced[c->kind];
    plan->most_ctas = comm->max_ctas;
    peal_status status = fill(comm, c, traits, plan);
    if (status != PEAL_OK)
        peali_free(plan);
    else
        *out = plan;
    return status;
}

static unsigned set_of(const peali_call *c)
{
    uint64_t h = c->count * 0x9e3779b97f4a7c15u + (uint64_t)c->kind * 127 + (uint64_t)c->type * 31 + (uint64_t)c->op * 7 +
                 (uint64_t)c->root;
    return (unsigned)(h >> 40 ^ h) % PEALI_DEVICE_SETS;
}

peal_status peali_device_plans_get(peal_comm *comm, const peali_call *c, const peali_device_traits *traits,
                                   const peali_device_plan **plan)
{
    peali_device_plans *plans = &comm->device->plans;
    unsigned set = set_of(c);
    for (int w = 0; w < PEALI_DEVICE_WAYS; w++)
        if (plans->plan[set][w] && is_for(plans->plan[set][w], comm, c)) {
            *plan = plans->plan[set][w];
            return PEAL_OK;
        }
    peali_device_plan *fresh;
    peal_status status = make(comm, c, traits, &fresh);
    if (status != PEAL_OK)
        return status;
    peali_device_plan **way = &plans->plan[set][plans->next[set]++ % PEALI_DEVICE_WAYS];
    peali_free(*way);
    *way = fresh;
    *plan = fresh;
    return PEAL_OK;
}

void peali_device_plans_free(peali_device_plans *plans)
{
    for (int s = 0; s < PEALI_DEVICE_SETS; s++)
        for (int w = 0; w < PEALI_DEVICE_WAYS; w++)
            peali_free(plans->plan[s][w]);
    while (plans->programs) {
        struct peali_device_program *e = plans->programs;
        plans->programs = e->next;
        peali_program_free(&e->program);
        peali_free(e);
    }
}
