/*
 * check over all algorithms: which problems are tried, and one line for each algorithm.
 *
 * Node maps are tried for algorithms that look at them, which is found by building: an algorithm whose schedules for small n are
 * the same on every map is proved on one node.
 */
#include "study/check.h"

#include <string.h>

#include "base/arena.h"

enum { MAPS = 11, PROBE_RANKS = 9, LARGE_RANKS = 4096, LARGE_OPS = 4000000 };

typedef struct tally {
    FILE *out;
    const peal_algo *algo;
    int64_t schedules, problems;
    int maps, maps_here, max_ranks;
    int *node; /* LARGE_RANKS */
} tally;

/* Ranks on node I of map MAP; maps from 1 on: even nodes of several sizes, then uneven ones. */
static int node_size(int map, int i, int n)
{
    static const int even[] = {1, 2, 3, 4, 8, 16};
    if (map <= 6)
        return even[map - 1];
    if (map == 7)
        return (n + 1) / 2;
    if (map == 8)
        return i == 0 ? 1 : n;
    if (map == 9)
        return i + 1;
    return 1 + (int)(((unsigned)i * 2654435761u + (unsigned)n * 40503u) >> 7) % (map == 10 ? 7 : 3);
}

bool peali_check_deal(peal_problem *p, int map, int (*size_of)(int map, int i, int n), int *node)
{
    int at = 0;
    p->nnodes = 0;
    for (; at < p->nranks; p->nnodes++)
        for (int k = size_of(map, p->nnodes, p->nranks); k > 0 && at < p->nranks; k--)
            node[at++] = p->nnodes;
    p->node = node;
    return p->nnodes > 1;
}

/* Fills the node map MAP of the ranks of P (0: one node). False where that is no other than a map before it. */
static bool set_map(peal_problem *p, int map, int *node)
{
    p->nnodes = 1;
    p->node = NULL;
    return map == 0 || peali_check_deal(p, map, node_size, node);
}

static bool same_op(const peali_op *a, const peali_op *b)
{
    return a->verb == b->verb && a->lane == b->lane && a->dst == b->dst && a->src == b->src && a->peer == b->peer &&
           a->first == b->first && a->end == b->end;
}

static bool same_sched(const peal_sched *a, const peal_sched *b)
{
    if (a->nops != b->nops || a->nblocks != b->nblocks)
        return false;
    for (int i = 0; i < a->nops; i++)
        if (!same_op(&a->ops[i], &b->ops[i]))
            return false;
    return true;
}

/* True where RANK does the same in both problems, or where that cannot be built: the proof will say why. */
static bool same_build(const peal_algo *algo, const peal_problem *p, const peal_problem *q, int rank)
{
    peal_sched *a = NULL, *b = NULL;
    bool same = true;
    if (peali_sched_build(algo, p, rank, &a) == PEAL_OK && peali_sched_build(algo, q, rank, &b) == PEAL_OK)
        same = same_sched(a, b);
    peali_sched_free(&a);
    peali_sched_free(&b);
    return same;
}

static bool same_on_map(const tally *t, const peal_problem *flat, int map)
{
    peal_problem mapped = *flat;
    if (!set_map(&mapped, map, t->node))
        return true;
    bool fits = peali_algo_fits(t->algo, flat);
    if (fits != peali_algo_fits(t->algo, &mapped))
        return false;
    for (int r = 0; fits && r < flat->nranks; r++)
        if (!same_build(t->algo, flat, &mapped, r))
            return false;
    return true;
}

static bool reads_nodes(const tally *t)
{
    peal_problem flat = {.kind = t->algo->kind, .op = PEAL_SUM, .nnodes = 1};
    for (flat.nranks = 2; flat.nranks <= PROBE_RANKS; flat.nranks++)
        for (int map = 1; map < MAPS; map++)
            if (!same_on_map(t, &flat, map))
                return true;
    return false;
}

static bool prove(tally *t, const peal_problem *p)
{
    peali_check_report report;
    if (!t->algo->build || !t->algo->bill) {
        fprintf(t->out, "%s %s: no %s; README says what an algorithm has\n", peal_kind_name(t->algo->kind), t->algo->name,
                t->algo->build ? "bill" : "build");
        return false;
    }
    if (!peali_algo_fits(t->algo, p))
        return true;
    peal_status status = peali_check(t->algo, p, &report);
    if (status != PEAL_OK)
        fprintf(t->out, "%s\n", status == PEAL_ERR_MEMORY ? "no memory" : report.why);
    t->schedules += p->nranks;
    t->problems++;
    t->maps_here++;
    if (p->nranks > t->max_ranks)
        t->max_ranks = p->nranks;
    return status == PEAL_OK;
}

/* Small n: every root. Large n: the first two, the middle and the last. */
static int next_root(const peal_problem *p)
{
    if (p->kind != PEAL_BROADCAST && p->kind != PEAL_REDUCE)
        return p->nranks;
    if (p->nranks <= PEALI_CHECK_EXACT || p->root == 0)
        return p->root + 1;
    return p->root < p->nranks / 2 ? p->nranks / 2 : p->root < p->nranks - 1 ? p->nranks - 1 : p->nranks;
}

static bool prove_ranks(tally *t, int n, int maps)
{
    peal_problem p = {.kind = t->algo->kind, .op = PEAL_SUM, .nranks = n};
    for (p.root = 0; p.root < n; p.root = next_root(&p)) {
        t->maps_here = 0;
        for (int map = 0; map < maps; map++)
            if (set_map(&p, map, t->node) && !prove(t, &p))
                return false;
        if (t->maps_here > t->maps)
            t->maps = t->maps_here;
    }
    return true;
}

/* False where all schedules of N ranks would be more operations than a sample may have. */
static bool affordable(const tally *t, int n)
{
    peal_problem p = {.kind = t->algo->kind, .op = PEAL_SUM, .nranks = n, .nnodes = 1};
    peal_sched *s = NULL;
    if (!peali_algo_fits(t->algo, &p))
        return false;
    if (peali_sched_build(t->algo, &p, n - 1, &s) != PEAL_OK)
        return true;
    bool few = (int64_t)s->nops * n <= LARGE_OPS;
    peali_sched_free(&s);
    return few;
}

static bool prove_algo(tally *t, const peali_check_options *o)
{
    static const int samples[] = {65,  96,  100, 127,  128,  129,  255,  256,  257,        511,
                                  512, 513, 777, 1000, 1024, 2047, 2048, 2049, 4095, LARGE_RANKS};
    int maps = reads_nodes(t) ? MAPS : 1;
    for (int n = 1; n <= o->max_ranks; n++)
        if (!prove_ranks(t, n, maps))
            return false;
    for (size_t i = 0; o->large && i < sizeof samples / sizeof *samples; i++)
        if (samples[i] > o->max_ranks && affordable(t, samples[i]) && !prove_ranks(t, samples[i], maps))
            return false;
    return true;
}

bool peali_check_wanted(const peali_check_options *o, const peal_algo *algo)
{
    return (o->kind < 0 || algo->kind == (peal_kind)o->kind) && (!o->name || strcmp(algo->name, o->name) == 0);
}

bool peali_check_enough(FILE *out, const peali_check_options *o, int64_t found)
{
    if (found < o->least_each)
        fprintf(out, "these are too few: every algorithm must have %lld\n", (long long)o->least_each);
    return found >= o->least_each;
}

int64_t peali_check_total(FILE *out, const peali_check_options *o, int64_t found, const char *what)
{
    if (found < 0)
        fprintf(out, "not all %s are right, or they are too few\n", what);
    else if (found < o->least)
        fprintf(out, "%lld %s are too few: there must be %lld\n", (long long)found, what, (long long)o->least);
    else
        fprintf(out, "%lld %s\n", (long long)found, what);
    return found < o->least ? -1 : found;
}

int64_t peali_check_all(FILE *out, const peali_check_options *options)
{
    int64_t schedules = 0;
    bool right = true;
    int *node = peali_alloc(LARGE_RANKS > options->max_ranks ? LARGE_RANKS : (size_t)options->max_ranks, sizeof *node);
    if (!node)
        return -1;
    for (const peal_algo *const *a = peali_algos; *a; a++) {
        tally t = {.out = out, .algo = *a, .node = node};
        if (!peali_check_wanted(options, *a))
            continue;
        bool proved = prove_algo(&t, options);
        if (proved)
            fprintf(out, "%-14s %-22s n to %4d  %8lld problems  %9lld schedules  %2d node map%s\n", peal_kind_name((*a)->kind),
                    (*a)->name, t.max_ranks, (long long)t.problems, (long long)t.schedules, t.maps, t.maps == 1 ? "" : "s");
        right = right && proved && peali_check_enough(out, options, t.schedules);
        schedules += t.schedules;
    }
    peali_free(node);
    return peali_check_total(out, options, right ? schedules : -1, "schedules");
}
