/* As comm/plans.c, for what runs on GPUs: symbolic programs, and launches in a set-associative cache. */
#include "comm/device_plans.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/config.h"
#include "comm/device.h"
#include "cuda/engines.h"

static const uint64_t NOTICE_NS = 1000000000; /* as host calls ask after so long */

struct peali_device_program {
    const peal_algo *algo;
    int root;
    peali_program *program;
    peali_program **all; /* where some ranks are out of reach: of each rank, for what all must have alike */
    bool placed;          /* lowered to place, too */
    peali_program *place; /* NULL: it cannot be done where vectors lie */
    struct peali_device_program *next;
};

/* Of the ranks within reach of rank FIRST, which is the first of them. */
static peal_status lower_there(const peal_comm *comm, const peal_problem *problem, const peal_algo *algo, int first,
                               peali_program **all)
{
    int32_t ranks[PEALI_CUDA_RANKS];
    peali_program *found[PEALI_CUDA_RANKS];
    peali_reach reach = {0, ranks, PEALI_PUSH};
    for (int r = first; r < comm->nranks; r++)
        if (comm->device->first[r] == first)
            ranks[reach.nranks++] = r;
    peal_status status = peali_lower_all(algo, problem, &reach, found);
    for (int x = 0; x < reach.nranks && status == PEAL_OK; x++)
        all[ranks[x]] = found[x];
    return status;
}

static peal_status lower(const peal_comm *comm, const peali_call *c, const peal_algo *algo, struct peali_device_program *e)
{
    peal_problem problem = peali_device_problem(comm, c);
    if (comm->reach.nranks == comm->nranks)
        return peali_lower(algo, &problem, &(peali_reach){comm->nranks, comm->near, PEALI_PUSH}, comm->rank, &e->program);
    e->all = peali_alloc((size_t)comm->nranks, sizeof *e->all);
    peal_status status = e->all ? PEAL_OK : PEAL_ERR_MEMORY;
    for (int r = 0; r < comm->nranks && status == PEAL_OK; r++)
        if (comm->device->first[r] == r)
            status = lower_there(comm, &problem, algo, r, e->all);
    if (status == PEAL_OK)
        e->program = e->all[comm->rank];
    return status;
}

static void program_free(const peal_comm *comm, struct peali_device_program *e)
{
    for (int r = 0; e->all && r < comm->nranks; r++)
        if (e->all[r] != e->program)
            peali_program_free(&e->all[r]);
    peali_program_free(&e->program);
    peali_program_free(&e->place);
    peali_free(e->all);
    peali_free(e);
}

/* The program of E in place, if those of all ranks can be done where vectors lie. */
static peal_status lower_place(const peal_comm *comm, const peali_call *c, struct peali_device_program *e)
{
    peali_program *all[PEALI_CUDA_RANKS] = {NULL};
    peal_problem problem = peali_device_problem(comm, c);
    if (e->placed)
        return PEAL_OK;
    peal_status status = peali_lower_all(e->algo, &problem, &(peali_reach){comm->nranks, comm->near, PEALI_PLACE}, all);
    bool can = status == PEAL_OK && peali_cuda_one_round(all);
    for (int r = 0; r < comm->nranks; r++)
        if (can && r == comm->rank)
            e->place = all[r];
        else
            peali_program_free(&all[r]);
    e->placed = status == PEAL_OK;
    return status;
}

static peal_status program_of(peal_comm *comm, const peali_call *c, const peal_algo *algo, struct peali_device_program **out)
{
    peali_device_plans *plans = &comm->device->plans;
    struct peali_device_program *e = plans->programs;
    while (e && (e->algo != algo || e->root != c->root))
        e = e->next;
    if (!e) {
        e = peali_alloc(1, sizeof *e);
        peal_status status = e ? lower(comm, c, algo, e) : PEAL_ERR_MEMORY;
        if (status != PEAL_OK) {
            if (e)
                program_free(comm, e);
            return status;
        }
        e->algo = algo;
        e->root = c->root;
        e->next = plans->programs;
        plans->programs = e;
    }
    *out = e;
    return PEAL_OK;
}

static bool is_for(const peali_device_plan *p, const peal_comm *comm, const peali_call *c, uint32_t refused)
{
    return p->count == c->count && p->kind == c->kind && p->type == c->type && p->op == c->op && p->root == c->root &&
           p->forced == comm->forced[c->kind] && p->most_ctas == comm->max_ctas && p->refused == refused;
}

/*
 * 32 bits for what must be equal on all ranks, and for what follows from it; and what they mean. Kernels meet in the order of their
 * launches: where one rank alone had a call refused, its later ones are not those of the others that they would meet. A graph runs
 * when it is launched, whatever had been refused when it was captured, and meets graphs alone: all ranks capture a call, or none.
 */
static void sign(peal_comm *comm, const peali_call *c, peali_device_plan *plan)
{
    const peali_device_choice *how = &plan->choice;
    char after[32] = "";
    if (plan->refused == PEALI_DEVICE_GRAPH)
        snprintf(after, sizeof after, ", in a graph");
    else if (plan->refused)
        snprintf(after, sizeof after, ", after %u refused", plan->refused);
    peali_ledger_call entry = {.call = peali_device_signature(comm, c)};
    entry.call.sequence = PEALI_SIGNATURE_ANY;
    snprintf(entry.how, sizeof entry.how, "%s, %s%s, at most %u CTAs%s", how->algo->name, peali_proto_name(how->proto),
             how->direct ? " or direct" : how->engines ? " by copy engines" : "", how->most_ctas, after);
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
    return moves || !(quad || (complex && (c->op == PEAL_PROD || c->op == PEAL_PREMUL_SUM)));
}

/* The longest slice of all ranks; 0 where the program of one is not for kernels. */
static uint32_t longest(const peal_comm *comm, const struct peali_device_program *e, const peali_cuda_job *job,
                        const peali_cuda_layout *layout)
{
    uint32_t least = UINT32_MAX;
    for (int r = 0; r < comm->nranks; r++) {
        uint32_t its = peali_cuda_longest(e->all[r], job, layout);
        least = its < least ? its : least;
    }
    return least;
}

/* What one rank cannot launch, no rank does. */
static bool all_launch(const peal_comm *comm, const struct peali_device_program *e, const peali_cuda_job *job,
                       const peali_cuda_layout *layout)
{
    peali_cuda_call call;
    uint32_t ctas;
    bool all = true;
    for (int r = 0; r < comm->nranks && all; r++)
        all = peali_cuda_load(e->all[r], job, layout, &call, &ctas) == PEAL_OK;
    return all;
}

/* Lines that were not asked for are for what all CTAs together have room for: slices one after the other take longer than bulk. */
static bool too_long(const peali_cuda_job *job, const peali_cuda_layout *layout)
{
    const uint64_t ctas = job->most_ctas < layout->lanes ? job->most_ctas : layout->lanes;
    return job->proto != PEALI_CUDA_BULK && peali_config_get()->proto < 0 &&
           ctas * job->longest * PEALI_CUDA_PACK < job->count * peal_type_bytes(job->type);
}

static peal_status load(const peal_comm *comm, const struct peali_device_program *e, const peali_call *c,
                        const peali_cuda_layout *layout, peali_device_plan *plan)
{
    peali_device_choice *how = &plan->choice;
    peali_cuda_job job = {peali_comm_schedules(c->kind), c->count, c->type, c->op, c->root, how->proto, how->ctas,
                          how->most_ctas, 0};
    if (e->all) {
        job.longest = longest(comm, e, &job, layout);
        if (too_long(&job, layout)) {
            job.proto = how->proto = PEALI_CUDA_BULK;
            job.longest = longest(comm, e, &job, layout);
        }
        if (job.longest == 0 || !all_launch(comm, e, &job, layout))
            return PEAL_ERR_UNSUPPORTED;
    }
    return peali_cuda_load(e->program, &job, layout, &plan->call, &plan->ctas);
}

/* Likewise by the algorithm of CHOICE, or where that is too long for a launch by one that is shorter. */
static peal_status load_some(peal_comm *comm, const peali_call *c, const peali_cuda_layout *layout, peali_device_plan *plan,
                             struct peali_device_program *e)
{
    peal_status status = load(comm, e, c, layout, plan);
    for (const peal_algo *a = plan->choice.algo; status == PEAL_ERR_UNSUPPORTED && (a = peali_device_shorter(comm, c, a));) {
        plan->choice.algo = a;
        status = program_of(comm, c, a, &e);
        if (status == PEAL_OK)
            status = load(comm, e, c, layout, plan);
    }
    return status;
}

static peal_status fill(peal_comm *comm, const peali_call *c, const peali_device_traits *traits, peali_device_plan *plan)
{
    struct peali_device_program *e;
    if (!gpus_do(c)) {
        peali_coll_refuse(comm, c, "GPUs do no %s of %s; take host memory", peal_op_name(c->op), peal_type_name(c->type));
        return PEAL_ERR_UNSUPPORTED;
    }
    if (!peali_device_choose(comm, c, traits, &plan->choice))
        return PEAL_ERR_UNSUPPORTED;
    peal_status status = program_of(comm, c, plan->choice.algo, &e);
    if (status == PEAL_OK && plan->choice.direct)
        status = lower_place(comm, c, e);
    if (status != PEAL_OK)
        return status;
    status = load_some(comm, c, traits->layout, plan, e);
    if (status == PEAL_OK && plan->choice.direct && e->place)
        peali_cuda_load_direct(e->place, plan->choice.ctas, &plan->call, &plan->ctas);
    if (status == PEAL_OK && plan->choice.engines)
        peali_engines_load(&plan->call, plan->choice.ctas);
    if (status == PEAL_OK)
        sign(comm, c, plan);
    if (status == PEAL_ERR_UNSUPPORTED)
        peali_coll_refuse(comm, c, "%s is too long for one launch on %d GPUs%s", plan->choice.algo->name, comm->nranks,
                          comm->forced[c->kind] ? "; unset PEAL_ALGO, or name another one" : "");
    return status;
}

static peal_status make(peal_comm *comm, const peali_call *c, uint32_t refused, const peali_device_traits *traits,
                        peali_device_plan **out)
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
    plan->refused = refused;
    peal_status status = fill(comm, c, traits, plan);
    if (status != PEAL_OK)
        peali_free(plan);
    else
        *out = plan;
    return status;
}

/* For what all ranks make together, before this one can fail alone. */
static peal_status meet(peal_comm *comm, const peali_call *c, const peali_device_traits *traits)
{
    return gpus_do(c) && peali_device_wants_engines(comm, c, traits) ? peali_device_open_engines(comm, c) : PEAL_OK;
}

static unsigned set_of(const peali_call *c)
{
    uint64_t h = c->count * 0x9e3779b97f4a7c15u + (uint64_t)c->kind * 127 + (uint64_t)c->type * 31 + (uint64_t)c->op * 7 +
                 (uint64_t)c->root;
    return (unsigned)(h >> 40 ^ h) % PEALI_DEVICE_SETS;
}

peal_status peali_device_plans_get(peal_comm *comm, const peali_call *c, bool captured, const peali_device_traits *traits,
                                   const peali_device_plan **plan)
{
    const uint32_t refused = captured ? PEALI_DEVICE_GRAPH : comm->refused;
    peali_device_plans *plans = &comm->device->plans;
    unsigned set = set_of(c);
    for (int w = 0; w < PEALI_DEVICE_WAYS; w++)
        if (plans->plan[set][w] && is_for(plans->plan[set][w], comm, c, refused)) {
            *plan = plans->plan[set][w];
            return PEAL_OK;
        }
    peali_device_plan *fresh;
    peal_status status = meet(comm, c, traits);
    if (status == PEAL_OK)
        status = make(comm, c, refused, traits, &fresh);
    if (status != PEAL_OK)
        return status;
    peali_device_plan **way = &plans->plan[set][plans->next[set]++ % PEALI_DEVICE_WAYS];
    peali_free(*way);
    *way = fresh;
    *plan = fresh;
    return PEAL_OK;
}

void peali_device_plans_free(const peal_comm *comm, peali_device_plans *plans)
{
    for (int s = 0; s < PEALI_DEVICE_SETS; s++)
        for (int w = 0; w < PEALI_DEVICE_WAYS; w++)
            peali_free(plans->plan[s][w]);
    while (plans->programs) {
        struct peali_device_program *e = plans->programs;
        plans->programs = e->next;
        program_free(comm, e);
    }
}
