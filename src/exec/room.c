/* The memory of a runner: made when plans are, so that running allocates nothing. */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"

peal_status peali_runner_create(const peali_setting *setting, peali_runner **out)
{
    peali_runner *r = peali_alloc(1, sizeof *r);
    size_t n = (size_t)setting->nreach;
    peali_public **shown = peali_alloc(n, sizeof *shown);
    int64_t *known = peali_alloc(n, sizeof *known);
    peali_parley *parley = NULL;
    if (!r || !shown || !known || peali_parley_create(setting->net, &parley) != PEAL_OK) {
        peali_free(r);
        peali_free(shown);
        peali_free(known);
        return PEAL_ERR_MEMORY;
    }
    memcpy(shown, setting->shown, n * sizeof *shown);
    *r = (peali_runner){.net = setting->net, .crowded = setting->crowded, .staged = setting->staged, .me = setting->me};
    r->parley_ns = setting->parley_ns;
    r->parley = parley;
    r->nreach = setting->nreach;
    r->ranks = setting->ranks;
    r->shown = shown;
    r->known = known;
    r->mine = shown[r->me];
    *out = r;
    return PEAL_OK;
}

static void drop_room(peali_runner *r)
{
    peali_free(r->cursors);
    peali_free(r->over);
    peali_free(r->reqs);
    peali_free(r->lead_over);
    peali_free(r->lead_seen);
    peali_free(r->lead_reqs);
    peali_free(r->bounce);
    peali_free(r->scratch);
    peali_free(r->staging);
    peali_free(r->dst);
    peali_free(r->src);
    r->cursors = NULL;
    r->over = NULL;
    r->reqs = NULL;
    r->lead_over = r->lead_seen = NULL;
    r->lead_reqs = NULL;
    r->bounce = NULL;
    r->scratch = r->staging = NULL;
    r->dst = NULL;
    r->src = NULL;
    r->ncursors = r->nreqs = r->noperands = r->nleads = 0;
    r->scratch_bytes = r->staging_bytes = 0;
}

void peali_runner_destroy(peali_runner **runner)
{
    if (*runner) {
        drop_room(*runner);
        for (int32_t x = 0; x < (*runner)->nreach; x++)
            peali_public_release((*runner)->shown[x]);
        peali_parley_destroy(&(*runner)->parley);
        peali_free((*runner)->shown);
        peali_free((*runner)->known);
    }
    peali_free(*runner);
    *runner = NULL;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

peal_status peali_runner_fit(peali_runner *r, const peali_plan *plan)
{
    size_t scratch = plan->scratch_bytes * (size_t)plan->job.window;
    size_t staging = r->staged ? 2 * plan->slice_bytes * (size_t)plan->job.window : 0;
    if (r->cursors && plan->job.window <= r->ncursors && plan->nreqs <= r->nreqs && scratch <= r->scratch_bytes &&
        staging <= r->staging_bytes && plan->most_operands <= r->noperands && plan->nleads <= r->nleads)
        return PEAL_OK;
    int32_t ncursors = most(r->ncursors, plan->job.window), nreqs = most(r->nreqs, plan->nreqs);
    int32_t noperands = most(r->noperands, plan->most_operands), nleads = most(r->nleads, plan->nleads);
    scratch = largest(scratch, r->scratch_bytes);
    staging = largest(staging, r->staging_bytes);
    drop_room(r);
    r->cursors = peali_alloc((size_t)ncursors, sizeof *r->cursors);
    r->over = peali_alloc((size_t)ncursors * (size_t)nreqs, sizeof *r->over);
    r->reqs = peali_alloc((size_t)ncursors * (size_t)nreqs, sizeof *r->reqs);
    r->scratch = peali_alloc(scratch + 1, 1);
    r->staging = peali_alloc(staging + 1, 1);
    r->lead_over = peali_alloc((size_t)nleads + 1, sizeof *r->lead_over);
    r->lead_seen = peali_alloc((size_t)nleads + 1, sizeof *r->lead_seen);
    r->lead_reqs = peali_alloc((size_t)nleads + 1, sizeof *r->lead_reqs);
    r->bounce = peali_alloc((size_t)nleads + 1, PEALI_RUN_BOUNCE);
    r->dst = peali_alloc((size_t)noperands, sizeof *r->dst);
    r->src = peali_alloc((size_t)noperands, sizeof *r->src);
    if (!r->cursors || !r->over || !r->reqs || !r->scratch || !r->staging || !r->dst || !r->src || !r->lead_over || !r->lead_seen ||
        !r->lead_reqs || !r->bounce) {
        drop_room(r);
        return PEAL_ERR_MEMORY;
    }
    r->ncursors = ncursors;
    r->nreqs = nreqs;
    r->noperands = noperands;
    r->nleads = nleads;
    r->scratch_bytes = scratch;
    r->staging_bytes = staging;
    return PEAL_OK;
}

/*
 * Before enter's flag of slice 0, which releases it. A buffer that holds one part of the vector only (what a rank gives to an
 * allgather, or gets of a reduce-scatter) is shown as if the rest lay around it; nobody touches the rest.
 */
static void show_buffers(peali_runner *r, const peali_plan *plan)
{
    peal_kind kind = plan->job.algo->kind;
    size_t half = plan->slice_bytes * (size_t)plan->job.window;
    uintptr_t before = (uintptr_t)plan->program->rank * plan->job.count * plan->elem_bytes;
    r->in = (const unsigned char *)((uintptr_t)r->in - (kind == PEAL_ALLGATHER ? before : 0));
    r->out = (unsigned char *)((uintptr_t)r->out - (kind == PEAL_REDUCE_SCATTER ? before : 0));
    uint64_t words[PEALI_REACH_CALL];
    static_assert(sizeof words == sizeof r->signature, "a signature is shown word by word");
    memcpy(words, &r->signature, sizeof words);
    for (int k = 0; k < PEALI_REACH_CALL; k++)
        peali_store_relaxed(&r->mine->call[k], words[k]);
    r->mine->tmp = (peali_window){r->scratch, plan->scratch_bytes, plan->job.window};
    r->mine->in = (peali_window){(unsigned char *)r->in, 0, 0}; /* only ever read */
    r->mine->out = (peali_window){r->out, 0, 0};
    if (r->staged) {
        r->mine->in = (peali_window){r->staging, plan->slice_bytes, plan->job.window};
        r->mine->out = (peali_window){r->staging + half, plan->slice_bytes, plan->job.window};
    }
}

void peali_run_start(peali_runner *r, const peali_plan *plan, const void *in, void *out, uint64_t sequence)
{
    r->plan = plan;
    r->in = in;
    r->out = out;
    r->signature = peali_signature_of(&plan->job, sequence);
    r->dissenter = -1;
    r->word = (peali_word){.mine = r->signature, .one_rank = -1, .other_rank = -1};
    r->left = plan->job.slices;
    r->idle = 0;
    r->idle_ns = r->waited_ns = 0;
    memset(r->over, true, (size_t)plan->job.window * (size_t)plan->nreqs);
    memset(r->lead_over, true, (size_t)plan->nleads);
    memset(r->lead_seen, false, (size_t)plan->nleads);
    show_buffers(r, plan);
    for (int32_t w = 0; w < plan->job.window; w++) {
        size_t at = (size_t)w * (size_t)plan->nreqs;
        r->cursors[w] = (peali_cursor){w, 0, r->over + at, r->reqs + at};
    }
}
