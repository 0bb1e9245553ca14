/* Making and ending communicators. Ranks agree on every outcome: what one rank lacks, all report. */
#include "comm/comm_private.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/config.h"
#include "base/log.h"
#include "net/net_loop.h"
#include "topo/machine.h"

/* What every rank tells all others at the start; plain data, no padding. */
typedef struct hello {
    peali_place place;
    uint64_t config; /* hash of the variables that must be equal on all ranks */
    int64_t status;  /* of this rank so far */
} hello;

static uint64_t config_hash(void)
{
    const peali_config *c = peali_config_get();
    uint64_t h = c->algo ? XXH3_64bits(c->algo, strlen(c->algo)) : 0;
    return h ^ XXH3_64bits(&c->slice_bytes, sizeof c->slice_bytes);
}

/* The first status that any rank failed with; PEAL_ERR_CONFIG where their variables differ. */
static peal_status agree(const hello *all, int n, int rank)
{
    for (int r = 0; r < n; r++)
        if (all[r].status != PEAL_OK) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "no communicator: rank %d has %s", r,
                      peal_status_text((peal_status)all[r].status));
            return (peal_status)all[r].status;
        }
    for (int r = 0; r < n; r++)
        if (all[r].config != all[rank].config) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "no communicator: PEAL_ALGO or PEAL_SLICE differs on rank %d; set them alike", r);
            return PEAL_ERR_CONFIG;
        }
    return PEAL_OK;
}

static void names(peal_kind kind, const peal_problem *problem, char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if ((*a)->kind == kind && peali_algo_fits(*a, problem) && at + strlen((*a)->name) + 2 < bytes) {
            memcpy(out + at, " ", 2);
            strcpy(out + at + 1, (*a)->name);
            at += strlen((*a)->name) + 1;
        }
}

peal_status peal_comm_force(peal_comm *comm, peal_kind kind, const char *algo)
{
    if (kind < 0 || kind >= PEAL_KIND_COUNT)
        return PEAL_ERR_INVALID;
    peal_problem problem = {.kind = kind, .nranks = comm->nranks, .nnodes = 1};
    const peal_algo *found = algo ? peali_algo_find(kind, algo) : NULL;
    if (algo && (!found || !peali_algo_fits(found, &problem))) {
        char valid[512];
        names(kind, &problem, valid, sizeof valid);
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "%s: no algorithm %s for %d ranks; take one of:%s",
                  peal_kind_name(kind), algo, comm->nranks, valid);
        return PEAL_ERR_INVALID;
    }
    comm->forced[kind] = found;
    return PEAL_OK;
}

/* PEAL_ALGO holds for the kinds that have an algorithm of that name. */
static peal_status force_configured(peal_comm *comm)
{
    const char *name = peali_config_get()->algo;
    bool known = !name;
    for (int kind = 0; name && kind < PEAL_KIND_COUNT; kind++) {
        if (!peali_algo_find((peal_kind)kind, name))
            continue;
        known = true;
        if (peal_comm_force(comm, (peal_kind)kind, name) != PEAL_OK)
            return PEAL_ERR_CONFIG;
    }
    if (known)
        return PEAL_OK;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, comm->rank, "PEAL_ALGO %s is no algorithm; `peal info` lists them", name);
    return PEAL_ERR_CONFIG;
}

static peal_status furnish(peal_comm *comm)
{
    int n = 0;
    while (peali_algos[n])
        n++;
    comm->calls = peali_alloc((size_t)n + 1, sizeof *comm->calls);
    if (!comm->calls)
        return PEAL_ERR_MEMORY;
    peal_status status = peali_config_check();
    return status == PEAL_OK ? force_configured(comm) : status;
}

/* All ranks reach this, whatever failed before on one of them. */
static peal_status meet(const peali_bootstrap *boot, peal_comm *comm, peal_status status)
{
    hello mine = {.config = config_hash(), .status = status};
    peali_machine_place(&mine.place);
    hello *all = peali_alloc((size_t)boot->nranks, sizeof *all);
    peali_place *places = peali_alloc((size_t)boot->nranks, sizeof *places);
    if (!all || !places) {
        peali_free(all);
        peali_free(places);
        return PEAL_ERR_MEMORY;
    }
    status = boot->allgather(boot->ctx, &mine, all, sizeof mine);
    if (status == PEAL_OK)
        status = agree(all, boot->nranks, boot->rank);
    for (int r = 0; r < boot->nranks; r++)
        places[r] = all[r].place;
    bool crowded = status == PEAL_OK && peali_machine_crowded(places, boot->nranks, boot->rank);
    if (status == PEAL_OK)
        status = peali_runner_create(comm->net, crowded, &comm->runner);
    peali_free(all);
    peali_free(places);
    return status;
}

peal_status peali_comm_create(const peali_bootstrap *boot, peali_net *net, peal_comm **out)
{
    peal_comm *comm = peali_alloc(1, sizeof *comm);
    if (!comm) {
        net->destroy(net);
        return PEAL_ERR_MEMORY;
    }
    comm->rank = boot->rank;
    comm->nranks = boot->nranks;
    comm->net = net;
    peal_status status = meet(boot, comm, furnish(comm));
    if (status != PEAL_OK) {
        peal_comm_destroy(&comm);
        return status;
    }
    peali_log(PEALI_LOG_INFO, PEALI_SUB_INIT, comm->rank, "init rank %d of %d via %s", comm->rank, comm->nranks, net->name);
    *out = comm;
    return PEAL_OK;
}

typedef struct thread_boot {
    peal_threads *threads;
    int rank;
} thread_boot;

static peal_status gather_threads(void *ctx, const void *mine, void *all, size_t bytes)
{
    thread_boot *b = ctx;
    return peali_threads_allgather(b->threads, b->rank, mine, all, bytes);
}

peal_status peal_comm_create_threads(peal_threads *threads, int rank, peal_comm **comm)
{
    if (!threads || !comm || rank < 0 || rank >= peali_threads_size(threads)) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "peal_comm_create_threads: rank %d of %d", rank,
                  threads ? peali_threads_size(threads) : 0);
        return PEAL_ERR_INVALID;
    }
    peali_net *net;
    peal_status status = peali_net_loop_create(threads, rank, &net);
    if (status != PEAL_OK)
        return status;
    thread_boot ctx = {threads, rank};
    peali_bootstrap boot = {rank, peali_threads_size(threads), gather_threads, &ctx};
    return peali_comm_create(&boot, net, comm);
}

void peal_comm_destroy(peal_comm **comm)
{
    if (!comm || !*comm)
        return;
    peal_comm *c = *comm;
    peali_plans_free(&c->plans);
    peali_runner_destroy(&c->runner);
    c->net->destroy(c->net);
    peali_free(c->calls);
    peali_free(c);
    *comm = NULL;
}

int peal_comm_rank(const peal_comm *comm)
{
    return comm->rank;
}

int peal_comm_size(const peal_comm *comm)
{
    return comm->nranks;
}

int peali_comm_tally(const peal_comm *comm, int index, peal_kind *kind, const char **name, long *calls)
{
    for (int i = 0; i <= index; i++)
        if (!peali_algos[i])
            return 0;
    *kind = peali_algos[index]->kind;
    *name = peali_algos[index]->name;
    *calls = comm->calls[index];
    return 1;
}
