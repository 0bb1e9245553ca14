/*
 * Ranks meet over host memory, by calls of their own that carry the signature of the call that they are made for: so a rank that
 * called something else, or on host memory, is found out like any other. They ask nothing of CUDA, so that the first call of a
 * communicator may be captured.
 */
#include "comm/device.h"

#include <string.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "cuda/engines.h"
#include "cuda/gpu.h"
#include "exec/pool.h"

static const int64_t PATIENCE_NS = 30 * INT64_C(1000000000), FAILED_PATIENCE_NS = 2 * INT64_C(1000000000);

/* What a rank tells the others, as bytes. */
typedef struct card {
    peali_team_card team;
    uint64_t ledger; /* where it lies */
    int32_t first;   /* of the ranks within reach */
    int32_t status;
    int32_t lines;   /* lines of 128 bytes arrive whole at the others */
    int32_t far;     /* some device does not reach another */
    uint64_t staged; /* where its scratch in host memory lies */
} card;

peali_signature peali_device_signature(const peal_comm *comm, const peali_call *c)
{
    peali_job job = {.kind = c->kind, .count = c->count, .type = c->type, .op = c->op, .root = c->root};
    peali_signature s = peali_signature_of(&job, comm->sequence);
    s.kind |= PEALI_SIGNATURE_DEVICE;
    return s;
}

static void look(peali_watched *watched)
{
    peali_device_look((peali_device *)watched);
}

/*
 * No rank frees what another may still store to. False where some rank has not parted in good time: then nothing is freed. Each
 * rank counts in the ledgers of all, its own too, and nobody touches a ledger after that.
 */
static bool part(peali_device *d, int64_t patience_ns)
{
    int n = d->comm->reach.nranks;
    peali_device_close_post(d, patience_ns);
    peali_regions_leave(&d->regions);
    for (int x = 0; x < n && d->ledgers[x]; x++)
        (void)peali_add_release(&d->ledgers[x]->parted, 1); /* pairs with the load below */
    if (d->alone)
        return false;
    const int64_t begin_ns = peali_clock_ns();
    while (d->ledgers[0] && peali_load_acquire(&d->mine->parted) < n) {
        const int64_t waited_ns = peali_clock_ns() - begin_ns;
        if (waited_ns > patience_ns)
            return false;
        peali_clock_rest(waited_ns);
    }
    return true;
}

/* For good, but where a debugger finds it: others may still store there. */
static void keep(peali_device *d)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static peali_device *kept;
    pthread_mutex_lock(&lock);
    d->next = kept;
    kept = d;
    pthread_mutex_unlock(&lock);
}

/* As long as the GPU has something to do, it is watched: what it waits for may go wrong now. */
static void drop(peali_device *d, bool failed)
{
    if (d->team)
        peali_team_part(d->team);
    peali_watch_end(&d->watched);
    if (!failed)
        peali_device_look(d); /* what came last */
    if (d->failure != PEAL_OK)
        peali_runner_hush(d->comm->runner);
    peali_device_plans_free(d->comm, &d->plans);
    if (part(d, failed || d->failure != PEAL_OK ? FAILED_PATIENCE_NS : PATIENCE_NS)) {
        peali_team_close(&d->team);
        peali_runner_put_back(d->comm->runner, d->shown);
        if (d->staged)
            peali_pool_free(d->staged);
    } else {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, d->comm->rank, "device memory of this communicator is kept: %d of %d ranks have "
                  "ended it", peali_load_relaxed(&d->mine->parted), d->comm->reach.nranks);
        keep(d);
        return;
    }
    pthread_mutex_destroy(&d->lock);
    peali_free(d);
}

static peali_device *fresh(peal_comm *comm)
{
    peali_device *d = peali_alloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->watched.look = look;
    d->comm = comm;
    pthread_mutex_init(&d->lock, NULL);
    d->shown = peali_runner_get(comm->runner, sizeof *d->shown);
    d->mine = d->shown ? &d->shown->ledger : NULL;
    return d;
}

/* The worst that any rank has, which each of them says. */
static peal_status worst(const peal_comm *comm, const card *all)
{
    for (int r = 0; r < comm->nranks; r++)
        if (all[r].status != PEAL_OK) {
            if (r != comm->rank)
                peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, comm->rank, "no calls on device memory: rank %d has: %s", r,
                          peal_status_text((peal_status)all[r].status));
            return (peal_status)all[r].status;
        }
    return PEAL_OK;
}

/* One number of the calls goes to each exchange. */
peal_status peali_device_exchange(peal_comm *comm, const peali_call *c, const void *mine, void *all, size_t bytes)
{
    peali_signature as = peali_device_signature(comm, c);
    peal_status status = peali_coll_gather(comm, &as, mine, all, bytes);
    comm->sequence++;
    return status;
}

/* The first rank that found a device far from another says so, unless that was asked for. */
static void heed(peali_device *d, const card *all)
{
    const bool wanted = !peali_config_get()->p2p;
    int r = 0;
    while (r < d->comm->nranks && !all[r].far)
        r++;
    if (r == d->comm->rank && !d->far)
        peali_log(wanted ? PEALI_LOG_INFO : PEALI_LOG_WARN, PEALI_SUB_INIT, r, "%s; calls go through host memory, which is slow%s",
                  peali_team_far(d->team), wanted ? "" : ". PEAL_P2P=0 does so without a test");
    d->far |= r < d->comm->nranks;
}

/* After each step of meeting. */
static peal_status agree(peali_device *d, const peali_call *c, peal_status status)
{
    card mine = {.status = status, .lines = peali_team_lines(d->team), .far = peali_team_far(d->team) != NULL};
    card all[PEALI_DEVICE_RANKS];
    peal_status met = peali_device_exchange(d->comm, c, &mine, all, sizeof mine);
    if (met == PEAL_OK)
        met = worst(d->comm, all);
    d->lines = true;
    for (int r = 0; r < d->comm->nranks && met == PEAL_OK; r++)
        d->lines &= all[r].lines != 0;
    if (met == PEAL_OK)
        heed(d, all);
    return met;
}

/* How many ranks share the device that most share. One of them says so. */
static int sharing(const peal_comm *comm, const card *all)
{
    int most = 1;
    for (int r = 0; r < comm->nranks; r++) {
        int ranks = 0, first = r;
        for (int x = 0; x < comm->nranks; x++)
            if (memcmp(&all[x].team.device, &all[r].team.device, sizeof all[r].team.device) == 0) {
                ranks++;
                first = x < first ? x : first;
            }
        if (ranks > 1 && first == r && comm->rank == r)
            peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, r, "%d ranks share this rank's GPU: slow where MPS does not run", ranks);
        most = ranks > most ? ranks : most;
    }
    return most;
}

static bool processes(const peal_comm *comm, const card *all)
{
    for (int r = 1; r < comm->nranks; r++)
        for (int x = 0; x < r; x++)
            if (all[x].team.process == all[r].team.process)
                return false;
    return true;
}

/* The most ranks within reach of each other. */
static int most_within(const peal_comm *comm, const card *all)
{
    int within[PEALI_DEVICE_RANKS] = {0}, most = 0;
    for (int r = 0; r < comm->nranks; r++) {
        int found = ++within[all[r].first];
        most = found > most ? found : most;
    }
    return most;
}

/* The layout of all ranks is that of the one with the least scratch, and of the most ranks within reach of each other. */
static void limit(const peali_device *d, const card *all)
{
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < d->comm->nranks; r++)
        least = all[r].team.scratch < least ? all[r].team.scratch : least;
    peali_team_limit(d->team, least, most_within(d->comm, all), d->comm->reach.nranks < d->comm->nranks);
}

static peal_status join(peali_device *d, const card *all)
{
    peal_comm *comm = d->comm;
    peali_team_card cards[PEALI_CUDA_RANKS];
    int me = 0;
    d->sms = all[0].team.sms;
    for (int r = 0; r < comm->nranks; r++) {
        d->first[r] = all[r].first;
        d->sms = all[r].team.sms < d->sms ? all[r].team.sms : d->sms;
    }
    for (int x = 0; x < comm->reach.nranks; x++) {
        const card *its = &all[comm->near[x]];
        peali_device_shown *shown = peali_runner_theirs(comm->runner, x, its->ledger);
        cards[x] = its->team;
        d->ledgers[x] = &shown->ledger;
        d->regions.offers[x] = &shown->offers;
        me = comm->near[x] == comm->rank ? x : me;
    }
    d->regions.team = d->team;
    d->regions.rank = me;
    d->regions.nranks = comm->reach.nranks;
    d->sharing = sharing(comm, all);
    d->processes = processes(comm, all);
    limit(d, all);
    return peali_team_meet(d->team, cards, comm->reach.nranks, me);
}

/* Scratch of all ranks goes into host memory, which ranks of other processes find by the pool that it is of. */
static peal_status stage(peali_device *d, const peali_call *c)
{
    peal_comm *comm = d->comm;
    card mine = {.status = PEAL_ERR_MEMORY}, all[PEALI_DEVICE_RANKS];
    const int me = d->regions.rank;
    d->staged = peali_pool_alloc(peali_team_layout(d->team)->bytes, PEALI_POOL_PEERS);
    mine.staged = (uintptr_t)d->staged;
    if (d->staged)
        mine.status = peali_team_stage(d->team, me, d->staged);
    peal_status status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    if (status == PEAL_OK)
        status = worst(comm, all);
    for (int x = 0; x < comm->reach.nranks && status == PEAL_OK; x++)
        if (x != me)
            status = peali_team_stage(d->team, x, peali_runner_theirs(comm->runner, x, all[comm->near[x]].staged));
    return status;
}

static peal_status start(peali_device *d, const peali_call *c)
{
    peal_status status = d->comm->reach.nranks < d->comm->nranks ? peali_device_open_post(d, c) : PEAL_OK;
    return status == PEAL_OK ? peali_watch_begin(&d->watched) : status;
}

/* What this rank can do alone. MPI need not allow each process as many threads. */
static peal_status begin(const peal_comm *comm, const peali_call *c, peali_device *d, card *mine)
{
    if (!d || !d->mine)
        return PEAL_ERR_MEMORY;
    if (comm->reach.nranks < comm->nranks && !comm->net->any_thread) {
        peali_coll_refuse(comm, c, "device memory on several nodes needs MPI_THREAD_MULTIPLE over %s; start MPI with it, or take "
                          "PEAL_NET=ucx", comm->net->name);
        return PEAL_ERR_UNSUPPORTED;
    }
    mine->ledger = (uintptr_t)d->shown;
    mine->first = comm->near[0];
    return peali_team_open(&d->team, comm->rank, &mine->team);
}

/* Alike on all ranks. */
static bool takes(peal_comm *comm, const peali_call *c)
{
    const bool apart = comm->reach.nranks < comm->nranks;
    const int most = apart ? PEALI_DEVICE_RANKS : PEALI_CUDA_RANKS;
    if (comm->nranks > most)
        peali_coll_refuse(comm, c, "device memory takes at most %d ranks%s, and this communicator has %d", most,
                          apart ? "" : " of one node", comm->nranks);
    return comm->nranks <= most;
}

/* Likewise, as the cards of all ranks have it. */
static bool takes_nodes(const peal_comm *comm, const peali_call *c, const card *all)
{
    const int most = most_within(comm, all);
    if (most > PEALI_CUDA_RANKS)
        peali_coll_refuse(comm, c, "device memory takes at most %d ranks of one node, and one has %d", PEALI_CUDA_RANKS, most);
    return most <= PEALI_CUDA_RANKS;
}

/* Who comes later finds the card of such a rank. Where calls differ, or some rank had no memory for its own, nobody has all. */
static bool gave_up(peal_status status)
{
    return status == PEAL_ERR_ABORTED || status == PEAL_ERR_TIMEOUT || status == PEAL_ERR_NET;
}

/* All ranks come here for the same call, whatever they lack, and return the same. */
peal_status peali_device_open(peal_comm *comm, const peali_call *c)
{
    if (!takes(comm, c))
        return PEAL_ERR_UNSUPPORTED;
    card mine = {0}, all[PEALI_DEVICE_RANKS];
    peali_device *d = fresh(comm);
    mine.status = begin(comm, c, d, &mine);
    peal_status status = peali_device_exchange(comm, c, &mine, all, sizeof mine);
    if (mine.status == PEAL_OK)
        d->alone = gave_up(status);
    if (status == PEAL_OK)
        status = worst(comm, all);
    if (status == PEAL_OK && !takes_nodes(comm, c, all))
        status = PEAL_ERR_UNSUPPORTED;
    if (status == PEAL_OK)
        status = agree(d, c, join(d, all));
    if (status == PEAL_OK)
        status = agree(d, c, d->far ? PEAL_OK : peali_team_prove(d->team));
    if (status == PEAL_OK && d->far)
        status = agree(d, c, stage(d, c));
    if (status == PEAL_OK)
        status = agree(d, c, start(d, c));
    if (status == PEAL_OK)
        peali_store_release(&comm->device, d); /* pairs with peali_device_ask */
    else if (d)
        drop(d, true);
    return status;
}

/* Is a capture of the stream under way? */
static peal_status look_at_stream(const peal_comm *comm, const peali_call *c, bool *captured)
{
    const char *why;
    const peali_cuda_driver *cu = peali_cuda_driver_get(&why);
    peali_cu_enum state = 0;
    *captured = false;
    if (!cu) {
        peali_coll_refuse(comm, c, "stream %p: %s", c->stream, why);
        return PEAL_ERR_UNSUPPORTED;
    }
    peali_cu_result result = comm->device ? peali_team_capturing(comm->device->team, c->stream, &state) :
                                            peali_gpu_capturing(c->stream, &state);
    *captured = state != PEALI_CU_CAPTURE_NONE;
    if (result == 0 && state != PEALI_CU_CAPTURE_INVALID)
        return PEAL_OK;
    const char *name = result == 0 ? "its capture was invalidated" : peali_cuda_error(result);
    peali_coll_refuse(comm, c, "stream %p cannot take it: %s%s", c->stream, name,
                      c->stream ? "" : "; without a stream it goes to the legacy default stream, which waits for all others");
    return result == 0 || result == PEALI_CU_CAPTURE_IMPLICIT ? PEAL_ERR_CAPTURE : PEAL_ERR_CUDA;
}

static peal_status plan_of(peal_comm *comm, const peali_call *c, bool captured, const peali_device_plan **plan)
{
    peali_device *d = comm->device;
    peali_device_traits traits = {peali_team_layout(d->team), d->lines, d->processes, d->sharing, d->sms};
    return peali_device_plans_get(comm, c, captured, &traits, plan);
}

/* This rank's peers, and its own watch, hear of the call before it is enqueued. */
static void show(peal_comm *comm, const peali_call *c)
{
    peali_signature s = peali_device_signature(comm, c);
    peali_run_note(comm->runner, &s);
    peali_signature_show(&comm->device->past[s.sequence % PEALI_DEVICE_PAST], &s, peali_signature_hash(&s));
}

/* What one rank may lack alone is no refusal. */
static void heed_failure(peal_comm *comm, const peali_call *c, peal_status status)
{
    const peali_signature mine = peali_device_signature(comm, c);
    if (comm->device && (status == PEAL_ERR_CUDA || status == PEAL_ERR_MEMORY))
        peali_device_lose(comm->device, status, &mine);
    else if (status != PEAL_OK)
        peali_run_refused(comm->runner, comm->sequence);
}

/*
 * Where all ranks see the buffers of C, into CALL; nothing where one does not, or not yet. A captured call takes what was mapped
 * before: mapping is no part of a graph.
 */
static void look_around(peali_device *d, const peali_call *c, bool captured, peali_cuda_call *call)
{
    uint64_t in[PEALI_CUDA_RANKS], out[PEALI_CUDA_RANKS];
    if (!captured)
        peali_regions_come_by(&d->regions);
    const size_t part = call->part_bytes, all = part * call->parts;
    bool both = peali_regions_find(&d->regions, c->in, c->kind == PEAL_REDUCE_SCATTER ? all : part, !captured, in);
    both = peali_regions_find(&d->regions, c->out, c->kind == PEAL_ALLGATHER ? all : part, !captured, out) && both;
    for (int x = 0; x < d->comm->nranks && both && call->direct.room; x++)
        call->views[x] = (peali_cuda_view){in[x] - call->in_skip, out[x] - call->out_skip};
}

static peal_status launch(peali_device *d, const peali_call *c, bool captured, const peali_device_plan *plan)
{
    bool barrier = c->kind == PEAL_BARRIER;
    void *token = barrier ? peali_team_token(d->team) : NULL;
    const bool scaled = plan->call.scaled, direct = plan->choice.direct && plan->call.direct.slices > 0;
    peali_cuda_call mine;
    if (scaled || direct)
        mine = plan->call;
    if (scaled)
        memcpy(&mine.scalar, peali_runner_scalars(d->comm->runner), sizeof mine.scalar);
    if (direct)
        look_around(d, c, captured, &mine);
    const peali_cuda_call *call = scaled || direct ? &mine : &plan->call;
    if (plan->choice.engines)
        return peali_engines_launch(d->team, call, c->in, c->out, c->stream);
    return peali_team_launch(d->team, call, plan->ctas, barrier ? token : c->in, barrier ? token : c->out, c->stream);
}

static peal_status enqueue(peal_comm *comm, const peali_call *c, bool captured)
{
    peali_device *d = comm->device;
    const peali_device_plan *plan;
    peal_status status = plan_of(comm, c, captured, &plan);
    if (status != PEAL_OK)
        return status;
    if (!captured) {
        show(comm, c);
        if (d->proxy)
            peali_clerk_wake(plan->ctas < (uint32_t)d->nnets ? plan->ctas : (unsigned)d->nnets);
    }
    return launch(d, c, captured, plan);
}

peal_status peali_device_call(peal_comm *comm, const peali_call *c)
{
    bool captured = false;
    peal_status status = look_at_stream(comm, c, &captured);
    if (status == PEAL_OK)
        status = peali_device_check(comm, c);
    if (status == PEAL_OK && !comm->device) {
        status = peali_device_open(comm, c);
        if (status == PEAL_OK)
            status = peali_device_check(comm, c); /* now that the device is known */
    }
    if (status == PEAL_OK)
        status = enqueue(comm, c, captured);
    if (captured && comm->device) /* nobody waits for what this rank could not capture, but to open */
        return status;
    heed_failure(comm, c, status);
    peali_coll_number(comm, status);
    return status;
}

void peali_device_close(peal_comm *comm)
{
    peali_device *d = comm->device;
    comm->device = NULL;
    if (d)
        drop(d, false);
}
