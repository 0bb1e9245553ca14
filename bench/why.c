/* The choice is that of src/comm/select.c for a communicator whose ranks all have this environment. */
#include "why.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "report.h"
#include "sched/tuning.h"
#include "study/cost.h"

typedef struct why {
    const peal_problem *problem;
    const char *transport;
    size_t bytes;
    peali_tuning_span span;
    peali_tuning_choice choice;
    const peal_algo *algo; /* PEAL_ALGO's, or the choice */
    size_t slices;         /* K */
} why;

/* Buffers of the ranks' own: what is staged of them goes in slices of a bounded size, and through areas where it lands. */
static bool stages(const why *w)
{
    return strcmp(w->transport, "shm") == 0;
}

static bool direct(const why *w)
{
    return strcmp(w->transport, "direct") == 0;
}

/* Of a rooted collective, all that the ranks know to be seen are the root's buffers. */
static bool bounded(const why *w)
{
    return stages(w) || (direct(w) && (w->problem->kind == PEAL_BROADCAST || w->problem->kind == PEAL_REDUCE));
}

static peali_tuning_span rows(const why *w, const peali_tuning *tuning)
{
    const peal_problem *p = w->problem;
    return direct(w) ? peali_tuning_find_seen(tuning, p->kind, "shm", p->nranks, 1) :
                       peali_tuning_find(tuning, p->kind, w->transport, p->nranks, stages(w) ? 1 : p->nnodes);
}

static bool decide(why *w)
{
    const peali_config *config = peali_config_get();
    const peali_tuning *tuning = peali_config_check() == PEAL_OK ? peali_tuning_get() : NULL;
    if (!tuning)
        return false;
    w->span = rows(w, tuning);
    w->choice = peali_tuning_choose(w->span, w->problem, w->bytes);
    const peal_algo *forced = config->algo ? peali_algo_find(w->problem->kind, config->algo) : NULL;
    w->algo = forced ? forced : w->choice.algo;
    size_t slice_bytes = config->slice_bytes ? (size_t)config->slice_bytes : forced ? 0 : w->choice.slice_bytes;
    slice_bytes = bounded(w) && (slice_bytes == 0 || slice_bytes > PEALI_TUNING_STAGED) ? PEALI_TUNING_STAGED : slice_bytes;
    w->slices = peali_tuning_slices(w->bytes, slice_bytes);
    if (w->algo && peali_algo_fits(w->algo, w->problem))
        return true;
    fprintf(stderr, "peal show: %s does not fit %d ranks on %d nodes\n", w->algo ? w->algo->name : "any algorithm",
            w->problem->nranks, w->problem->nnodes);
    return false;
}

static int window(const why *w)
{
    const int most = stages(w) ? peali_tuning_landings(w->problem->nranks) : PEALI_TUNING_WINDOW;
    return w->slices < (size_t)most ? (int)w->slices : most;
}

static void print_decision(const why *w)
{
    const peali_config *config = peali_config_get();
    const peal_problem *p = w->problem;
    char size[24];
    printf("%s of %s over %s, %d ranks on %d node%s: %s, K %zu, W %d\n", peal_kind_name(p->kind),
           peali_bytes_text(w->bytes, size), w->transport, p->nranks, p->nnodes, p->nnodes > 1 ? "s" : "", w->algo->name,
           w->slices, window(w));
    if (w->algo != w->choice.algo)
        printf("  PEAL_ALGO names the algorithm; the table would have taken %s\n", w->choice.algo ? w->choice.algo->name : "none");
    else if (w->choice.row)
        printf("  by line %d of %s\n", (int)w->choice.row->line, w->choice.row->given ? config->tuning : "the built-in table");
    else
        printf("  no row's algorithm fits, so the first one that does\n");
    if (config->slice_bytes)
        printf("  PEAL_SLICE names the size of a slice: %s%s\n", peali_bytes_text((size_t)config->slice_bytes, size),
               bounded(w) && config->slice_bytes > PEALI_TUNING_STAGED ? "; 16M are staged" : "");
}

static void print_rows(const why *w)
{
    if (!w->span.nrows)
        return;
    bool by_host = strcmp(w->span.rows->transport, "hosts") == 0;
    printf("\nrows of %s over %s for %d%s, the nearest to %d:\n", peal_kind_name(w->problem->kind), w->span.rows->transport,
           (int)w->span.rows->ranks, by_host ? "" : " ranks", by_host ? w->problem->nnodes : w->problem->nranks);
    for (int i = 0; i < w->span.nrows; i++) {
        const peali_tuning_row *row = &w->span.rows[i];
        char bytes[24] = "inf", slice[24];
        if (row->bytes != SIZE_MAX)
            peali_bytes_text(row->bytes, bytes);
        printf("%s line %-4d up to %8s  %-21s slices of %s\n", row == w->choice.row ? " ->" : "   ", (int)row->line, bytes,
               row->algo->name, row->slice_bytes ? peali_bytes_text(row->slice_bytes, slice) : "all");
    }
}

static void print_prices(const why *w)
{
    peali_cost_params params;
    peali_cost_example(&params);
    printf("\nby the cost model, for %s;\nthe choice at its own K, the others at K 1; then each at the K and W that the model "
           "finds best:\n  %-21s %12s %12s %6s %6s\n", PEALI_COST_EXAMPLE, "algorithm", "us", "best us", "K", "W");
    for (int i = 0; peali_algos[i]; i++) {
        const peal_algo *algo = peali_algos[i];
        if (!peali_algo_fits(algo, w->problem))
            continue;
        peali_slicing best = peali_cost_best_slices(algo, w->problem, w->bytes, &params);
        int slices = algo == w->algo ? (int)w->slices : 1;
        printf("%s%-21s %12.2f %12.2f %6d %6d\n", algo == w->algo ? "->" : "  ", algo->name,
               peali_cost(algo, w->problem, w->bytes, &params, slices) / 1e3, best.ns / 1e3, best.slices, best.window);
    }
}

int peali_why(const peal_problem *problem, const char *transport, size_t bytes)
{
    why w = {.problem = problem, .transport = transport, .bytes = bytes};
    if (!decide(&w))
        return 1;
    print_decision(&w);
    print_rows(&w);
    print_prices(&w);
    return 0;
}
