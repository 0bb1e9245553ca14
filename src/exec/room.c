/* The memory of a runner: made when plans are, so that running allocates nothing. */
#include "exec/runner.h"

#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "exec/courier.h"
#include "exec/pool.h"
#include "topo/machine.h"

peal_status peali_runner_create(const peali_setting *setting, peali_runner **out)
{
    peali_runner *r = peali_alloc(1, sizeof *r);
    size_t n = (size_t)setting->nreach;
    peali_public **shown = peali_alloc(n, sizeof *shown);
    ptrdiff_t *shift = peali_alloc(n, sizeof *shift);
    int64_t *known = peali_alloc(n, sizeof *known);
    uint64_t *agreed = peali_alloc(n, sizeof *agreed);
    peali_parley *parley = NULL;
    if (!r || !shown || !shift || !known || !agreed || peali_parley_create(setting->net, &parley) != PEAL_OK) {
        peali_free(r);
        peali_free(shown);
        peali_free(shift);
        peali_free(known);
        peali_free(agreed);
        return PEAL_ERR_MEMORY;
    }
    memcpy(shown, setting->shown, n * sizeof *shown);
    if (setting->shift)
        memcpy(shift, setting->shift, n * sizeof *shift);
    *r = (peali_runner){.net = setting->net, .direct = setting->net, .use = setting->courier,
                        .outnumbered = setting->cores == 0, .pooled = setting->pooled,
                        .staged = setting->staged, .timed = peali_timeline_on(), .piece = setting->piece};
    r->lead_bytes = sizeof r->signature + peali_plan_eager(setting->net->nranks);
    r->me = setting->me;
    r->heard = -1;
    r->quarrel = (peali_quarrel){.one_rank = -1, .other_rank = -1};
    r->lands = setting->lands;
    r->title = setting->title ? setting->title : "";
    r->world = setting->world;
    r->parley_ns = setting->parley_ns;
    r->heard_ns = peali_clock_ns();
    r->parley = parley;
    r->nreach = setting->nreach;
    r->ranks = setting->ranks;
    r->shown = shown;
    r->shift = shift;
    r->known = known;
    r->agreed = agreed;
    r->mine = shown[r->me];
    *out = r;
    return PEAL_OK;
}

void *peali_runner_get(const peali_runner *r, size_t bytes)
{
    return r->pooled ? peali_pool_alloc(bytes, PEALI_POOL_PEERS) : peali_alloc(1, bytes);
}

void peali_runner_put_back(const peali_runner *r, void *at)
{
    if (!r->pooled)
        peali_free(at);
    else if (at)
        peali_pool_free(at);
}

/* After a call that failed, others may still read what this rank filled: it stays as long as they look at this rank. */
static void leave_room(peali_runner *r)
{
    if (!r->remains) {
        r->mine->kept[0] = r->scratch;
        r->mine->kept[1] = r->staging;
        peali_free(r->bounce);
    }
    r->mine->kept[2] = r->spare;
    peali_free(r->cursors);
    peali_free(r->over);
    peali_free(r->open);
    peali_free(r->reqs);
    peali_free(r->leads);
    peali_free(r->dst);
    peali_free(r->src);
}

void peali_runner_share(peali_runner *runner, peali_net *net)
{
    runner->net = runner->direct = net;
    if (runner->courier)
        peali_courier_move(runner->courier, net);
    peali_parley_share(runner->parley, net);
}

void peali_runner_force(peali_runner *runner, uint64_t hash)
{
    runner->forced = hash;
}

void peali_runner_part(peali_runner *r)
{
    r->shown[0] = r->mine;
    r->mine->refs = 1;
    r->me = 0;
    r->nreach = 1;
}

void peali_runner_destroy(peali_runner **runner)
{
    if (*runner) {
        peali_runner_last_words(*runner);
        peali_run_deafen(*runner);
        peali_free((*runner)->strays);
        if ((*runner)->courier)
            (*runner)->courier->destroy((*runner)->courier);
        leave_room(*runner);
        for (int32_t x = 0; x < (*runner)->nreach; x++)
            peali_public_release((*runner)->shown[x], x == (*runner)->me);
        peali_parley_destroy(&(*runner)->parley);
        peali_free((*runner)->shown);
        peali_free((*runner)->shift);
        peali_free((*runner)->known);
        peali_free((*runner)->agreed);
    }
    peali_free(*runner);
    *runner = NULL;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Each of these leaves what is there where it finds no memory: it serves the plans that it was made for. */
static bool have_arrays(peali_runner *r, size_t ncursors, size_t nreqs, size_t noperands, size_t nleads)
{
    peali_cursor *cursors = peali_realloc(r->cursors, ncursors, sizeof *cursors);
    bool *over = peali_realloc(r->over, ncursors * nreqs, sizeof *over);
    bool *open = peali_realloc(r->open, ncursors * nreqs, sizeof *open);
    peali_net_req *reqs = peali_realloc(r->reqs, ncursors * nreqs, sizeof *reqs);
    peali_lead *leads = peali_realloc(r->leads, nleads + 1, sizeof *leads);
    unsigned char *bounce = peali_realloc(r->bounce, nleads + 1, r->lead_bytes);
    void **dst = peali_realloc(r->dst, noperands, sizeof *dst);
    const void **src = peali_realloc(r->src, noperands, sizeof *src);
    r->cursors = cursors ? cursors : r->cursors;
    r->over = over ? over : r->over;
    r->open = open ? open : r->open;
    r->reqs = reqs ? reqs : r->reqs;
    r->leads = leads ? leads : r->leads;
    r->bounce = bounce ? bounce : r->bounce;
    r->dst = dst ? dst : r->dst;
    r->src = src ? src : r->src;
    return cursors && over && open && reqs && leads && bounce && dst && src;
}

static bool have_bytes(const peali_runner *r, unsigned char **at, size_t *has, size_t bytes)
{
    if (*at && bytes <= *has)
        return true;
    unsigned char *got = peali_runner_get(r, bytes + 1);
    if (!got)
        return false;
    peali_runner_put_back(r, *at);
    *at = got;
    *has = bytes;
    return true;
}

static peal_status make_room(peali_runner *r, const peali_plan *plan)
{
    size_t scratch = plan->scratch_bytes * (size_t)plan->job.window;
    size_t staging = r->staged || r->pooled || plan->scale ? 2 * plan->slice_bytes * (size_t)plan->job.window : 0;
    if (plan->nunheard > 0 && peali_parley_furnish(r->parley) != PEAL_OK)
        return PEAL_ERR_MEMORY;
    size_t spare = plan->helps && plan->program->mode == PEALI_PUSH ? plan->slice_bytes / (size_t)plan->program->nranks : 0;
    if (!have_bytes(r, &r->scratch, &r->scratch_bytes, scratch) || !have_bytes(r, &r->staging, &r->staging_bytes, staging) ||
        (spare > 0 && !have_bytes(r, &r->spare, &r->spare_bytes, spare + plan->elem_bytes)))
        return PEAL_ERR_MEMORY;
    const int32_t operands = most(plan->most_operands, plan->helps ? PEALI_REACH_OPERANDS : 0); /* also of others' sums */
    if (r->cursors && plan->job.window <= r->ncursors && plan->nreqs <= r->nreqs && operands <= r->noperands &&
        plan->nleads <= r->nleads)
        return PEAL_OK;
    int32_t ncursors = most(r->ncursors, plan->job.window), nreqs = most(r->nreqs, plan->nreqs);
    int32_t noperands = most(r->noperands, operands), nleads = most(r->nleads, plan->nleads);
    if (!have_arrays(r, (size_t)ncursors, (size_t)nreqs, (size_t)noperands, (size_t)nleads))
        return PEAL_ERR_MEMORY;
    r->ncursors = ncursors;
    r->nreqs = nreqs;
    r->noperands = noperands;
    r->nleads = nleads;
    return PEAL_OK;
}

/*
 * Not of areas that fill the L2 of a core: what landed there is gone from it, and so not the reader's any more, when it is its turn
 * again. Nor where messages may be on their way out of what has landed: that is written to.
 */
static bool takes_over(const peali_runner *r, const peali_plan *plan)
{
    enum { CACHE = 1 << 20 }; /* of EPYC 9004 */
    return plan->nmessages == 0 && plan->land_bytes * (size_t)r->lands.areas < CACHE && peali_machine_takes_over();
}

/*
 * Where slices are in flight together, and what ranks do within reach takes a while, messages of one can move meanwhile. 32 cores
 * of Xeon, links of 25 Gbit/s, slices of 512 KiB, least ms without a courier and with it: 2 hosts of 2 ranks 1 MiB 0.68 0.60, 8 MiB
 * 5.56 4.25; 4 of 2 1.03 0.86, 9.38 6.62 (its clerk being awake from the call before). Of one rank each there is nothing to be done
 * meanwhile but what waits for the messages: 1 MiB 0.58 0.70, 16 MiB 9.6 11.5. But where others take the machine's cores, two
 * threads wait for them where one did: 64 MiB between 4 hosts of 4 ranks on 64 cores took 163 ms, for 53. So calls find out. Where
 * there can be no thread, or it would have the core of this one, calls do without.
 */
static bool gains_by_courier(const peali_runner *r, const peali_plan *plan)
{
    return plan->job.window > 1 && plan->program->nreach > 1 && (r->courier || !peali_thread_has_one_core());
}

static bool couriered(peali_runner *r, const peali_plan *plan)
{
    if (plan->nmessages == 0 || r->use == PEALI_COURIER_OFF || (r->use == PEALI_COURIER_AUTO && !gains_by_courier(r, plan)))
        return false;
    if (!r->courier && peali_courier_create(r->direct, &r->courier) != PEAL_OK)
        r->use = PEALI_COURIER_OFF;
    return r->courier;
}

peal_status peali_runner_fit(peali_runner *r, peali_plan *plan)
{
    plan->takes_over = takes_over(r, plan);
    plan->couriered = couriered(r, plan);
    if (plan->couriered && r->use == PEALI_COURIER_AUTO && !(plan->trial = peali_arena_get(&plan->arena, 1, sizeof *plan->trial)))
        return PEAL_ERR_MEMORY;
    plan->helps = peali_run_helps(r, plan);
    peal_status status = make_room(r, plan);
    return status == PEAL_OK ? peali_small_make(r, plan) : status;
}

unsigned char *peali_runner_scalars(peali_runner *r)
{
    return r->scalars;
}

/* Do peers see this part of a buffer? */
static bool seen(const peali_runner *r, const void *buffer, peali_extent part)
{
    return !r->staged && (!r->pooled || peali_pool_holds((const void *)((uintptr_t)buffer + part.at), part.bytes));
}

/*
 * A fork during the call has made the buffer's pages private, while this rank and its peers went on in the file's: what they stored
 * there is fetched.
 */
void peali_run_come_home(const peali_runner *r)
{
    unsigned char *out = r->out + r->plan->wanted.at;
    if (r->shift[r->me] != 0 && !r->staged_out && r->plan->wanted.bytes > 0 && !peali_pool_holds(out, r->plan->wanted.bytes))
        memcpy(out, out + r->shift[r->me], r->plan->wanted.bytes);
}

/* Was OUT written in one of the last few calls of its kind? It is, from now on. */
static bool warm(peali_runner *r, const void *out)
{
    for (unsigned k = 1; k <= PEALI_RUN_WARM && k <= r->plan->warm; k++)
        if (r->outs[(r->nouts - k) % PEALI_RUN_WARM] == out)
            return true;
    r->outs[r->nouts++ % PEALI_RUN_WARM] = out;
    return false;
}

/*
 * Before any flag is raised, which releases it. A buffer that holds one part of the vector only (what a rank gives to an
 * allgather, or gets of a reduce-scatter) is shown as if the rest lay around it; nobody touches the rest.
 */
static void show_buffers(peali_runner *r, const peali_plan *plan)
{
    peal_kind kind = plan->job.algo->kind;
    const uintptr_t before = (uintptr_t)plan->program->rank * plan->job.count * plan->elem_bytes;
    if (kind == PEAL_ALLGATHER)
        r->in = (const unsigned char *)((uintptr_t)r->in - before);
    else if (kind == PEAL_REDUCE_SCATTER)
        r->out = (unsigned char *)((uintptr_t)r->out - before);
    bool in = !plan->scale && seen(r, r->in, plan->given), out = seen(r, r->out, plan->wanted);
    bool touched = plan->program->mode == PEALI_PULL && plan->program->nreach > 1; /* by peers, who do so in pull only */
    r->seen = kind != PEAL_BROADCAST ? in && out : in || plan->program->rank != plan->job.root;
    r->staged_in = plan->scale || (touched && !in); /* filling it multiplies */
    r->staged_out = touched && !out;
    r->shift[r->me] = touched && r->pooled ? peali_pool_alias() : 0;
    unsigned char *half = r->staging + plan->slice_bytes * (size_t)plan->job.window;
    peali_front *front = &r->mine->front;
    front->tmp = (uintptr_t)r->scratch;
    front->in = r->staged_in ? (uintptr_t)r->staging : (uintptr_t)r->in;
    front->out = r->staged_out ? (uintptr_t)half : (uintptr_t)r->out;
    front->staged = (uint32_t)(r->staged_in | r->staged_out << 1);
    bool apart = r->in != r->out; /* else the user has just filled it */
    front->past = plan->stream == PEALI_STREAM_ALL || (plan->stream == PEALI_STREAM_COLD && apart && !warm(r, r->out));
}

peali_moment peali_run_moment(const peali_runner *r)
{
    const peali_job *job = &r->plan->job;
    return (peali_moment){.what = peal_kind_name((peal_kind)r->signature.kind), .how = job->algo->name, .key = (uintptr_t)r,
                          .rank = peali_run_world(r, r->net->rank), .peer = -1, .slice = -1,
                          .bytes = job->count * r->plan->elem_bytes};
}

static bool by_courier(const peali_plan *plan)
{
    return plan->couriered && !peali_load_relaxed(&peali_run_wanted) && (!plan->trial || peali_trial_way(plan->trial));
}

/* The signature is there, but for its history. */
static void begin(peali_runner *r, const peali_plan *plan, const void *in, void *out)
{
    r->plan = plan;
    r->in = in;
    r->out = out;
    r->net = by_courier(plan) ? r->courier : r->direct;
    int32_t area = r->lands.areas > 0 ? (int32_t)(r->base % (uint64_t)r->lands.areas) : 0;
    for (int32_t w = 0; w < plan->job.window; w++) {
        size_t at = (size_t)w * (size_t)plan->nreqs;
        r->cursors[w] = (peali_cursor){w, 0, w, peali_run_area(r, area, w), false, r->over + at, r->open + at,
                                       r->reqs + at};
    }
    if (plan->small)
        peali_small_begin(r);
    r->began_ns = plan->trial ? peali_clock_ns() : 0;
    peali_run_note(r, &r->signature);
    r->begun = false;
    r->dissenter = -1;
    r->left = plan->job.slices;
    r->idle = 0;
    r->idle_ns = r->waited_ns = r->waits_ns = 0;
    if (plan->nmessages > 0)
        memset(r->over, true, (size_t)plan->job.window * (size_t)plan->nreqs);
    for (int32_t k = 0; k < plan->nleads; k++)
        r->leads[k].state = PEALI_LEAD_TO_COME;
    show_buffers(r, plan);
    if (r->timed)
        peali_timeline_begin(peali_run_moment(r));
}

void peali_run_start(peali_runner *r, const peali_plan *plan, const void *in, void *out, uint64_t sequence)
{
    r->signature = peali_signature_of(&plan->job, sequence);
    begin(r, plan, in, out);
}

void peali_run_start_as(peali_runner *r, const peali_plan *plan, const void *in, void *out, const peali_signature *as)
{
    r->signature = *as;
    begin(r, plan, in, out);
}
