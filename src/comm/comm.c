/* Making and ending communicators. Ranks agree on every outcome: what one rank lacks, all report. */
#include "comm/comm_private.h"
#include "comm/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "comm/device.h"
#include "comm/nodes.h"
#include "comm/routes.h"
#include "comm/select.h"
#include "comm/sources.h"
#include "net/net_loop.h"
#include "topo/machine.h"

enum {
    PARLEY_MS = 1000,      /* a call not done after 1 s sends its signature to every rank */
    LAND_BYTES = 256 << 10, /* 2 W areas of it are 1 MiB a rank, of many 2 MiB, of which what is used is there */
    LAND_SHARE = 768 << 10, /* for each other rank, of all areas together, so that all takes less than the 1 MiB of peal/mpi.h */
};

static int made; /* communicators of this process, those that failed too: of threads each has its own */

/* What must be equal on all ranks. */
enum { SETTINGS = 10 };
static const char *const settings[SETTINGS] = {
    "PEAL_ALGO", "PEAL_SLICE", "the transport (PEAL_NET)", "PEAL_NODES",    "PEAL_LEVEL",
    "PEAL_SHM",  "PEAL_PROTO", "PEAL_ENGINES",             "PEAL_MAX_CTAS", "the table of PEAL_TUNING"};

/* What every rank tells all others at the start; plain data, no padding. */
typedef struct hello {
    peali_place place;
    peali_host_card host;
    uint64_t node[2]; /* the name of its node */
    uint64_t shown;  /* address of this rank's public memory, in its process */
    uint32_t config[SETTINGS]; /* hashes of them */
    uint32_t sources;          /* of the libpeal that it runs */
    uint32_t spare;
    uint64_t card;   /* bytes of its transport's card */
    uint64_t number; /* of this communicator among those that its process made, */
    uint64_t world;  /* and of the process among all that were started together */
    int64_t status;  /* of this rank so far */
} hello;

static uint64_t text_hash(const char *text, uint64_t seed)
{
    return XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) : 0, seed);
}

static uint32_t number_hash(int64_t number)
{
    return XXH32(&number, sizeof number, 0);
}

/* Schedules, the programs made of them, and what ranks share are not told, but made by each rank alike. */
static uint32_t sources(void)
{
    return (uint32_t)strtoul(strchr(PEALI_SOURCES, ' '), NULL, 10);
}

static void hash_settings(const char *transport, uint32_t *to)
{
    const peali_config *c = peali_config_get();
    const peali_tuning *tuning = peali_tuning_get();
    const uint32_t hashes[SETTINGS] = {
        (uint32_t)text_hash(c->algo, 0), number_hash(c->slice_bytes), (uint32_t)text_hash(transport, 0),
        (uint32_t)text_hash(c->nodes, 0), (uint32_t)text_hash(c->level, 0), number_hash(c->shm), number_hash(c->proto),
        number_hash(c->engines_bytes), number_hash(c->max_ctas), tuning ? number_hash((int64_t)peali_tuning_hash(tuning)) : 0};
    memcpy(to, hashes, sizeof hashes);
}

/* Says which settings THEIRS, of rank R, are others than OURS. */
static void say_settings(int rank, int r, const uint32_t *ours, const uint32_t *theirs)
{
    char which[256] = "";
    size_t at = 0;
    int n = 0;
    for (int i = 0; i < SETTINGS; i++)
        if (ours[i] != theirs[i])
            at += (size_t)snprintf(which + at, sizeof which - at, "%s%s", n++ ? ", " : "", settings[i]);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "no communicator: %s differ%s on rank %d; set %s alike on all ranks", which,
              n > 1 ? "" : "s", r, n > 1 ? "them" : "it");
}

/* The first status that any rank failed with; PEAL_ERR_CONFIG where their variables, or what they run, differ. */
static peal_status agree(const hello *all, int n, int rank)
{
    for (int r = 0; r < n; r++)
        if (all[r].sources != all[rank].sources) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "no communicator: rank %d runs a libpeal of other sources than rank "
                      "%d; take the same one on all ranks (LD_LIBRARY_PATH, LD_PRELOAD)", r, rank);
            return PEAL_ERR_CONFIG;
        }
    for (int r = 0; r < n; r++)
        if (all[r].status != PEAL_OK) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "no communicator: rank %d has %s", r,
                      peal_status_text((peal_status)all[r].status));
            return (peal_status)all[r].status;
        }
    for (int r = 0; r < n; r++)
        if (memcmp(all[r].config, all[rank].config, sizeof all[r].config) != 0) {
            say_settings(rank, r, all[rank].config, all[r].config);
            return PEAL_ERR_CONFIG;
        }
    return PEAL_OK;
}

static void names(const peal_problem *problem, char *out, size_t bytes)
{
    size_t at = 0;
    out[0] = '\0';
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if (peali_algo_fits(*a, problem) && at + strlen((*a)->name) + 2 < bytes) {
            memcpy(out + at, " ", 2);
            strcpy(out + at + 1, (*a)->name);
            at += strlen((*a)->name) + 1;
        }
}

/* What is forced becomes part of all calls behind it: ranks that force other things would run programs that do not match. */
static void note_forced(peal_comm *comm)
{
    uint64_t hash = comm->slice_bytes;
    for (int kind = 0; kind < PEAL_KIND_COUNT; kind++)
        hash = text_hash(comm->forced[kind] ? comm->forced[kind]->name : NULL, hash);
    memset(comm->recent, 0, sizeof comm->recent);
    if (comm->runner)
        peali_runner_force(comm->runner, hash ^ comm->configured);
    else
        comm->configured = hash;
}

peal_status peal_comm_force(peal_comm *comm, peal_kind kind, const char *algo)
{
    if (!comm)
        return peali_no_comm("peal_comm_force");
    if (kind < 0 || kind >= PEAL_KIND_COUNT) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_comm_force: kind %d is none of 0 to %d", (int)kind,
                  PEAL_KIND_COUNT - 1);
        return PEAL_ERR_INVALID;
    }
    peal_problem problem = peali_comm_problem(comm, kind, PEAL_SUM, 0);
    const char *name = algo ? algo : peali_config_get()->algo;
    const peal_algo *found = name ? peali_algo_find(problem.kind, name) : NULL;
    const bool fits = found && peali_algo_fits(found, &problem);
    if (algo && !fits) {
        char valid[512];
        names(&problem, valid, sizeof valid);
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "%s: no algorithm %s for %d ranks on %d node%s; take one of:%s",
                  peal_kind_name(kind), algo, comm->nranks, comm->nnodes, comm->nnodes > 1 ? "s" : "", valid);
        return PEAL_ERR_INVALID;
    }
    comm->forced[kind] = fits ? found : NULL;
    note_forced(comm);
    return PEAL_OK;
}

void peal_comm_force_slice(peal_comm *comm, size_t bytes)
{
    if (!comm) {
        (void)peali_no_comm("peal_comm_force_slice");
        return;
    }
    comm->slice_bytes = bytes ? bytes : (size_t)peali_config_get()->slice_bytes;
    note_forced(comm);
}

static_assert(PEALI_MOST_CTAS == PEALI_CUDA_DIRECT_LANES, "PEAL_MAX_CTAS is checked where lanes are not known");

peal_status peal_comm_max_ctas(peal_comm *comm, int ctas)
{
    if (!comm)
        return peali_no_comm("peal_comm_max_ctas");
    if (ctas < 0 || ctas > PEALI_CUDA_DIRECT_LANES) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_comm_max_ctas: %d is none of 1 to %d, nor 0 for Peal's "
                  "choice", ctas, PEALI_CUDA_DIRECT_LANES);
        return PEAL_ERR_INVALID;
    }
    comm->max_ctas = ctas ? ctas : peali_config_get()->max_ctas;
    return PEAL_OK;
}

peal_status peal_comm_premul(peal_comm *comm, const void *scalar, peal_type type)
{
    bool takes = peal_op_takes(PEAL_PREMUL_SUM, type);
    if (!comm)
        return peali_no_comm("peal_comm_premul");
    if (peal_type_bytes(type) == 0) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_comm_premul: type %d is none of 0 to %d", (int)type,
                  PEAL_TYPE_COUNT - 1);
        return PEAL_ERR_INVALID;
    }
    if (!scalar || !takes || comm->request.comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_comm_premul of type %s: %s", peal_type_name(type),
                  !scalar ? "scalar is NULL" : !takes ? "no premultiplied sum takes it" :
                  "a call on this communicator is in flight; wait for its request first");
        return PEAL_ERR_INVALID;
    }
    unsigned char *scalars = peali_runner_scalars(comm->runner);
    size_t bytes = peal_type_bytes(type);
    for (size_t at = 0; at < PEALI_PLAN_SCALARS; at += bytes)
        memcpy(scalars + at, scalar, bytes);
    comm->premul = type;
    return PEAL_OK;
}

/* PEAL_MAX_CTAS, PEAL_SLICE, and PEAL_ALGO, which holds for the kinds that have an algorithm of that name, where it fits. */
static void force_configured(peal_comm *comm)
{
    const char *name = peali_config_get()->algo;
    peal_comm_force_slice(comm, 0);
    comm->max_ctas = peali_config_get()->max_ctas;
    for (int kind = 0; name && kind < PEAL_KIND_COUNT; kind++) {
        const bool known = peal_comm_force(comm, (peal_kind)kind, NULL) == PEAL_OK && peali_algo_find((peal_kind)kind, name);
        if (known && !comm->forced[kind] && comm->rank == 0)
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, comm->rank, "PEAL_ALGO %s does not fit %s among %d ranks on %d node%s, which "
                      "the table decides", name, peal_kind_name((peal_kind)kind), comm->nranks, comm->nnodes,
                      comm->nnodes > 1 ? "s" : "");
    }
}

/*
 * Of one landing area: twice the longest slice that the table has for an allreduce among processes of one host, for its blocks
 * begin on cache lines. What is longer in other collectives is pulled. Threads see each other's buffers, so they have no use for
 * long ones.
 */
static size_t land_bytes(const peal_comm *comm, bool threads)
{
    size_t areas = 2 * (size_t)peali_comm_landings(comm), most = (size_t)(comm->nranks - 1) * LAND_SHARE / areas, bytes = 0;
    peali_tuning_span rows = {NULL, 0};
    if (!threads)
        rows = peali_tuning_find(peali_tuning_get(), PEAL_ALLREDUCE, "shm", comm->nranks, 1);
    for (int i = 0; i < rows.nrows; i++)
        bytes = 2 * rows.rows[i].slice_bytes > bytes ? 2 * rows.rows[i].slice_bytes : bytes;
    bytes = (bytes < most ? bytes : most) / 64 * 64;
    return bytes > LAND_BYTES ? bytes : LAND_BYTES;
}

/* What this rank shows to those within reach: in its pool, where ranks are processes that share memory. */
static peal_status show(peal_comm *comm, bool threads, hello *mine)
{
    peali_layout *l = &comm->layout;
    l->land_bytes = l->land_bytes ? l->land_bytes : land_bytes(comm, threads);
    bool pulls = l->pull || (l->apart && !l->push); /* in every call */
    peali_lands lands = {pulls ? 0 : 2 * peali_comm_landings(comm), l->land_bytes};
    if (!threads && !l->apart && peali_host_open(&comm->host, &mine->host) == PEAL_ERR_MEMORY)
        return PEAL_ERR_MEMORY;
    peali_public *shown = peali_public_create(1, &lands, comm->host != NULL);
    mine->shown = (uintptr_t)shown;
    comm->lands = lands;
    return shown ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* Counters of each algorithm, and the transport; nothing yet that depends on other ranks. */
static peal_status furnish(peal_comm *comm)
{
    int n = 0;
    while (peali_algos[n])
        n++;
    comm->calls = peali_alloc((size_t)n + 1, sizeof *comm->calls);
    comm->node = peali_alloc((size_t)comm->nranks, sizeof *comm->node);
    comm->near = peali_alloc((size_t)comm->nranks, sizeof *comm->near);
    comm->cards = peali_alloc((size_t)comm->nranks, sizeof *comm->cards);
    comm->world = peali_alloc((size_t)comm->nranks, sizeof *comm->world);
    if (!comm->world || !comm->calls || !comm->node || !comm->near || !comm->cards)
        return PEAL_ERR_MEMORY;
    comm->layout.apart |= !peali_config_get()->shm;
    peal_status status = peali_config_check();
    if (status == PEAL_OK && !peali_tuning_get())
        status = PEAL_ERR_CONFIG;
    return status == PEAL_OK ? peali_transport_open(&comm->layout, &comm->net) : status;
}

/* The map of PEAL_NODES names this process's node, where there is one; else its host does. */
static peal_status name_node(const peali_bootstrap *boot, const peal_comm *comm, hello *mine)
{
    const char *map = comm->layout.nodes ? comm->layout.nodes : peali_config_get()->nodes;
    int number = 0;
    if (!map) {
        memcpy(mine->node, mine->place.host, sizeof mine->node);
        return PEAL_OK;
    }
    peal_status status = peali_nodes_look_up(map, boot->place, boot->places, &number);
    mine->node[0] = (uint64_t)number;
    return status;
}

/* By which people tell it from others: what they call it may be alike, and is known on its own rank alone. */
static void entitle(const peali_bootstrap *boot, peal_comm *comm, const hello *all, peali_setting *setting)
{
    const char *name = boot->name && boot->name[0] ? boot->name : NULL;
    char maker[40] = "", here[40] = "";
    for (int r = 0; r < comm->nranks; r++) {
        comm->world[r] = (int32_t)all[r].world;
        if (comm->world[r] != r)
            setting->world = comm->world;
    }
    if (setting->world)
        snprintf(here, sizeof here, "; this is world rank %d", (int)comm->world[comm->rank]);
    if (!boot->threads)
        snprintf(maker, sizeof maker, " of world rank %d", (int)comm->world[0]);
    snprintf(comm->title, sizeof comm->title, " (communicator %llu%s%s%.80s%s)", (unsigned long long)all[0].number, maker,
             name ? ", " : "", name ? name : "", here);
    setting->title = comm->title;
}

static void find_nodes(peal_comm *comm, const hello *all)
{
    comm->nnodes = peali_groups_number(all->node, sizeof all->node, sizeof *all, comm->nranks, comm->node);
    const peal_problem problem = peali_comm_problem(comm, PEAL_ALLREDUCE, PEAL_SUM, 0);
    comm->largest_node = peal_node_largest(&problem);
}

static bool near(const peal_comm *comm, const hello *all, int r)
{
    const hello *mine = &all[comm->rank];
    return r == comm->rank || (!comm->layout.apart && memcmp(all[r].node, mine->node, sizeof mine->node) == 0 &&
                               memcmp(all[r].place.host, mine->place.host, sizeof mine->place.host) == 0);
}

/* Maps the pools of the ranks that are near; most communicators are of ranks that have met in others. All ranks come here. */
static peal_status share(const peali_bootstrap *boot, peal_comm *comm, const hello *all, peali_setting *setting)
{
    peali_host *host = comm->host;
    const int n = comm->reach.nranks;
    for (int x = 0; x < n; x++)
        comm->cards[x] = all[comm->near[x]].host;
    bool known = peali_host_knows(host, comm->cards, n, setting->shift);
    peal_status status = boot->agree(boot->ctx, known ? PEAL_OK : PEAL_ERR_UNSUPPORTED);
    if (status == PEAL_ERR_UNSUPPORTED)
        status = boot->agree(boot->ctx, peali_host_meet(host, comm->cards, n, setting->me, setting->shift));
    if (host)
        peali_host_hang_up(host);
    return status;
}

static void alone(peal_comm *comm, peali_setting *setting)
{
    setting->shown[0] = setting->shown[setting->me];
    setting->me = 0;
    setting->nreach = comm->reach.nranks = 1;
    comm->near[0] = comm->rank;
}

/*
 * Who is within reach: the threads of this process, or the processes of this host, that share a node. All ranks come here, and
 * where one of them cannot map its peers, each is alone.
 */
static peal_status find_reach(const peali_bootstrap *boot, peal_comm *comm, const hello *all, peali_setting *setting)
{
    for (int r = 0; r < comm->nranks; r++) {
        if (!near(comm, all, r))
            continue;
        if (r == comm->rank)
            setting->me = setting->nreach;
        comm->near[setting->nreach++] = r;
    }
    setting->ranks = comm->near;
    comm->reach = (peali_reach){setting->nreach, comm->near, PEALI_PULL};
    bool processes = !boot->threads && !comm->layout.apart;
    peal_status shared = processes ? share(boot, comm, all, setting) : PEAL_OK;
    for (int32_t x = 0; x < setting->nreach; x++)
        setting->shown[x] = (peali_public *)(uintptr_t)(all[comm->near[x]].shown + (uintptr_t)setting->shift[x]);
    setting->pooled = comm->host != NULL;
    setting->lands = comm->lands;
    if (shared != PEAL_OK)
        alone(comm, setting);
    return shared == PEAL_ERR_MEMORY ? shared : PEAL_OK;
}

/* Ranks that all may run on the same cores are not bound to different places. */
static bool bound(const peal_comm *comm, const hello *all)
{
    for (int r = 1; r < comm->nranks; r++)
        if (memcmp(all[r].place.cores, all[0].place.cores, sizeof all[0].place.cores) != 0)
            return true;
    return false;
}

/*
 * Levels inside the host: where all ranks are within reach, and no map says otherwise. Each tells the others where it is, because
 * what they would find out about it themselves might differ. All ranks come here.
 */
static peal_status find_levels(const peali_bootstrap *boot, peal_comm *comm, const hello *all)
{
    const peali_config *c = peali_config_get();
    bool off = comm->layout.nodes || c->nodes || (c->level && strcmp(c->level, "none") == 0);
    if (off || comm->nranks < 4 || comm->reach.nranks < comm->nranks || !bound(comm, all))
        return PEAL_OK;
    peali_seat mine, *seats = peali_alloc((size_t)comm->nranks, sizeof *seats);
    peali_machine_seat(&all[comm->rank].place, &mine);
    peal_status status = boot->agree(boot->ctx, seats ? PEAL_OK : PEAL_ERR_MEMORY);
    if (status == PEAL_OK)
        status = boot->allgather(boot->ctx, &mine, seats, sizeof mine);
    int level = status == PEAL_OK ? peali_groups_find(seats, comm->nranks, c->level, comm->node) : -1;
    comm->level = level < 0 ? NULL : peali_level_name(level);
    comm->nnodes = comm->node[comm->nranks - 1] + 1;
    peali_free(seats);
    return status;
}

static bool several_hosts(const hello *all, int n)
{
    for (int r = 1; r < n; r++)
        if (memcmp(all[r].place.host, all[0].place.host, sizeof all[0].place.host) != 0)
            return true;
    return false;
}

static peal_status settle(const peali_bootstrap *boot, peal_comm *comm, const hello *all, peali_setting *setting)
{
    uint64_t longest = 0;
    for (int r = 0; r < comm->nranks; r++)
        longest = all[r].card > longest ? all[r].card : longest;
    peal_status status = agree(all, comm->nranks, comm->rank);
    if (status == PEAL_OK && several_hosts(all, comm->nranks))
        status = peali_transport_between_hosts(boot, &comm->layout, &comm->net, &longest);
    if (status == PEAL_OK)
        status = peali_transport_meet(boot, comm->net, (size_t)longest);
    if (status == PEAL_OK)
        setting->courier = peali_transport_courier(&comm->net, setting->cores);
    setting->net = comm->net;
    if (status == PEAL_OK) {
        entitle(boot, comm, all, setting);
        find_nodes(comm, all);
        status = find_reach(boot, comm, all, setting);
    }
    if (status == PEAL_OK)
        status = find_levels(boot, comm, all);
    if (status != PEAL_OK)
        return status;
    peali_select_begin(comm);
    force_configured(comm);
    setting->shown[setting->me]->refs = setting->nreach; /* before any other rank can release it: the second allgather */
    return peali_runner_create(setting, &comm->runner);
}

/* Learns of all ranks, whatever STATUS this one has so far. */
static peal_status meet(const peali_bootstrap *boot, peal_comm *comm, hello *all, peali_setting *setting)
{
    hello mine = {.status = furnish(comm)};
    setting->shown = peali_alloc((size_t)comm->nranks, sizeof *setting->shown);
    setting->shift = peali_alloc((size_t)comm->nranks, sizeof *setting->shift);
    if (!setting->shown || !setting->shift)
        mine.status = PEAL_ERR_MEMORY;
    if (mine.status == PEAL_OK)
        mine.status = show(comm, boot->threads, &mine);
    hash_settings(peali_transport_asked(&comm->layout), mine.config);
    mine.sources = sources();
    mine.card = comm->net->card_bytes;
    mine.world = (uint64_t)boot->place;
    mine.number = (uint64_t)peali_add_relaxed(&made, 1) + 1;
    peali_machine_place(&mine.place);
    if (mine.status == PEAL_OK)
        mine.status = name_node(boot, comm, &mine);
    peal_status status = boot->allgather(boot->ctx, &mine, all, sizeof mine);
    if (status == PEAL_OK) {
        setting->cores = peali_machine_share(&all->place, sizeof *all, boot->nranks, boot->rank);
        status = settle(boot, comm, all, setting);
    }
    if (!comm->runner && mine.shown)
        peali_public_drop((peali_public *)(uintptr_t)mine.shown);
    return status;
}

/*
 * The ranks agree before they meet, so that none waits for one that has no memory to come, and once more at the end: then no rank
 * releases what another has not yet counted, and all return the same.
 */
peal_status peali_comm_create(const peali_bootstrap *boot, peali_net *net, const peali_layout *layout, peal_comm **out)
{
    peal_comm *comm = peali_alloc(1, sizeof *comm);
    hello *all = peali_alloc((size_t)boot->nranks, sizeof *all);
    peal_status status = boot->agree(boot->ctx, net && comm && all ? PEAL_OK : PEAL_ERR_MEMORY);
    if (comm)
        *comm = (peal_comm){.rank = boot->rank, .nranks = boot->nranks, .net = net, .premul = PEAL_TYPE_COUNT};
    if (comm)
        peali_request_own(comm);
    if (comm && layout)
        comm->layout = *layout;
    if (status == PEAL_OK) {
        peali_setting setting = {.net = net, .staged = comm->layout.staged, .piece = comm->layout.piece};
        setting.parley_ns = (int64_t)(comm->layout.parley_ms ? comm->layout.parley_ms : PARLEY_MS) * 1000000;
        status = boot->agree(boot->ctx, meet(boot, comm, all, &setting));
        if (status != PEAL_OK && comm->runner)
            peali_runner_part(comm->runner);
        comm->layout.nodes = comm->layout.net = NULL;
        comm->layout.fault = NULL;
        peali_free(setting.shown);
        peali_free(setting.shift);
    }
    peali_free(all);
    if (status == PEAL_OK) {
        peali_routes_log(comm);
        peali_routes_warn(comm);
        *out = comm;
        return PEAL_OK;
    }
    if (!comm && net)
        net->destroy(net);
    peal_comm_destroy(&comm);
    return status;
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

static peal_status agree_threads(void *ctx, peal_status status)
{
    thread_boot *b = ctx;
    return peali_threads_agree(b->threads, b->rank, status);
}

peal_status peal_comm_create_threads(peal_threads *threads, int rank, peal_comm **comm)
{
    return peali_comm_create_threads(threads, rank, NULL, comm);
}

peal_status peali_comm_create_threads(peal_threads *threads, int rank, const peali_layout *layout, peal_comm **comm)
{
    if (!threads || !comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "peal_comm_create_threads: %s is NULL", threads ? "comm" : "threads");
        return PEAL_ERR_INVALID;
    }
    if (rank < 0 || rank >= peali_threads_size(threads)) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_comm_create_threads: rank %d is none of 0 to %d", rank,
                  peali_threads_size(threads) - 1);
        return PEAL_ERR_INVALID;
    }
    peali_net *net = NULL;
    if (peali_net_loop_create(threads, rank, &net) != PEAL_OK)
        net = NULL; /* peali_comm_create tells the other ranks */
    thread_boot ctx = {threads, rank};
    int n = peali_threads_size(threads);
    peali_bootstrap boot = {.rank = rank, .nranks = n, .threads = true, .place = rank, .places = n, .allgather = gather_threads,
                            .agree = agree_threads, .ctx = &ctx};
    return peali_comm_create(&boot, net, layout, comm);
}

void peal_comm_destroy(peal_comm **comm)
{
    (void)peali_comm_end(comm);
}

bool peali_comm_end(peal_comm **comm)
{
    if (!comm || !*comm)
        return true;
    peal_comm *c = *comm;
    *comm = NULL;
    if (!peali_request_owns(c))
        return true; /* a child: the ranks still have what belongs to it */
    if (!peali_request_end(c))
        return false;
    peali_device_close(c);
    peali_plans_free(&c->plans);
    peali_runner_destroy(&c->runner);
    if (c->net)
        c->net->destroy(c->net);
    peali_host_close(&c->host);
    peali_free(c->node);
    peali_free(c->near);
    peali_free(c->cards);
    peali_free(c->world);
    peali_free(c->calls);
    peali_free(c);
    return true;
}

void peali_comm_be_patient(peal_comm *comm)
{
    peali_runner_be_patient(comm->runner);
    comm->staged = true;
}
