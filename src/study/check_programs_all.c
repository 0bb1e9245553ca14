/*
 * check of programs over all algorithms: which problems are tried, and one line for each algorithm.
 *
 * Up to FEW_RANKS ranks every root is tried on every node map below; beyond, each n on one node and on a map that changes with n,
 * and two roots.
 */
#include "study/check_programs.h"

#include <string.h>

#include "base/arena.h"

enum { MAPS = 9, NODES = 7, FEW_RANKS = 16 }; /* the first are of nodes */

typedef struct tally {
    FILE *out;
    const peal_algo *algo;
    int64_t programs, problems;
    int max_ranks;
    bool maps[MAPS];
    int *node, *host;
    peali_program **program;
} tally;

/* Ranks on node I of map MAP: one node, pairs, 1 + 2 + 3 + ..., one rank and the rest, halves, fours, one rank each. */
static int node_size(int map, int i, int n)
{
    const int sizes[NODES] = {n, 2, i + 1, i ? n : 1, (n + 1) / 2, 4, 1};
    return sizes[map];
}

/*
 * False where one node results and another map has that. Ranks that are dealt to hosts in turn, and of which every third is on one
 * host and the others on another, count as of one node, as in a communicator.
 */
static bool set_map(tally *t, peal_problem *p, int map)
{
    for (int r = 0; r < p->nranks; r++)
        t->host[r] = map == NODES ? r % 2 : r % 3 > 0;
    return map < NODES ? peali_check_deal(p, map, node_size, t->node) || map == 0
                       : p->nranks > 2 && (peali_check_deal(p, 0, node_size, t->node), true);
}

static peal_status prove_mode(tally *t, const peali_truth *truth, peali_mode mode, int n)
{
    peali_programs_report report = {0};
    peal_status status = peali_programs_lower(truth, mode, t->program);
    if (status == PEAL_OK) {
        status = peali_programs_check(truth, mode, (const peali_program *const *)t->program, &report);
        for (int r = 0; r < n; r++)
            peali_program_free(&t->program[r]);
    }
    if (status == PEAL_OK)
        t->programs += n;
    else
        fprintf(t->out, "%s %s, n %d: %s\n", peal_kind_name(t->algo->kind), t->algo->name, n,
                status == PEAL_ERR_MEMORY ? "no memory" : report.why[0] ? report.why : "lowering refused it, see the log");
    return status;
}

static bool prove(tally *t, const peal_problem *p, const int *host)
{
    peali_programs_report report;
    peali_truth *truth = NULL;
    peal_status status = peali_truth_make(t->algo, p, host, &report, &truth);
    if (status != PEAL_OK)
        fprintf(t->out, "%s\n", status == PEAL_ERR_MEMORY ? "no memory" : report.why);
    for (int mode = PEALI_PULL; mode < PEALI_MODES && status == PEAL_OK; mode++)
        status = prove_mode(t, truth, (peali_mode)mode, p->nranks);
    peali_truth_free(&truth);
    t->problems++;
    t->max_ranks = p->nranks;
    return status == PEAL_OK;
}

static int next_root(const peal_problem *p)
{
    if (p->kind != PEAL_BROADCAST && p->kind != PEAL_REDUCE)
        return p->nranks;
    if (p->nranks <= FEW_RANKS)
        return p->root + 1;
    return p->root == 0 ? p->nranks / 2 + 1 : p->nranks;
}

static bool prove_ranks(tally *t, int n)
{
    peal_problem p = {.kind = t->algo->kind, .op = PEAL_SUM, .nranks = n};
    for (p.root = 0; p.root < n; p.root = next_root(&p))
        for (int map = 0; map < MAPS; map++) {
            bool tried = n <= FEW_RANKS || map == 0 || map == 1 + n % (MAPS - 1);
            if (!tried || !set_map(t, &p, map) || !peali_algo_fits(t->algo, &p))
                continue;
            t->maps[map] = true;
            if (!prove(t, &p, map < NODES ? NULL : t->host))
                return false;
        }
    return true;
}

static bool prove_algo(tally *t, int max_ranks)
{
    bool proved = true;
    int maps = 0;
    for (int n = 1; n <= max_ranks && proved; n++)
        proved = prove_ranks(t, n);
    for (int map = 0; map < MAPS; map++)
        maps += t->maps[map];
    if (proved)
        fprintf(t->out, "%-14s %-22s n to %4d  %8lld problems  %9lld programs  %2d node map%s\n", peal_kind_name(t->algo->kind),
                t->algo->name, t->max_ranks, (long long)t->problems, (long long)t->programs, maps, maps == 1 ? "" : "s");
    return proved;
}

int64_t peali_check_programs_all(FILE *out, const peali_check_options *options)
{
    int64_t programs = 0;
    bool right = true;
    int *node = peali_alloc((size_t)options->max_ranks, sizeof *node);
    int *host = peali_alloc((size_t)options->max_ranks, sizeof *host);
    peali_program **program = peali_alloc((size_t)options->max_ranks, sizeof *program);
    for (const peal_algo *const *a = peali_algos; *a && node && host && program; a++) {
        tally t = {.out = out, .algo = *a, .node = node, .host = host, .program = program};
        if (!peali_check_wanted(options, *a))
            continue;
        right &= prove_algo(&t, options->max_ranks) && peali_check_enough(out, options, t.programs);
        programs += t.programs;
    }
    right &= node && host && program;
    peali_free(node);
    peali_free(host);
    peali_free(program);
    return peali_check_total(out, options, right ? programs : -1, "programs");
}
