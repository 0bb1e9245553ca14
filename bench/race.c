/*
 * Why it times the way it does. A send buffer that is not rewritten makes direct readers look fast: they find old data in their
 * own caches; so its owner rewrites it before each call. Machines drift; so variants take turns call by call. A collective is as
 * fast as its slowest rank; so a sample is the maximum over the ranks of one call.
 */
#include "race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pattern.h"
#include "sched/sched.h"

/* All that one size needs. */
struct heat {
    peali_race *race;
    peali_team *team;
    const peali_pattern *pattern;
    char *in, *out;
    size_t count;
    peal_type type;
    peal_op op;
    bool inplace;
    long calls; /* so far: the number of the next one */
    int iters;
    double *samples; /* iters of the first runner, of the second, ... */
    double wrong[PEALI_RUNNERS];
};

static void fail(peali_team *team, const char *who, const char *why)
{
    fprintf(stderr, "peal bench: rank %d: %s: %s\n", team->rank, who, why);
    team->quit(team);
}

/* Names the algorithm, outside the timer. */
static void prepare(struct heat *h, const peali_runner *runner)
{
    const char *algo = strcmp(runner->variant, "auto") == 0 ? NULL : runner->variant;
    if (runner->peal && peal_comm_force(h->team->comm, h->race->flags->kind, algo) != PEAL_OK)
        fail(h->team, runner->variant, "refused");
}

static void call(struct heat *h, const peali_runner *runner)
{
    const void *in = h->inplace ? h->out : h->in;
    if (runner->peal) {
        peal_status status = peal_allreduce(in, h->out, h->count, h->type, h->op, h->team->comm, NULL);
        if (status != PEAL_OK)
            fail(h->team, runner->variant, peal_status_text(status));
    } else if (!h->team->own(in, h->out, h->count, h->type, h->op)) {
        fail(h->team, runner->impl, "its allreduce failed");
    }
}

/* One call: rewrite, barrier, time, verify. Returns microseconds. */
static double turn(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    prepare(h, runner);
    peali_pattern_give(h->pattern, false, h->calls, h->inplace ? h->out : h->in, h->count);
    h->team->barrier(h->team);
    int64_t start = peali_clock_ns();
    call(h, runner);
    double us = (double)(peali_clock_ns() - start) / 1e3;
    if (h->race->flags->check)
        h->wrong[which] += (double)peali_pattern_wrong(h->pattern, h->calls, h->out, h->count);
    h->calls++;
    return us;
}

/* One call on data that round: all ranks must have the same bits. MPI only advises that, so the peer is not held to it. */
static void agree(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    if (!runner->peal || !h->race->flags->check)
        return;
    prepare(h, runner);
    peali_pattern_give(h->pattern, true, h->calls, h->inplace ? h->out : h->in, h->count);
    call(h, runner);
    double hash = peali_pattern_hash(h->out, h->count * h->pattern->elem), ends[2] = {hash, -hash};
    h->team->max(h->team, ends, 2);
    h->wrong[which] += ends[0] != -ends[1];
    h->calls++;
}

/* Timed calls of each runner: as asked, or what 0.3 s hold by the slowest rank's clock. */
static int how_many(struct heat *h, double warm_ns, int warm_rounds)
{
    const peali_flags *flags = h->race->flags;
    h->team->max(h->team, &warm_ns, 1);
    if (flags->iters)
        return flags->iters;
    double fit = 0.3e9 * h->race->nrunners * warm_rounds / (warm_ns + 1);
    return fit < 5 ? 5 : fit > 2000 ? 2000 : (int)fit;
}

/* The first round makes plans and connections, so it does not count towards how long a round takes. */
static void warm(struct heat *h)
{
    int rounds = h->race->flags->warmup > 1 ? h->race->flags->warmup : 1;
    int64_t start = 0;
    for (int i = 0; i < h->race->nrunners; i++)
        agree(h, i);
    for (int w = 0; w <= rounds; w++) {
        if (w == 1)
            start = peali_clock_ns();
        for (int i = 0; i < h->race->nrunners; i++)
            turn(h, i);
    }
    h->iters = how_many(h, (double)(peali_clock_ns() - start), rounds);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double share)
{
    int i = (int)ceil(share * n) - 1;
    return sorted[i < 0 ? 0 : i];
}

static bool is_chosen(const struct heat *h, const peali_runner *runner)
{
    const char *choice = peal_comm_choice(h->team->comm, h->race->flags->kind, h->count, h->type, h->op);
    return runner->peal && choice && (strcmp(runner->variant, "auto") == 0 || strcmp(runner->variant, choice) == 0);
}

/* Peal's own choice is named by what was chosen. */
static const char *named(const struct heat *h, const peali_runner *runner)
{
    if (!runner->peal || strcmp(runner->variant, "auto") != 0)
        return runner->variant;
    return peal_comm_choice(h->team->comm, h->race->flags->kind, h->count, h->type, h->op);
}

static peali_row score(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    double *samples = h->samples + (size_t)which * (size_t)h->iters;
    int n = h->iters, nranks = h->team->nranks;
    qsort(samples, (size_t)n, sizeof *samples, ascending);
    double median = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    size_t bytes = h->count * h->pattern->elem;
    double algbw = (double)bytes / median / 1e3;
    return (peali_row){
        .bytes = bytes, .count = h->count, .type = h->type, .op = h->op, .inplace = h->inplace,
        .impl = runner->impl, .variant = named(h, runner), .chosen = is_chosen(h, runner),
        .samples = n, .min_us = samples[0], .median_us = median, .p99_us = at(samples, n, 0.99),
        .algbw = algbw, .busbw = algbw * 2 * (nranks - 1) / nranks,
        .wrong = h->wrong[which], .verified = h->race->flags->check && h->wrong[which] == 0,
    };
}

static void keep(peali_race *race, peali_row row)
{
    peali_row *rows = realloc(race->rows, (size_t)(race->nrows + 1) * sizeof *rows);
    if (!rows)
        fail(race->team, "rows", "no memory");
    race->rows = rows;
    rows[race->nrows++] = row;
}

static void run_heat(struct heat *h, void (*print)(const peali_race *race, const peali_row *row))
{
    peali_race *race = h->race;
    warm(h);
    h->samples = calloc((size_t)race->nrunners * (size_t)h->iters, sizeof *h->samples);
    if (!h->samples)
        fail(h->team, "samples", "no memory");
    for (int k = 0; k < h->iters; k++)
        for (int i = 0; i < race->nrunners; i++)
            h->samples[i * h->iters + k] = turn(h, i);
    h->team->max(h->team, h->samples, race->nrunners * h->iters);
    h->team->max(h->team, h->wrong, race->nrunners);
    peal_status unforced = peal_comm_force(h->team->comm, race->flags->kind, NULL);
    if (unforced != PEAL_OK)
        fail(h->team, "auto", peal_status_text(unforced));
    for (int i = 0; i < race->nrunners; i++) {
        keep(race, score(h, i));
        if (h->team->rank == 0)
            print(race, &race->rows[race->nrows - 1]);
    }
    free(h->samples);
    h->samples = NULL;
}

/* All sizes of one type and op. */
static void run_sizes(struct heat *h, void (*print)(const peali_race *race, const peali_row *row))
{
    const peali_flags *f = h->race->flags;
    size_t elem = h->pattern->elem, last = 0;
    for (double bytes = (double)f->min_bytes; bytes <= (double)f->max_bytes;
         bytes = f->step_bytes ? bytes + (double)f->step_bytes : bytes * f->factor) {
        h->count = (size_t)bytes / elem;
        if (h->count == last)
            continue;
        last = h->count;
        for (int place = 0; place < 2; place++) {
            h->inplace = place == 1;
            memset(h->wrong, 0, sizeof h->wrong);
            if (f->place[place])
                run_heat(h, print);
        }
    }
}

static void run_types(struct heat *h, void (*print)(const peali_race *race, const peali_row *row))
{
    const peali_flags *f = h->race->flags;
    for (int t = 0; t < PEAL_TYPE_COUNT; t++)
        for (int o = 0; o < PEAL_OP_COUNT; o++) {
            h->type = (peal_type)t;
            h->op = (peal_op)o;
            if (!(f->types >> t & 1) || !(f->ops >> o & 1) || !peal_op_takes(h->op, h->type))
                continue;
            peali_pattern pattern;
            if (!peali_pattern_create(&pattern, h->team->rank, h->team->nranks, h->type, h->op))
                fail(h->team, "pattern", "no memory");
            h->pattern = &pattern;
            run_sizes(h, print);
            peali_pattern_destroy(&pattern);
        }
}

static void enter(peali_race *race, const char *impl, const char *variant, bool peal)
{
    if (race->nrunners == PEALI_RUNNERS)
        fail(race->team, variant, "too many variants in one race");
    race->runners[race->nrunners++] = (peali_runner){impl, variant, peal};
}

static bool listed(const char *name, const char *names)
{
    size_t length = strlen(name);
    for (; names; names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL)
        if (strncmp(names, name, length) == 0 && (names[length] == ',' || !names[length]))
            return true;
    return false;
}

static void enter_all(peali_race *race)
{
    const peali_flags *f = race->flags;
    peal_problem problem = {.kind = f->kind, .nranks = race->team->nranks, .nnodes = 1};
    if (strcmp(f->algo, "auto") == 0)
        enter(race, "peal", "auto", true);
    for (int i = 0; peali_algos[i]; i++)
        if (peali_algos[i]->kind == f->kind && (strcmp(f->algo, "all") == 0 || listed(peali_algos[i]->name, f->algo)) &&
            peali_algo_fits(peali_algos[i], &problem))
            enter(race, "peal", peali_algos[i]->name, true);
    if (f->vs_mpi && race->team->peer)
        enter(race, race->team->peer, "default", false);
}

int peali_race_run(peali_race *race, void (*print)(const peali_race *race, const peali_row *row))
{
    size_t bytes = (race->flags->max_bytes + 4095) / 4096 * 4096;
    struct heat h = {.race = race, .team = race->team, .in = aligned_alloc(4096, bytes), .out = aligned_alloc(4096, bytes)};
    enter_all(race);
    if (!h.in || !h.out)
        fail(race->team, "buffers", "no memory; lower -e");
    memset(h.in, 0, bytes);
    memset(h.out, 0, bytes);
    run_types(&h, print);
    free(h.in);
    free(h.out);
    double wrong = 0;
    for (int i = 0; i < race->nrows; i++)
        wrong += race->rows[i].wrong;
    return wrong > 0;
}

void peali_race_end(peali_race *race)
{
    free(race->rows);
    race->rows = NULL;
}
