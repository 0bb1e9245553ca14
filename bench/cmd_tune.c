/*
 * peal tune: a plain sweep. At each size every algorithm that fits runs in one slice and, large messages, in several sizes of them;
 * the best of that first look run again, longer. Only verified results count. Ranks decide alike, for times are maxima over them.
 */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "commands.h"
#include "comm/comm.h"
#include "tune.h"

enum {
    BUDGET_S = 100,           /* a step that would end later is left out, and the row before it holds on */
    LEAST_K = 4, MOST_K = 64, /* slices: fewer hide nothing, more cost more than they hide */
    LEAST_SLICE = 64 << 10, MOST_SLICE = 4 << 20,
    SPARE_STEPS = 8,          /* for those of the table in use */
    FINALISTS = 6, MOST_CALLS = 200, LEAST_CALLS = 5,
    F_THREADS = 256, F_MEM,
};
static const double CLOSE = 1.05; /* as good as the best: then what the size before took stays */
static const double LONGEST = 1ll << 40; /* bytes: beyond these the table in use is not asked */
static const double HOPELESS = 2; /* times the best in the first look */
static const double FINAL_S = 0.8; /* what the finalists' calls may take together, where they are not LEAST_CALLS */

typedef struct request {
    peali_flags flags; /* sizes, factor, iters, threads */
    unsigned kinds;    /* bit per peal_kind */
    const char *file;
} request;

typedef struct sweep {
    const request *q;
    peali_team *team;
    peali_tune_result result;
    double start_s, step_s[PEALI_TUNING_KINDS]; /* of the last size */
    bool wrong, late[PEALI_TUNING_KINDS];
} sweep;

static void usage(FILE *to)
{
    fputs("usage: mpirun -n RANKS peal tune [COLLECTIVE...] [flags], or peal tune --threads RANKS [COLLECTIVE...] [flags]\n"
          "  -o FILE              merge the rows into FILE, a table for PEAL_TUNING (they are printed)\n"
          "  -b SIZE, -e SIZE     first and last size, in bytes or with K, M, G (16, 64M); what is quickest at the last one is\n"
          "                       taken for all that are longer\n"
          "  -f X                 each size is X times the one before (4), 1.5 at least\n"
          "  -n N                 timed calls of each finalist (5 to 200, as time allows)\n"
          "  --mem host|shared    buffers of malloc, or of peal_mem_alloc, which have rows of their own: direct (host)\n"
          "  --threads N          ranks are N threads of this process (they are MPI processes)\n"
          "  -h, --help           this text\n"
          "COLLECTIVE (all):", to);
    for (int k = 0; k < PEALI_TUNING_KINDS; k++)
        fprintf(to, " %s", peal_kind_name((peal_kind)k));
    fputc('\n', to);
}

static int misuse(const char *what, const char *text)
{
    if (peali_flags_first()) {
        fprintf(stderr, "peal tune: %s '%s'\n", what, text);
        usage(stderr);
    }
    return 2;
}

static bool number(const char *text, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    return *text && !*end && value >= 1 && value <= 1000000;
}

static bool set(request *q, int code, const char *text)
{
    switch (code) {
    case 'o': q->file = text; return *text && strlen(text) < 1024;
    case 'b': return (q->flags.min_bytes = peali_flags_size(text)) > 0;
    case 'e': return (q->flags.max_bytes = peali_flags_size(text)) > 0;
    case 'f': return (q->flags.factor = peali_flags_real(text)) >= 1.5;
    case 'n': return number(text, &q->flags.iters);
    case F_MEM: return (q->flags.shared = strcmp(text, "shared") == 0) || strcmp(text, "host") == 0;
    default: return number(text, &q->flags.threads);
    }
}

/* -1, or the exit code where that was all. */
static int parse(request *q, int argc, char **argv)
{
    static const struct option longs[] = {{"threads", required_argument, NULL, F_THREADS}, {"mem", required_argument, NULL, F_MEM},
                                          {"help", no_argument, NULL, 'h'}, {0}};
    char word[PEALI_FLAGS_WORD], sizes[PEALI_FLAGS_ORDER];
    int code;
    opterr = 0;
    optind = 1;
    while ((code = getopt_long(argc, argv, ":o:b:e:f:n:h", longs, NULL)) != -1) {
        if (code == 'h') {
            if (peali_flags_first())
                usage(stdout);
            return 0;
        }
        if (code == '?' || code == ':')
            return misuse(code == ':' ? "a value is missing after" : "unknown flag", peali_flags_stop(argv, word));
        if (!set(q, code, optarg))
            return misuse(peali_flags_wrong(argv, word), optarg);
    }
    for (int i = optind; i < argc; i++) {
        int kind = peali_tuning_kind(argv[i]);
        if (kind < 0)
            return misuse("no collective", argv[i]);
        q->kinds |= 1u << kind;
    }
    q->kinds = q->kinds ? q->kinds : (1u << PEALI_TUNING_KINDS) - 1;
    if (q->flags.min_bytes <= q->flags.max_bytes)
        return -1;
    return misuse("the last size (-e) is below the first (-b):", peali_flags_order(q->flags.max_bytes, q->flags.min_bytes, sizes));
}

static bool has_levels(const char *algo)
{
    return strncmp(algo, "hierarchical", strlen("hierarchical")) == 0;
}

/* One slice is forced too: the table in use must not decide. */
static void enter_algo(peali_race *race, const peal_algo *algo, size_t bytes)
{
    peali_race_enter(race, (peali_runner){.impl = "peal", .variant = algo->name, .peal = true, .slice_bytes = SIZE_MAX});
    for (size_t slice = LEAST_SLICE; slice <= MOST_SLICE && slice <= bytes / LEAST_K; slice *= 4)
        if (bytes / slice <= MOST_K)
            peali_race_enter(race, (peali_runner){.impl = "peal", .variant = algo->name, .peal = true, .slice_bytes = slice});
}

static void enter_all(const sweep *s, peali_race *race, peal_kind kind, size_t bytes)
{
    const peal_problem problem = peali_comm_asks(s->team->comm, kind);
    bool levels = peal_comm_nodes(s->team->comm) > 1;
    for (int i = 0; peali_algos[i]; i++)
        if (peali_algo_fits(peali_algos[i], &problem) && (levels || !has_levels(peali_algos[i]->name)))
            enter_algo(race, peali_algos[i], bytes);
}

static void run(peali_race *race, size_t bytes, int iters, int warmup)
{
    peali_flags flags = *race->flags;
    flags.iters = iters;
    flags.warmup = warmup;
    peali_race view = *race;
    view.flags = &flags;
    peali_race_heat(&view, bytes);
    race->rows = view.rows;
    race->nrows = view.nrows;
}

static double best_of(const peali_race *race)
{
    double best = INFINITY;
    for (int i = 0; i < race->nrows; i++)
        if (race->rows[i].verified && race->rows[i].median_us < best)
            best = race->rows[i].median_us;
    return best;
}

/* Keeps the best runners: of those without levels too, which are the fallback. */
static void keep_finalists(peali_race *race)
{
    double most = HOPELESS * best_of(race);
    peali_runner kept[PEALI_RUNNERS];
    int n = 0;
    for (int level = 0; level < 2; level++)
        for (int i = 0; i < race->nrunners; i++) {
            const peali_row *row = &race->rows[i];
            int better = 0;
            if (has_levels(row->variant) != (level == 1) || !row->verified || (level == 1 && row->median_us > most))
                continue;
            for (int j = 0; j < race->nrunners; j++)
                better += has_levels(race->rows[j].variant) == (level == 1) && race->rows[j].verified &&
                          race->rows[j].median_us < row->median_us;
            if (better < FINALISTS && (row->median_us <= most || better == 0))
                kept[n++] = race->runners[i];
        }
    memcpy(race->runners, kept, sizeof kept);
    race->nrunners = n;
}

/* The best runner, or the one that BEFORE has where it is as good. */
static peali_tune_pick pick(const peali_race *race, bool levels, const peali_tune_pick *before)
{
    peali_tune_pick best = {.us = INFINITY};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < race->nrows; i++) {
            const peali_row *row = &race->rows[i];
            size_t forced = race->runners[i].slice_bytes, slice = forced == SIZE_MAX ? 0 : forced;
            peali_tune_pick one = {peali_algo_find(race->flags->kind, row->variant), slice, row->median_us};
            bool stays = before && one.algo == before->algo && slice == before->slice_bytes && one.us <= best.us * CLOSE;
            if (row->verified && (levels || !has_levels(row->variant)) && (pass == 0 ? one.us < best.us : stays))
                best = one;
        }
    return best;
}

static double now_s(const sweep *s)
{
    double now = (double)peali_clock_ns() / 1e9 - s->start_s;
    s->team->max(s->team, &now, 1);
    return now;
}

/* How often each finalist is called, by what a call took in the first look, preparation and check included. */
static int final_calls(const sweep *s, const peali_race *race, double call_s)
{
    double fit = FINAL_S / (call_s * race->nrunners + 1e-9);
    if (s->q->flags.iters)
        return s->q->flags.iters;
    return fit < LEAST_CALLS ? LEAST_CALLS : fit > MOST_CALLS ? MOST_CALLS : (int)fit;
}

/* A first look at all, then the finalists. */
static void tune_size(sweep *s, peal_kind kind, size_t bytes)
{
    peali_flags flags = s->q->flags;
    flags.kind = kind;
    peali_race race = {.flags = &flags, .team = s->team};
    int small = bytes <= 64 << 10, look = small ? 10 : bytes <= 1 << 20 ? 5 : 1;
    int n = s->result.nsteps[kind];
    peali_tune_step *step = &s->result.steps[kind][n];
    enter_all(s, &race, kind, bytes);
    double start = now_s(s);
    run(&race, bytes, look, small);
    double call_s = (now_s(s) - start) / (race.nrunners + 1) / (look + 1); /* and the call that agrees on the bits */
    for (int i = 0; i < race.nrows; i++)
        s->wrong |= race.rows[i].wrong > 0;
    keep_finalists(&race);
    run(&race, bytes, final_calls(s, &race, call_s), small);
    *step = (peali_tune_step){bytes, pick(&race, true, n ? &step[-1].best : NULL), pick(&race, false, n ? &step[-1].flat : NULL)};
    if (race.nrows)
        s->result.nsteps[kind]++;
    if (s->team->rank == 0 && race.nrows)
        fprintf(stderr, "# %s %zu bytes: %s, slices of %zu, %.1f us; %d finalists\n", peal_kind_name(kind), bytes,
                step->best.algo->name, step->best.slice_bytes, step->best.us, race.nrunners);
    peali_race_end(&race);
}

/* What the table in use takes for PROBLEM. */
static peali_tune_pick tabled(const sweep *s, const peal_problem *problem, size_t bytes)
{
    const int nhosts = strcmp(s->result.transport, "hosts") == 0 ? s->result.ranks : 1;
    const bool direct = strcmp(s->result.transport, "direct") == 0;
    const peali_tuning_span span = (direct ? peali_tuning_find_seen : peali_tuning_find)(
        peali_tuning_get(), problem->kind, peal_comm_transport(s->team->comm), problem->nranks, nhosts);
    const peali_tuning_choice choice = peali_tuning_choose(span, problem, bytes);
    return (peali_tune_pick){choice.algo, choice.slice_bytes, 0};
}

/* What the table in use takes for BYTES, in place of a measurement, where any was made. */
static void take_tabled(sweep *s, peal_kind kind, size_t bytes)
{
    const peal_problem problem = peali_comm_asks(s->team->comm, kind), flat = {.kind = kind, .nranks = problem.nranks, .nnodes = 1};
    const peali_tune_step step = {bytes, tabled(s, &problem, bytes), tabled(s, &flat, bytes)};
    const int n = s->result.nsteps[kind];
    peali_tune_step *steps = s->result.steps[kind];
    if (n && peali_tune_same(&steps[n - 1], &step))
        steps[n - 1].bytes = bytes;
    else if (n && n < PEALI_TUNE_STEPS)
        steps[s->result.nsteps[kind]++] = step;
}

static void give_up(sweep *s, peal_kind kind, size_t bytes)
{
    s->late[kind] = true;
    if (s->team->rank == 0)
        fprintf(stderr, "# %s from %zu bytes: no time left to measure; as the table in use has it\n", peal_kind_name(kind), bytes);
}

/* Below 1 MiB a size takes about as long as the one before, beyond it FACTOR times as long at most. */
static void tune_step(sweep *s, peal_kind kind, size_t bytes)
{
    double now = now_s(s), next_s = s->step_s[kind] * (bytes > 1 << 20 ? s->result.factor : 1);
    if (!s->late[kind] && (now + next_s > BUDGET_S || s->result.nsteps[kind] == PEALI_TUNE_STEPS - SPARE_STEPS))
        give_up(s, kind, bytes);
    if (s->late[kind]) {
        take_tabled(s, kind, bytes);
        return;
    }
    tune_size(s, kind, bytes);
    s->step_s[kind] = now_s(s) - now;
}

/* A collective whose last sizes were not measured has the rows of the table in use beyond them, too. */
static void tune_beyond(sweep *s, double bytes)
{
    for (; bytes < LONGEST; bytes *= s->result.factor)
        for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
            if (s->late[kind])
                take_tabled(s, (peal_kind)kind, (size_t)bytes);
}

static bool measured(const sweep *s)
{
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        if (s->result.nsteps[kind])
            return true;
    if (s->team->rank == 0)
        fprintf(stderr, "peal tune: nothing to measure: no size from -b to -e has an element (%zu bytes) for each of %d ranks\n",
                sizeof(float), s->team->nranks);
    return false;
}

/* Prints and writes what was found; the exit code. */
static int finish(const sweep *s)
{
    const char *file = s->q->file;
    if (s->team->rank != 0)
        return s->wrong;
    peali_tune_print(&s->result, stdout);
    bool written = !file || peali_tune_merge(&s->result, file);
    if (s->wrong)
        fprintf(stderr, "peal tune: some results were wrong, and do not count; `peal bench --algo all` shows them\n");
    return s->wrong || !written;
}

static int tune(peali_team *team, void *arg)
{
    const request *q = arg;
    sweep *s = calloc(1, sizeof *s);
    if (!s)
        team->quit(team);
    *s = (sweep){.q = q, .team = team, .start_s = (double)peali_clock_ns() / 1e9};
    s->result.team = team;
    s->result.transport = peal_comm_transport(team->comm);
    s->result.ranks = team->nranks;
    if (strcmp(s->result.transport, "shm") == 0) {
        s->result.transport = q->flags.shared ? "direct" : "shm";
    } else if (peal_comm_nodes(team->comm) > 1) {
        s->result.transport = "hosts";
        s->result.ranks = peal_comm_nodes(team->comm);
    }
    s->result.factor = q->flags.factor;
    double bytes = (double)q->flags.min_bytes;
    for (; bytes <= (double)q->flags.max_bytes; bytes *= q->flags.factor)
        for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
            if (q->kinds >> kind & 1 && (size_t)bytes >= sizeof(float) * (size_t)team->nranks)
                tune_step(s, (peal_kind)kind, (size_t)bytes);
    tune_beyond(s, bytes);
    int result = measured(s) ? finish(s) : 2;
    free(s);
    return result;
}

/* The file must be a table before it is merged with; and what takes long to measure can be written in the end. */
static int check_file(const request *q)
{
    static peali_tuning tuning; /* too large for a stack; one command is one process */
    char why[PEALI_TUNING_WHY];
    if (q->file && peali_flags_first() && !peali_tune_may_merge(q->file))
        return 2;
    FILE *file = q->file ? fopen(q->file, "r") : NULL;
    if (!file)
        return -1;
    fclose(file);
    if (peali_tuning_read(q->file, &tuning, why))
        return -1;
    if (peali_flags_first())
        fprintf(stderr, "peal tune: %s is no tuning table: %s\n", q->file, why);
    return 2;
}

int peali_cmd_tune(int argc, char **argv)
{
    request q = {.flags = {.min_bytes = 16, .max_bytes = 64 << 20, .factor = 4, .check = true}};
    int code = parse(&q, argc, argv);
    if (code == -1)
        code = check_file(&q);
#ifdef PEALI_BENCH_MPI
    const char *why = code == -1 ? peali_flags_crowd("--threads", q.flags.threads) : "";
    if (why && code != 0 && peali_flags_launched())
        return peali_team_mpi("tune", why, NULL, NULL);
#endif
    if (code != -1)
        return code;
    if (q.flags.threads)
        return peali_team_threads(q.flags.threads, tune, &q);
#ifdef PEALI_BENCH_MPI
    return peali_team_mpi("tune", NULL, tune, &q);
#else
    return misuse("built without MPI, so ranks are threads: give", "--threads N");
#endif
}
