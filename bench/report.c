/* The table of a race. */
#include "report.h"

#include <stdio.h>
#include <string.h>

#include <peal/version.h>

const char *peali_bytes_text(size_t bytes, char text[24])
{
    int unit = 0;
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, unit ? "%zu%c" : "%zu", bytes, "BKMG"[unit]);
    return text;
}

void peali_report_head(const peali_race *race, const peali_origin *host)
{
    const peali_team *team = race->team;
    bool shared = host->cores && team->nranks > host->cores;
    printf("# peal %s (%s), %s, %d ranks over %s\n", PEAL_VERSION, peali_origin_commit(), peal_kind_name(race->flags->kind),
           team->nranks, team->library ? team->library : "threads of one process");
    printf("# %s, %d cores%s\n", host->cpu, host->cores,
           shared ? ": ranks share cores, so times hold their turns of the scheduler too" : "");
    printf("# times of the slowest rank; algbw and busbw of the median; * is what Peal takes by itself\n");
    printf("# model: by the cost model, from a ping-pong and an exchange of neighbours before the race\n");
    printf("#%11s %12s %7s %6s %6s %-8s %-21s %10s %10s %10s %10s %8s %8s %7s %8s\n", "size", "count", "type", "redop", "place",
           "impl", "variant", "min", "median", "P99", "model", "algbw", "busbw", "#wrong", "samples");
    printf("#%11s %12s %7s %6s %6s %-8s %-21s %10s %10s %10s %10s %8s %8s\n", "(B)", "(elements)", "", "", "", "", "",
           "(us)", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)");
}

void peali_report_row(const peali_race *race, const peali_row *row)
{
    char variant[40], wrong[24] = "N/A", model[24] = "-";
    snprintf(variant, sizeof variant, "%s%s", row->variant, row->chosen ? " *" : "");
    if (race->flags->check)
        snprintf(wrong, sizeof wrong, "%.0f", row->wrong);
    if (row->predicted_us > 0)
        snprintf(model, sizeof model, "%.2f", row->predicted_us);
    printf(" %11zu %12zu %7s %6s %6s %-8s %-21s %10.2f %10.2f %10.2f %10s %8.3f %8.3f %7s %8d\n", row->bytes, row->count,
           peal_type_name(row->type), peal_op_name(row->op), row->inplace ? "in" : "out", row->impl, variant, row->min_us,
           row->median_us, row->p99_us, model, row->algbw, row->busbw, wrong, row->samples);
    fflush(stdout);
}

const char *peali_runner_label(const peali_runner *runner)
{
    return runner->label[0] ? runner->label : runner->peal ? runner->variant : runner->impl;
}

/* Of a column of the winners' table: its name, or 100 s with a tenth of a microsecond. */
static int width(const peali_runner *runner)
{
    int length = (int)strlen(peali_runner_label(runner));
    return length > 11 ? length : 11;
}

/* The quickest of the rows from FIRST on that are right, but for OTHER; NULL: there is none. */
static const peali_row *quickest(const peali_race *race, const peali_row *first, const peali_row *other)
{
    const peali_row *best = NULL;
    for (const peali_row *row = first; row < first + race->nrunners; row++)
        if (row != other && row->wrong == 0 && (!best || row->median_us < best->median_us))
            best = row;
    return best;
}

/* One line of the winners' table: the rows of one problem, from FIRST on. */
static void contest(const peali_race *race, const peali_row *first)
{
    const peali_row *best = quickest(race, first, NULL), *second = quickest(race, first, best);
    char bytes[24];
    printf(" %11s", peali_bytes_text(first->bytes, bytes));
    for (int i = 0; i < race->nrunners; i++)
        printf(" %*.1f", width(&race->runners[i]), first[i].median_us);
    printf("  %s", best ? peali_runner_label(&race->runners[best - first]) : "none was right");
    if (best && second)
        printf(", %.2f times as fast as the next", second->median_us / best->median_us);
    printf("%s\n", first->inplace ? " (in place)" : "");
}

/* Rows lie in the order of the runners, size by size. */
void peali_report_winners(const peali_race *race)
{
    const peali_row *last = NULL;
    if (race->nrunners < 2)
        return;
    for (int i = 0; i < race->nrows; i += race->nrunners) {
        const peali_row *row = &race->rows[i];
        if (!last || row->type != last->type || row->op != last->op) {
            printf("\n# %s %s %s, %d ranks: median us, and the winner\n#%11s", peal_kind_name(race->flags->kind),
                   peal_type_name(row->type), peal_op_name(row->op), race->team->nranks, "size");
            for (int k = 0; k < race->nrunners; k++)
                printf(" %*s", width(&race->runners[k]), peali_runner_label(&race->runners[k]));
            printf("  winner\n");
        }
        contest(race, row);
        last = row;
    }
}

void peali_report_steal(double share)
{
    static const double FELT = 0.005;
    if (share >= FELT)
        printf("# steal %.1f %%: the host of this virtual machine kept back so much of its cores' time; calls wait for each that "
               "is away\n", share * 100);
}

bool peali_report_all(const peali_race *race, const peali_origin *host)
{
    if (race->flags->vs_nccl)
        peali_report_gpu_contests(race);
    else
        peali_report_winners(race);
    peali_report_steal(peali_steal_since(host->steal));
    const bool drawn = !race->flags->plot || peali_plot_svg(race, host, race->flags->plot);
    return (!race->flags->json || peali_save_json(race, host, race->flags->json)) && drawn;
}
