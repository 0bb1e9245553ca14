/*
 * Why it times the way it does. All ranks start a turn together, with idle streams. The time of a turn goes from an event before
 * its first call to one after its last, so of a single call it holds the launch too; calls in a row, or in a graph, share that.
 * Each call of a turn has a place of its own in the buffers: no call finds the data of the one before, in a cache or elsewhere.
 *
 * Buffers are areas of places, STRIDE bytes apart. What ranks give, and what they are to get, are tables that repeat; a turn
 * begins a few elements further in them than the turn before.
 */
#include "race_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pattern.h"
#include "rank_gpu.h"

enum {
    PLAIN, REGISTERED, SYMMETRIC, MODES,
    EDGE = 512,         /* places begin at multiples of it */
    ROOM = 64 << 20,    /* bytes of an area, for many calls */
    SPOILT = 0xee,
};

static const struct {
    const char *name, *buffers;
} modes[MODES] = {{"default", "plain"}, {"registered", "registered"}, {"symmetric", "symmetric"}};

/* Turns until buffers of Peal that are not registered are mapped by themselves (peal_register). */
enum { MAPPING_TURNS = 3 };

/* NCCL as one of the three modes uses it: each has its communicator, so that registrations are of one alone. */
struct peer {
    peali_nccl_comm comm;
    void *handles[2];
    peali_nccl_window windows[2];
};

struct areas {
    peali_cu_ptr in, out;
};

struct peali_gpu_race {
    peali_race *race;
    peali_team *team;
    peali_bench_gpu gpu;
    const peali_nccl *nccl;
    struct peer peers[MODES];
    struct areas plain, nccls;      /* cuMemAlloc's, and ncclMemAlloc's: those that NCCL registers */
    size_t area;                    /* bytes of one */
    peali_cu_ptr given, wanted, wrong; /* the tables; bytes that were wrong, for each runner */

    /* Of the type, the size, and the rounds so far. */
    peal_type type;
    peal_op op;
    size_t elem, count, part, vector, stride;
    int places; /* at most; a runner uses as many as it makes calls */
    bool inplace;
    long turns;
    peali_cu_exec graphs[PEALI_RUNNERS];
    int ctas[PEALI_RUNNERS];
    void (*print)(const peali_race *race, const peali_row *row);
};

/* What one turn takes, in microseconds: by events for each call, and by the host's clock. */
enum { EVENTS, HOST, ENQUEUE, CLOCKS };

static peal_kind kind_of(const peali_gpu_race *g)
{
    return g->race->flags->kind;
}

/* Where nothing is combined, all ranks have one table (that of one rank alone), and rank r begins r steps later. */
static bool combines(const peali_gpu_race *g)
{
    return kind_of(g) != PEAL_ALLGATHER && kind_of(g) != PEAL_BROADCAST;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Calls in one turn of a runner. */
static int calls_of(const peali_gpu_race *g, const peali_runner *runner)
{
    const peali_flags *f = g->race->flags;
    return smaller(runner->graph ? f->graph : f->calls, g->places);
}

static const struct areas *areas_of(const peali_gpu_race *g, const peali_runner *runner)
{
    return runner->peal || strcmp(runner->buffers, "plain") == 0 ? &g->plain : &g->nccls;
}

/* Where the first call of a turn finds its data, and leaves its result. */
static peali_cu_ptr from(const peali_gpu_race *g, const peali_runner *runner)
{
    const struct areas *a = areas_of(g, runner);
    if (kind_of(g) == PEAL_BROADCAST)
        return a->out;
    return !g->inplace ? a->in : a->out + (kind_of(g) == PEAL_ALLGATHER ? (size_t)g->team->rank * g->part : 0);
}

static peali_cu_ptr to(const peali_gpu_race *g, const peali_runner *runner)
{
    bool within = g->inplace && kind_of(g) == PEAL_REDUCE_SCATTER;
    return areas_of(g, runner)->out + (within ? (size_t)g->team->rank * g->part : 0);
}

/* Calls. */

static peal_status call_peal(const peali_gpu_race *g, const void *in, void *out)
{
    peal_comm *comm = g->team->comm;
    void *stream = g->gpu.stream;
    switch (kind_of(g)) {
    case PEAL_ALLREDUCE: return peal_allreduce(in, out, g->count, g->type, g->op, comm, stream);
    case PEAL_ALLGATHER: return peal_allgather(in, out, g->count, g->type, comm, stream);
    case PEAL_REDUCE_SCATTER: return peal_reduce_scatter(in, out, g->count, g->type, g->op, comm, stream);
    case PEAL_BROADCAST: return peal_broadcast(out, g->count, g->type, 0, comm, stream);
    default: return peal_reduce(in, out, g->count, g->type, g->op, 0, comm, stream);
    }
}

static int mode_of(const peali_runner *runner)
{
    int mode = 0;
    while (strcmp(runner->variant, modes[mode].name) != 0)
        mode++;
    return mode;
}

static void must_nccl(const peali_gpu_race *g, peali_nccl_result result, const char *call, peali_nccl_comm comm)
{
    char why[400];
    if (result == 0)
        return;
    snprintf(why, sizeof why, "%s; %.300s (NCCL_DEBUG=WARN says more)", g->nccl->GetErrorString(result),
             g->nccl->GetLastError(comm));
    peali_race_fail(g->team, call, why);
}

static void call(const peali_gpu_race *g, const peali_runner *runner, int place)
{
    const void *in = (const void *)(uintptr_t)(from(g, runner) + (size_t)place * g->stride);
    void *out = (void *)(uintptr_t)(to(g, runner) + (size_t)place * g->stride);
    if (runner->peal) {
        peal_status status = call_peal(g, in, out);
        if (status != PEAL_OK)
            peali_race_fail(g->team, runner->variant, peal_status_text(status));
        return;
    }
    peali_nccl_comm comm = g->peers[mode_of(runner)].comm;
    peali_nccl_call c = {kind_of(g), in, out, g->count, g->type, g->op};
    must_nccl(g, peali_nccl_run(g->nccl, &c, comm, g->gpu.stream), runner->label, comm);
}

/* Outside the timer. */
static void force(const peali_gpu_race *g, const peali_runner *runner)
{
    const char *algo = strcmp(runner->variant, "auto") == 0 ? NULL : runner->variant;
    if (runner->peal && peal_comm_force(g->team->comm, kind_of(g), algo) != PEAL_OK)
        peali_race_fail(g->team, runner->variant, "refused");
}

/* Data. */

static size_t shift(const peali_gpu_race *g)
{
    return (size_t)(g->turns % PEALI_PATTERN_PERIOD) * g->elem;
}

static size_t rank_shift(const peali_gpu_race *g, int rank)
{
    return kind_of(g) == PEAL_ALLGATHER ? (size_t)rank * g->elem : 0;
}

/* Spoils the outputs, and writes what this rank gives. */
static void give(const peali_gpu_race *g, const peali_runner *runner)
{
    size_t bytes = (size_t)calls_of(g, runner) * g->stride;
    peali_cu_ptr given = g->given + shift(g) + rank_shift(g, g->team->rank), in = from(g, runner);
    peali_bench_must(&g->gpu, g->gpu.cu->MemsetD8Async(areas_of(g, runner)->out, SPOILT, bytes, g->gpu.stream), "cuMemsetD8Async");
    if (kind_of(g) == PEAL_BROADCAST && g->team->rank != 0)
        return;
    if (kind_of(g) == PEAL_ALLGATHER && g->inplace)
        for (size_t at = 0; at < bytes; at += g->stride)
            peali_bench_gpu_copy(&g->gpu, in + at, given + at, g->part);
    else
        peali_bench_gpu_copy(&g->gpu, in, given, bytes);
}

static void check(const peali_gpu_race *g, int which)
{
    const peali_runner *runner = &g->race->runners[which];
    peal_kind kind = kind_of(g);
    int parts = kind == PEAL_ALLGATHER ? g->team->nranks : 1;
    if (!g->race->flags->check || (kind == PEAL_REDUCE && g->team->rank != 0))
        return;
    for (int r = 0; r < parts; r++) {
        size_t own = kind == PEAL_REDUCE_SCATTER ? (size_t)g->team->rank * g->part : 0;
        peali_bench_places places = {
            .have = to(g, runner) + (size_t)r * g->part, .want = g->wanted + shift(g) + rank_shift(g, r) + own,
            .bytes = peali_race_parts(g->race) > 1 ? g->part : g->vector, .stride = g->stride,
            .slots = (size_t)calls_of(g, runner),
        };
        peali_bench_gpu_differ(&g->gpu, &places, g->wrong + 8 * (size_t)which);
    }
}

static void fill_tables(peali_gpu_race *g)
{
    peali_pattern p;
    bool all = combines(g);
    size_t bytes = g->area + (size_t)(PEALI_PATTERN_PERIOD + g->team->nranks) * g->elem;
    size_t table = PEALI_PATTERN_PERIOD * PEALI_PATTERN_REPEAT * g->elem;
    if (!peali_pattern_create(&p, all ? g->team->rank : 0, all ? g->team->nranks : 1, g->type, g->op))
        peali_race_fail(g->team, "pattern", "no memory");
    peali_bench_gpu_tile(&g->gpu, g->given, bytes, p.mine, table);
    peali_bench_gpu_tile(&g->gpu, g->wanted, bytes, p.result, table);
    peali_pattern_destroy(&p);
}

/* Turns. */

/* A graph of the first CALLS calls of a turn. Nobody is between its calls while another captures: NCCL's ranks meet in some. */
static peali_cu_graph capture(const peali_gpu_race *g, const peali_runner *runner, int calls)
{
    peali_cu_graph graph = NULL;
    force(g, runner);
    peali_bench_gpu_wait(&g->gpu);
    g->team->barrier(g->team);
    peali_bench_must(&g->gpu, g->gpu.cu->StreamBeginCapture(g->gpu.stream, PEALI_CU_CAPTURE_THREAD), "cuStreamBeginCapture");
    for (int i = 0; i < calls; i++)
        call(g, runner, i);
    peali_bench_must(&g->gpu, g->gpu.cu->StreamEndCapture(g->gpu.stream, &graph), "cuStreamEndCapture");
    g->team->barrier(g->team);
    return graph;
}

static void prepare_graph(peali_gpu_race *g, int which)
{
    const peali_runner *runner = &g->race->runners[which];
    int calls = runner->graph ? calls_of(g, runner) : 1;
    peali_cu_graph graph = capture(g, runner, calls);
    g->ctas[which] = (int)peali_bench_gpu_ctas(&g->gpu, graph);
    if (runner->graph)
        peali_bench_must(&g->gpu, g->gpu.cu->GraphInstantiateWithFlags(&g->graphs[which], graph, 0), "cuGraphInstantiate");
    peali_bench_must(&g->gpu, g->gpu.cu->GraphDestroy(graph), "cuGraphDestroy");
    g->team->barrier(g->team);
}

static void enqueue(const peali_gpu_race *g, int which)
{
    const peali_runner *runner = &g->race->runners[which];
    if (runner->graph)
        peali_bench_must(&g->gpu, g->gpu.cu->GraphLaunch(g->graphs[which], g->gpu.stream), "cuGraphLaunch");
    for (int i = 0; i < calls_of(g, runner) && !runner->graph; i++)
        call(g, runner, i);
}

/* Rewrite, meet, time, verify. US: microseconds of one call, by each clock. */
static void turn(peali_gpu_race *g, int which, double *us)
{
    const peali_runner *runner = &g->race->runners[which];
    const peali_cuda_driver *cu = g->gpu.cu;
    float ms = 0;
    force(g, runner);
    give(g, runner);
    peali_bench_gpu_wait(&g->gpu);
    g->team->barrier(g->team);
    int64_t start = peali_clock_ns();
    peali_bench_must(&g->gpu, cu->EventRecord(g->gpu.before, g->gpu.stream), "cuEventRecord");
    int64_t first = peali_clock_ns();
    enqueue(g, which);
    int64_t last = peali_clock_ns();
    peali_bench_must(&g->gpu, cu->EventRecord(g->gpu.after, g->gpu.stream), "cuEventRecord");
    peali_bench_gpu_wait(&g->gpu);
    int64_t end = peali_clock_ns();
    peali_bench_must(&g->gpu, cu->EventElapsedTime(&ms, g->gpu.before, g->gpu.after), "cuEventElapsedTime");
    us[EVENTS] = ms * 1e3 / calls_of(g, runner);
    us[HOST] = (double)(end - start) / 1e3 / calls_of(g, runner);
    us[ENQUEUE] = (double)(last - first) / 1e3 / calls_of(g, runner);
    check(g, which);
    g->turns++;
}

/*
 * The first rounds, which make plans and connections, are of calls: no graph is there yet. They do not count towards how long one
 * takes.
 */
static int warm(peali_gpu_race *g)
{
    int rounds = g->race->flags->warmup > 1 ? g->race->flags->warmup : 1;
    double us[CLOCKS];
    for (int i = 0; i < g->race->nrunners; i++)
        for (int k = 0; k < (g->race->runners[i].peal ? MAPPING_TURNS : 1) && !g->race->runners[i].graph; k++)
            turn(g, i, us);
    for (int i = 0; i < g->race->nrunners; i++)
        prepare_graph(g, i);
    int64_t start = peali_clock_ns();
    for (int w = 0; w < rounds; w++)
        for (int i = 0; i < g->race->nrunners; i++)
            turn(g, i, us);
    return peali_race_iters(g->race, (double)(peali_clock_ns() - start), rounds);
}

/* Scores. */

static void count_wrong(peali_gpu_race *g, double *elements)
{
    uint64_t bytes[PEALI_RUNNERS];
    peali_bench_gpu_copy(&g->gpu, (uintptr_t)bytes, g->wrong, sizeof bytes);
    peali_bench_gpu_wait(&g->gpu);
    for (int i = 0; i < g->race->nrunners; i++)
        elements[i] = (double)((bytes[i] + g->elem - 1) / g->elem);
    g->team->max(g->team, elements, g->race->nrunners);
}

/* SAMPLES: ITERS by each clock. */
static peali_row score(const peali_gpu_race *g, int which, double *samples, int iters)
{
    const peali_runner *runner = &g->race->runners[which];
    peali_row row = {
        .bytes = g->vector, .count = g->count, .type = g->type, .op = g->op, .inplace = g->inplace, .impl = runner->impl,
        .variant = runner->variant, .mode = runner->graph ? "graph" : "eager", .buffers = runner->buffers,
        .chosen = runner->peal && strcmp(runner->variant, "auto") == 0, .calls = calls_of(g, runner), .ctas = g->ctas[which],
    };
    row.host_us = peali_median(samples + HOST * iters, iters);
    row.enqueue_us = peali_median(samples + ENQUEUE * iters, iters);
    peali_row_times(&row, g->race, samples, iters);
    row.link = g->race->gpu->link > 0 ? row.busbw / g->race->gpu->link : 0;
    return row;
}

static void time_all(peali_gpu_race *g, double *samples, int iters)
{
    double us[CLOCKS];
    for (int k = 0; k < iters; k++)
        for (int i = 0; i < g->race->nrunners; i++) {
            turn(g, i, us);
            for (int c = 0; c < CLOCKS; c++)
                samples[(size_t)((i * CLOCKS + c) * iters + k)] = us[c];
        }
    g->team->max(g->team, samples, g->race->nrunners * CLOCKS * iters);
}

/* The largest error of this rank's results. */
static double worst_ulp(const peali_gpu_race *g, const peali_runner *runner, const peali_ulp *ulp)
{
    size_t first = kind_of(g) == PEAL_REDUCE_SCATTER ? (size_t)g->team->rank * g->count : 0;
    bool none = kind_of(g) == PEAL_REDUCE && g->team->rank != 0;
    return none ? 0 : peali_bench_gpu_ulp(&g->gpu, ulp, to(g, runner), first, g->count);
}

/* One more turn of each runner, whose first call is on data that rounds; ERRORS has one for each. */
static void measure_ulps(peali_gpu_race *g, double *errors)
{
    peali_ulp ulp;
    if (!peali_ulp_create(&ulp, g->team->rank, g->team->nranks, g->type, g->op))
        peali_race_fail(g->team, "--ulp", "no memory");
    for (int i = 0; i < g->race->nrunners; i++) {
        const peali_runner *runner = &g->race->runners[i];
        force(g, runner);
        peali_bench_gpu_tile(&g->gpu, from(g, runner), g->vector, ulp.mine, PEALI_ULP_PERIOD * g->elem);
        g->team->barrier(g->team);
        enqueue(g, i);
        errors[i] = worst_ulp(g, runner, &ulp);
    }
    g->team->max(g->team, errors, g->race->nrunners);
    peali_ulp_destroy(&ulp);
}

static void report(peali_gpu_race *g, double *samples, int iters)
{
    double wrong[PEALI_RUNNERS], ulps[PEALI_RUNNERS] = {0};
    peali_race *race = g->race;
    count_wrong(g, wrong);
    if (peal_comm_error(g->team->comm) != PEAL_OK)
        peali_race_fail(g->team, "peal", peal_status_text(peal_comm_error(g->team->comm)));
    if (race->flags->ulp)
        measure_ulps(g, ulps);
    for (int i = 0; i < race->nrunners; i++) {
        peali_row row = score(g, i, samples + (size_t)i * CLOCKS * (size_t)iters, iters);
        row.ulp = ulps[i];
        row.wrong = wrong[i];
        row.verified = race->flags->check && wrong[i] == 0;
        peali_race_keep(race, row);
        if (g->team->rank == 0 && g->print)
            g->print(race, &race->rows[race->nrows - 1]);
    }
}

static void run_size(void *arg, size_t count, bool inplace)
{
    peali_gpu_race *g = arg;
    const peali_flags *f = g->race->flags;
    g->count = count;
    g->inplace = inplace;
    g->part = count * g->elem;
    g->vector = g->part * peali_race_parts(g->race);
    g->stride = (g->vector + EDGE - 1) / EDGE * EDGE;
    if (count == 0)
        return;
    size_t fit = g->area / g->stride, most = (size_t)(f->graph > f->calls ? f->graph : f->calls);
    g->places = (int)(fit < most ? fit : most);
    peali_bench_must(&g->gpu, g->gpu.cu->MemsetD8Async(g->wrong, 0, 8 * PEALI_RUNNERS, g->gpu.stream), "cuMemsetD8Async");
    int iters = warm(g);
    double *samples = calloc((size_t)g->race->nrunners * CLOCKS * (size_t)iters, sizeof *samples);
    if (!samples)
        peali_race_fail(g->team, "samples", "no memory");
    time_all(g, samples, iters);
    report(g, samples, iters);
    free(samples);
    for (int i = 0; i < g->race->nrunners; i++)
        if (g->race->runners[i].graph)
            peali_bench_must(&g->gpu, g->gpu.cu->GraphExecDestroy(g->graphs[i]), "cuGraphExecDestroy");
    g->team->barrier(g->team);
}

/* What kernels of Peal, and NCCL where it is raced, combine. */
static bool takes(const peali_gpu_race *g, peal_type type, peal_op op)
{
    bool complex = type == PEAL_COMPLEX_FLOAT || type == PEAL_COMPLEX_DOUBLE;
    bool quad = type == PEAL_LONG_DOUBLE || type == PEAL_COMPLEX_LONG_DOUBLE;
    return !quad && !(complex && op == PEAL_PROD) && (!g->nccl || (peali_nccl_type(type) >= 0 && peali_nccl_op(op) >= 0));
}

static void run_type(void *arg, peal_type type, peal_op op)
{
    peali_gpu_race *g = arg;
    if (!takes(g, type, op))
        return;
    g->type = type;
    g->op = op;
    g->elem = peal_type_bytes(type);
    fill_tables(g);
    peali_race_sizes(g->race, g->elem, &(peali_race_visit){.size = run_size, .arg = g});
}

int peali_gpu_race_run(peali_gpu_race *g, void (*print)(const peali_race *race, const peali_row *row))
{
    g->print = print;
    peali_race_types(g->race, &(peali_race_visit){.type = run_type, .arg = g});
    if (g->race->nrows == 0 && g->team->rank == 0)
        fprintf(stderr, "peal bench: none of these types, ops and sizes is for GPUs%s\n", g->nccl ? " and NCCL" : "");
    double wrong = g->race->nrows == 0;
    for (int i = 0; i < g->race->nrows; i++)
        wrong += g->race->rows[i].wrong;
    return wrong > 0;
}

/* Sides. */

static void enter(peali_race *race, peali_runner runner, const char *buffers)
{
    runner.buffers = buffers;
    for (int graph = 0; graph < (race->flags->graph ? 2 : 1); graph++) {
        runner.graph = graph == 1;
        snprintf(runner.label, sizeof runner.label, "%s%s%.20s%s", runner.peal ? "" : runner.impl, runner.peal ? "" : " ",
                 runner.variant, graph ? " graph" : "");
        peali_race_enter(race, runner);
    }
}

static void enter_all(const peali_gpu_race *g)
{
    peali_race *race = g->race, peal = {.flags = race->flags, .team = race->team};
    peali_race_algos(&peal);
    for (int i = 0; i < peal.nrunners; i++)
        enter(race, peal.runners[i], race->flags->registered ? "registered" : "plain");
    for (int m = 0; m < MODES && g->nccl; m++)
        if (g->peers[m].comm)
            enter(race, (peali_runner){.impl = "nccl", .variant = modes[m].name}, modes[m].buffers);
}

static peali_nccl_result enlist(peali_gpu_race *g, int mode, int area)
{
    struct peer *p = &g->peers[mode];
    void *at = (void *)(uintptr_t)(area ? g->nccls.out : g->nccls.in);
    if (mode == PLAIN)
        return 0;
    if (mode == REGISTERED)
        return g->nccl->CommRegister(p->comm, at, g->area, &p->handles[area]);
    return g->nccl->CommWindowRegister(p->comm, at, g->area, &p->windows[area], PEALI_NCCL_SYMMETRIC);
}

/* One communicator, which is told of the registered areas in its mode's way. Where NCCL refuses that, the race goes on without. */
static void open_peer(peali_gpu_race *g, int mode)
{
    struct peer *p = &g->peers[mode];
    const peali_nccl *n = g->nccl;
    peali_nccl_id id;
    double refused = 0;
    if (g->team->rank == 0)
        must_nccl(g, n->GetUniqueId(&id), "ncclGetUniqueId", NULL);
    if (peal_broadcast(&id, sizeof id, PEAL_BYTE, 0, g->team->comm, NULL) != PEAL_OK)
        peali_race_fail(g->team, "NCCL", "the ranks cannot meet");
    must_nccl(g, n->CommInitRank(&p->comm, g->team->nranks, id, g->team->rank), "ncclCommInitRank", NULL);
    for (int i = 0; i < 2; i++)
        refused += enlist(g, mode, i) != 0;
    g->team->max(g->team, &refused, 1);
    if (refused == 0)
        return;
    if (g->team->rank == 0)
        printf("# without nccl %s: it refuses to register buffers: %s\n", modes[mode].name, n->GetLastError(p->comm));
    must_nccl(g, n->CommDestroy(p->comm), "ncclCommDestroy", NULL);
    p->comm = NULL;
}

static void close_peer(peali_gpu_race *g, int mode)
{
    struct peer *p = &g->peers[mode];
    for (int i = 0; i < 2 && p->comm && mode != PLAIN; i++)
        if (mode == REGISTERED)
            must_nccl(g, g->nccl->CommDeregister(p->comm, p->handles[i]), "ncclCommDeregister", p->comm);
        else
            must_nccl(g, g->nccl->CommWindowDeregister(p->comm, p->windows[i]), "ncclCommWindowDeregister", p->comm);
    if (p->comm)
        must_nccl(g, g->nccl->CommDestroy(p->comm), "ncclCommDestroy", NULL);
}

static peali_cu_ptr alloc_nccl(const peali_gpu_race *g)
{
    void *at = NULL;
    must_nccl(g, g->nccl->MemAlloc(&at, g->area), "ncclMemAlloc (lower -e?)", NULL);
    return (uintptr_t)at;
}

static void open_nccl(peali_gpu_race *g)
{
    g->nccls = (struct areas){alloc_nccl(g), alloc_nccl(g)};
    for (int mode = 0; mode < MODES; mode++)
        if (mode != SYMMETRIC || g->nccl->CommWindowRegister)
            open_peer(g, mode);
}

/* Room for the longest call, or for all calls of a turn where that is less than ROOM. */
static size_t area_of(const peali_flags *f)
{
    size_t one = (f->max_bytes + EDGE - 1) / EDGE * EDGE, all = one * (size_t)(f->graph > f->calls ? f->graph : f->calls);
    return all < ROOM ? all : one > ROOM ? one : ROOM;
}

static void open_memory(peali_gpu_race *g)
{
    size_t spare = (size_t)(PEALI_PATTERN_PERIOD + g->team->nranks) * 16; /* of 16 bytes is the longest element */
    g->area = area_of(g->race->flags);
    g->given = peali_bench_gpu_alloc(&g->gpu, g->area + spare);
    g->wanted = peali_bench_gpu_alloc(&g->gpu, g->area + spare);
    g->wrong = peali_bench_gpu_alloc(&g->gpu, 8 * PEALI_RUNNERS);
    g->plain = (struct areas){peali_bench_gpu_alloc(&g->gpu, g->area), peali_bench_gpu_alloc(&g->gpu, g->area)};
    for (int i = 0; i < 2 && g->race->flags->registered; i++) {
        peal_status status = peal_register(g->team->comm, (void *)(uintptr_t)(i ? g->plain.out : g->plain.in), g->area);
        if (status != PEAL_OK)
            peali_race_fail(g->team, "peal_register", peal_status_text(status));
    }
}

peali_gpu_race *peali_gpu_race_open(peali_race *race, int device, const peali_nccl *nccl, peali_race_gpu *gpu)
{
    peali_gpu_race *g = calloc(1, sizeof *g);
    if (!g)
        peali_race_fail(race->team, "race", "no memory");
    g->race = race;
    g->team = race->team;
    g->nccl = nccl;
    peali_bench_gpu_open(&g->gpu, race->team, device);
    gpu->link = peali_bench_gpu_link(&g->gpu);
    peali_bench_must(&g->gpu, g->gpu.cu->DeviceGetName(gpu->name, sizeof gpu->name, device), "cuDeviceGetName");
    race->gpu = gpu;
    open_memory(g);
    if (nccl)
        open_nccl(g);
    enter_all(g);
    return g;
}

void peali_gpu_race_close(peali_gpu_race **race)
{
    peali_gpu_race *g = *race;
    peali_bench_gpu_wait(&g->gpu);
    for (int mode = 0; mode < MODES; mode++)
        close_peer(g, mode);
    for (int i = 0; i < 2 && g->nccl; i++)
        must_nccl(g, g->nccl->MemFree((void *)(uintptr_t)(i ? g->nccls.out : g->nccls.in)), "ncclMemFree", NULL);
    for (int i = 0; i < 2 && g->race->flags->registered; i++)
        if (peal_deregister(g->team->comm, (void *)(uintptr_t)(i ? g->plain.out : g->plain.in)) != PEAL_OK)
            peali_race_fail(g->team, "peal_deregister", "refused");
    const peali_cu_ptr own[] = {g->given, g->wanted, g->wrong, g->plain.in, g->plain.out};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        peali_bench_gpu_free(&g->gpu, own[i]);
    peali_bench_gpu_close(&g->gpu);
    free(g);
    *race = NULL;
}
