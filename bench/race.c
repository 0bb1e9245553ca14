/*
 * Why it times the way it does. A send buffer that is not rewritten makes direct readers look fast: they find old data in their
 * own caches; so its owner rewrites it before each call. A collective is as fast as its slowest rank; so a sample is the maximum
 * over the ranks of one call, from a time at which all start. Machines drift; so variants take turns. But not call by call: what
 * one leaves in the network's queues, and takes of the tokens of a link, the next would pay for.
 */
#include "race.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "comm/comm.h"
#include "pattern.h"
#include "sched/sched.h"
#include "start.h"

/* All that one size needs. */
struct heat {
    peali_race *race;
    peali_team *team;
    const peali_pattern *pattern;
    char *in, *out;
    peal_kind kind;
    size_t count; /* as the call has it */
    peal_type type;
    peal_op op;
    bool inplace;
    peali_start start;
    long calls; /* so far: the number of the next one */
    int iters;
    double *samples; /* iters of the first runner, of the second, ... */
    double wrong[PEALI_RUNNERS];
    int slices[PEALI_RUNNERS]; /* K of the last call */
};

void peali_race_fail(peali_team *team, const char *who, const char *why)
{
    fprintf(stderr, "peal: rank %d: %s: %s\n", team->rank, who, why);
    team->quit(team);
}

/* Names the algorithm, outside the timer. */
static void prepare(struct heat *h, const peali_runner *runner)
{
    const char *algo = strcmp(runner->variant, "auto") == 0 ? NULL : runner->variant;
    if (runner->peal && peal_comm_force(h->team->comm, h->kind, algo) != PEAL_OK)
        peali_race_fail(h->team, runner->variant, "refused");
    if (runner->slice_bytes)
        peal_comm_force_slice(h->team->comm, runner->slice_bytes);
}

size_t peali_race_parts(const peali_race *race)
{
    peal_kind kind = race->flags->kind;
    return kind == PEAL_ALLGATHER || kind == PEAL_REDUCE_SCATTER ? (size_t)race->team->nranks : 1;
}

static size_t parts(const struct heat *h)
{
    return peali_race_parts(h->race);
}

/* Where this rank's part begins in a vector of all parts. */
static size_t own_part(const struct heat *h)
{
    return (size_t)h->team->rank * h->count * h->pattern->elem;
}

static char *from(const struct heat *h)
{
    if (h->kind == PEAL_BROADCAST)
        return h->out;
    return !h->inplace ? h->in : h->out + (h->kind == PEAL_ALLGATHER ? own_part(h) : 0);
}

/* In place MPI leaves the part of a reduce-scatter at the start. */
static char *to(const struct heat *h, bool peal)
{
    return h->out + (h->inplace && peal && h->kind == PEAL_REDUCE_SCATTER ? own_part(h) : 0);
}

static peal_status call_peal(const struct heat *h)
{
    peal_comm *comm = h->team->comm;
    const void *in = from(h);
    void *out = to(h, true);
    switch (h->kind) {
    case PEAL_ALLREDUCE: return peal_allreduce(in, out, h->count, h->type, h->op, comm, NULL);
    case PEAL_ALLGATHER: return peal_allgather(in, out, h->count, h->type, comm, NULL);
    case PEAL_REDUCE_SCATTER: return peal_reduce_scatter(in, out, h->count, h->type, h->op, comm, NULL);
    case PEAL_BROADCAST: return peal_broadcast(out, h->count, h->type, 0, comm, NULL);
    default: return peal_reduce(in, out, h->count, h->type, h->op, 0, comm, NULL);
    }
}

static void call(struct heat *h, const peali_runner *runner)
{
    if (runner->peal) {
        peal_status status = call_peal(h);
        if (status != PEAL_OK)
            peali_race_fail(h->team, runner->variant, peal_status_text(status));
    } else if (!h->team->own(h->kind, h->inplace ? NULL : h->in, h->out, h->count, h->type, h->op)) {
        peali_race_fail(h->team, runner->impl, "its collective failed");
    }
}

/* Where nothing is combined, all ranks have one pattern (that of one rank alone), and rank r begins r steps later. */
static bool combines(peal_kind kind)
{
    return kind != PEAL_ALLGATHER && kind != PEAL_BROADCAST;
}

static void give(struct heat *h, bool rough)
{
    size_t count = h->count * (h->kind == PEAL_REDUCE_SCATTER ? parts(h) : 1);
    if (h->kind != PEAL_BROADCAST || h->team->rank == 0)
        peali_pattern_give(h->pattern, rough, h->calls + (h->kind == PEAL_ALLGATHER ? h->team->rank : 0), from(h), count);
}

static size_t wrong(const struct heat *h, bool peal)
{
    size_t n = 0;
    if (h->kind == PEAL_REDUCE && h->team->rank != 0)
        return 0;
    if (h->kind == PEAL_REDUCE_SCATTER)
        return peali_pattern_wrong(h->pattern, h->calls + (long)h->count * h->team->rank, to(h, peal), h->count);
    for (size_t r = 0; r < parts(h); r++)
        n += peali_pattern_wrong(h->pattern, h->calls + (long)r, h->out + r * h->count * h->pattern->elem, h->count);
    return n;
}

enum { RUNS = 5 }; /* of each variant in its turns */

/* One call: rewrite, start together, time, verify. Returns microseconds. */
static double turn(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    prepare(h, runner);
    give(h, false);
    int64_t start = peali_start_wait(&h->start, h->team);
    call(h, runner);
    double us = (double)(peali_clock_ns() - start) / 1e3;
    if (h->race->flags->check)
        h->wrong[which] += (double)wrong(h, runner->peal);
    h->slices[which] = runner->peal ? peali_comm_slices(h->team->comm, h->kind, h->count, h->type, h->op) : 0;
    h->calls++;
    return us;
}

/*
 * One call on data that round: ranks that have the same result must have the same bits of it. MPI only advises that, so the peer
 * is not held to it.
 */
static void agree(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    if (!runner->peal || !h->race->flags->check)
        return;
    prepare(h, runner);
    give(h, true);
    call(h, runner);
    double hash = peali_pattern_hash(h->out, h->count * parts(h) * h->pattern->elem), ends[2] = {hash, -hash};
    h->team->max(h->team, ends, 2);
    h->wrong[which] += h->kind != PEAL_REDUCE && h->kind != PEAL_REDUCE_SCATTER && ends[0] != -ends[1];
    h->calls++;
}

/* As asked, or what 0.3 s hold by the slowest rank's clock. */
int peali_race_iters(const peali_race *race, double warm_ns, int warm_rounds)
{
    race->team->max(race->team, &warm_ns, 1);
    if (race->flags->iters)
        return race->flags->iters;
    double fit = 0.3e9 * race->nrunners * warm_rounds / (warm_ns + 1);
    return fit < 5 ? 5 : fit > 2000 ? 2000 : (int)fit;
}

/* The first round makes plans and connections, so it does not count towards how long a round takes. */
static void warm(struct heat *h)
{
    int rounds = h->race->flags->warmup > 1 ? h->race->flags->warmup : 1;
    int64_t start = 0;
    for (int i = 0; i < h->race->nrunners; i++)
        agree(h, i);
    h->iters = h->race->flags->iters;
    if (h->race->flags->warmup == 0 && h->iters && h->race->flags->check)
        return;
    for (int w = 0; w <= rounds; w++) {
        if (w == 1)
            start = peali_clock_ns();
        for (int i = 0; i < h->race->nrunners; i++)
            turn(h, i);
    }
    h->iters = peali_race_iters(h->race, (double)(peali_clock_ns() - start), rounds);
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
    const char *choice = peal_comm_choice(h->team->comm, h->kind, h->count, h->type, h->op);
    return runner->peal && choice && (strcmp(runner->variant, "auto") == 0 || strcmp(runner->variant, choice) == 0);
}

/* Peal's own choice is named by what was chosen. */
static const char *named(const struct heat *h, const peali_runner *runner)
{
    if (!runner->peal || strcmp(runner->variant, "auto") != 0)
        return runner->variant;
    return peal_comm_choice(h->team->comm, h->kind, h->count, h->type, h->op);
}

static double predicted_us(const struct heat *h, const peali_runner *runner, size_t bytes)
{
    const peal_problem problem = peali_comm_asks(h->team->comm, h->kind);
    const peal_algo *algo = runner->peal ? peali_algo_find(problem.kind, named(h, runner)) : NULL;
    return algo ? peali_cost(algo, &problem, bytes, &h->race->cost, h->slices[runner - h->race->runners]) / 1e3 : 0;
}

/* The bandwidth of the busiest link, over algbw: nccl-tests' factors. */
static double bus(const peali_race *race)
{
    double others = (double)(race->team->nranks - 1) / race->team->nranks;
    switch (race->flags->kind) {
    case PEAL_ALLREDUCE: return 2 * others;
    case PEAL_ALLGATHER: case PEAL_REDUCE_SCATTER: return others;
    default: return 1;
    }
}

double peali_median(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof *samples, ascending);
    return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

void peali_row_times(peali_row *row, const peali_race *race, double *samples, int n)
{
    row->samples = n;
    row->median_us = peali_median(samples, n);
    row->min_us = samples[0];
    row->p99_us = at(samples, n, 0.99);
    row->algbw = (double)row->bytes / row->median_us / 1e3;
    row->busbw = row->algbw * bus(race);
}

static peali_row score(struct heat *h, int which)
{
    const peali_runner *runner = &h->race->runners[which];
    size_t bytes = h->count * parts(h) * h->pattern->elem;
    peali_row row = {
        .bytes = bytes, .count = h->count, .type = h->type, .op = h->op, .inplace = h->inplace,
        .impl = runner->impl, .variant = named(h, runner), .mode = "eager", .buffers = "reused", .chosen = is_chosen(h, runner),
        .predicted_us = predicted_us(h, runner, bytes),
        .wrong = h->wrong[which], .verified = h->race->flags->check && h->wrong[which] == 0,
    };
    peali_row_times(&row, h->race, h->samples + (size_t)which * (size_t)h->iters, h->iters);
    return row;
}

void peali_race_keep(peali_race *race, peali_row row)
{
    peali_row *rows = realloc(race->rows, (size_t)(race->nrows + 1) * sizeof *rows);
    if (!rows)
        peali_race_fail(race->team, "rows", "no memory");
    race->rows = rows;
    rows[race->nrows++] = row;
}

static void run_heat(struct heat *h, void (*print)(const peali_race *race, const peali_row *row))
{
    peali_race *race = h->race;
    warm(h);
    h->samples = calloc((size_t)race->nrunners * (size_t)h->iters, sizeof *h->samples);
    if (!h->samples)
        peali_race_fail(h->team, "samples", "no memory");
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < race->nrunners; i++)
            for (int k = h->iters * run / RUNS; k < h->iters * (run + 1) / RUNS; k++)
                h->samples[i * h->iters + k] = turn(h, i);
    h->team->max(h->team, h->samples, race->nrunners * h->iters);
    h->team->max(h->team, h->wrong, race->nrunners);
    peal_status unforced = peal_comm_force(h->team->comm, h->kind, NULL);
    if (unforced != PEAL_OK)
        peali_race_fail(h->team, "auto", peal_status_text(unforced));
    for (int i = 0; i < race->nrunners; i++) {
        peali_race_keep(race, score(h, i));
        if (h->team->rank == 0 && print)
            print(race, &race->rows[race->nrows - 1]);
    }
    free(h->samples);
    h->samples = NULL;
}

void peali_race_sizes(const peali_race *race, size_t elem, const peali_race_visit *visit)
{
    const peali_flags *f = race->flags;
    size_t last = 0;
    for (double bytes = (double)f->min_bytes; bytes <= (double)f->max_bytes;
         bytes = f->step_bytes ? bytes + (double)f->step_bytes : bytes * f->factor) {
        size_t count = (size_t)bytes / elem / peali_race_parts(race);
        if (count == last)
            continue;
        last = count;
        for (int place = 0; place < 2; place++)
            if (f->place[place])
                visit->size(visit->arg, count, place == 1);
    }
}

/* What a race on the host goes through. */
struct course {
    struct heat *heat;
    void (*print)(const peali_race *race, const peali_row *row);
};

static void run_size(void *arg, size_t count, bool inplace)
{
    struct course *course = arg;
    struct heat *h = course->heat;
    h->count = count;
    h->inplace = inplace;
    memset(h->wrong, 0, sizeof h->wrong);
    run_heat(h, course->print);
}

static void create_pattern(struct heat *h, peali_pattern *pattern)
{
    bool all = combines(h->kind);
    if (!peali_pattern_create(pattern, all ? h->team->rank : 0, all ? h->team->nranks : 1, h->type, h->op))
        peali_race_fail(h->team, "pattern", "no memory");
    h->pattern = pattern;
}

void peali_race_types(const peali_race *race, const peali_race_visit *visit)
{
    const peali_flags *f = race->flags;
    for (int t = 0; t < PEAL_TYPE_COUNT; t++)
        for (int o = 0; o < PEAL_OP_COUNT; o++)
            if ((f->types >> t & 1) && (f->ops >> o & 1) && peal_op_takes((peal_op)o, (peal_type)t))
                visit->type(visit->arg, (peal_type)t, (peal_op)o);
}

static void run_type(void *arg, peal_type type, peal_op op)
{
    struct course *course = arg;
    struct heat *h = course->heat;
    peali_pattern pattern;
    h->type = type;
    h->op = op;
    create_pattern(h, &pattern);
    peali_race_sizes(h->race, pattern.elem, &(peali_race_visit){.size = run_size, .arg = arg});
    peali_pattern_destroy(&pattern);
}

void peali_race_enter(peali_race *race, peali_runner runner)
{
    if (race->nrunners == PEALI_RUNNERS)
        peali_race_fail(race->team, runner.variant, "more variants than PEALI_RUNNERS of bench/race.h");
    race->runners[race->nrunners++] = runner;
}

void peali_race_algos(peali_race *race)
{
    const peali_flags *f = race->flags;
    const peal_problem problem = peali_comm_asks(race->team->comm, f->kind);
    if (strcmp(f->algo, "auto") == 0)
        peali_race_enter(race, (peali_runner){.impl = "peal", .variant = "auto", .peal = true});
    for (int i = 0; peali_algos[i]; i++)
        if (peali_algos[i]->kind == f->kind && peali_flags_listed(peali_algos[i]->name, f->algo) &&
            peali_algo_fits(peali_algos[i], &problem))
            peali_race_enter(race, (peali_runner){.impl = "peal", .variant = peali_algos[i]->name, .peal = true});
}

static void enter_all(peali_race *race)
{
    peali_race_algos(race);
    if (race->flags->vs_mpi && race->team->peer)
        peali_race_enter(race, (peali_runner){.impl = race->team->peer, .variant = "default"});
}

static void *get_buffer(const peali_race *race, size_t bytes)
{
    return race->flags->shared ? peal_mem_alloc(bytes) : aligned_alloc(4096, bytes);
}

static void close_heat(struct heat *h)
{
    void (*put)(void *) = h->race->flags->shared ? peal_mem_free : free;
    put(h->in);
    put(h->out);
}

static struct heat open_heat(peali_race *race, size_t most)
{
    size_t bytes = (most + 4095) / 4096 * 4096;
    struct heat h = {.race = race, .team = race->team, .in = get_buffer(race, bytes), .out = get_buffer(race, bytes),
                     .kind = race->flags->kind, .type = PEAL_FLOAT, .op = PEAL_SUM};
    if (!h.in || !h.out)
        peali_race_fail(race->team, "buffers", "no memory; lower -e");
    memset(h.in, 0, bytes);
    memset(h.out, 0, bytes);
    return h;
}

void peali_race_heat(peali_race *race, size_t bytes)
{
    struct heat h = open_heat(race, bytes);
    peali_pattern pattern;
    create_pattern(&h, &pattern);
    h.count = bytes / pattern.elem / parts(&h);
    race->nrows = 0;
    run_heat(&h, NULL);
    peali_pattern_destroy(&pattern);
    close_heat(&h);
}

/* Among threads PEAL_NODES is for this communicator, so pairs of ranks cannot be had to measure: the model then stays silent. */
int peali_race_run(peali_race *race, void (*print)(const peali_race *race, const peali_row *row))
{
    struct heat h = open_heat(race, race->flags->max_bytes);
    enter_all(race);
    if (!peali_config_get()->nodes)
        peali_measure(race->team, &race->cost);
    peali_race_types(race, &(peali_race_visit){.type = run_type, .arg = &(struct course){&h, print}});
    close_heat(&h);
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
