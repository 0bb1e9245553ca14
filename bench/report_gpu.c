/* The table of a race on GPUs. */
#include <stdio.h>

#include <peal/version.h>

#include "report.h"

void peali_report_gpu_head(const peali_race *race, const peali_origin *host)
{
    const peali_race_gpu *gpu = race->gpu;
    const peali_flags *f = race->flags;
    printf("# peal %s (%s), %s, %d ranks on a GPU each, %s\n", PEAL_VERSION, peali_origin_commit(), peal_kind_name(f->kind),
           race->team->nranks, race->team->library ? race->team->library : "threads of one process");
    printf("# %s, CUDA %d.%d%s%s; %s, %d cores\n", gpu->name, gpu->cuda_version / 1000, gpu->cuda_version / 10 % 100,
           gpu->driver[0] ? ", driver " : "", gpu->driver, host->cpu, host->cores);
    if (gpu->nccl_version)
        printf("# NCCL %d.%d.%d, NCCL_NVLS_ENABLE=%s\n", gpu->nccl_version / 10000, gpu->nccl_version / 100 % 100,
               gpu->nccl_version % 100, gpu->nvls);
    if (gpu->link > 0)
        printf("# link: busbw over %.1f GB/s, which plain copies from each GPU to the next give, all at once\n", gpu->link);
    printf("# min, median, P99: one call of the slowest rank by events; host, enqueue: medians by the host's clock, to the end\n"
           "# and until it was enqueued; calls: in a row, or in one graph, for each sample; algbw and busbw of the median\n");
    if (race->flags->ulp)
        puts("# ulp: the largest error of one more call, on data that rounds, in units in the last place of the exact result");
    printf("#%11s %12s %7s %6s %6s %-5s %-15s %-10s %-5s %5s %10s %10s %10s %10s %10s %8s %8s %6s %5s %7s %7s %8s\n", "size",
           "count", "type", "redop", "place", "impl", "variant", "buffers", "mode", "calls", "min", "median", "P99", "host",
           "enqueue", "algbw", "busbw", "link", "CTAs", "ulp", "#wrong", "samples");
    printf("#%11s %12s %7s %6s %6s %-5s %-15s %-10s %-5s %5s %10s %10s %10s %10s %10s %8s %8s %6s\n", "(B)", "(elements)", "", "",
           "", "", "", "", "", "", "(us)", "(us)", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "(%)");
    fflush(stdout);
}

void peali_report_gpu_row(const peali_race *race, const peali_row *row)
{
    char wrong[24] = "N/A", link[16] = "-", ulp[24] = "-";
    if (race->flags->check)
        snprintf(wrong, sizeof wrong, "%.0f", row->wrong);
    if (row->link > 0)
        snprintf(link, sizeof link, "%.1f", 100 * row->link);
    if (race->flags->ulp)
        snprintf(ulp, sizeof ulp, "%.4g", row->ulp);
    printf(" %11zu %12zu %7s %6s %6s %-5s %-15s %-10s %-5s %5d %10.2f %10.2f %10.2f %10.2f %10.2f %8.3f %8.3f %6s %5d %7s %7s"
           " %8d\n",
           row->bytes, row->count, peal_type_name(row->type), peal_op_name(row->op), row->inplace ? "in" : "out", row->impl,
           row->variant, row->buffers, row->mode, row->calls, row->min_us, row->median_us, row->p99_us, row->host_us,
           row->enqueue_us, row->algbw, row->busbw, link, row->ctas, ulp, wrong, row->samples);
    fflush(stdout);
}

/* The fastest of the rows of one problem, from FIRST on, that are Peal's, or its peers', in a mode; NULL: none is. */
static const peali_row *fastest(const peali_race *race, const peali_row *first, bool peal, bool graph)
{
    const peali_row *best = NULL;
    for (int i = 0; i < race->nrunners; i++)
        if (race->runners[i].peal == peal && race->runners[i].graph == graph && (!best || first[i].median_us < best->median_us))
            best = &first[i];
    return best;
}

static void contest(const peali_race *race, const peali_row *first, bool graph)
{
    const peali_row *peal = fastest(race, first, true, graph), *peer = fastest(race, first, false, graph);
    char bytes[24];
    if (peal && peer)
        printf(" %8s %7s %6s %6s %-5s %10.2f %-24s %10.2f %-15s %8.2f\n", peali_bytes_text(first->bytes, bytes),
               peal_type_name(first->type), peal_op_name(first->op), first->inplace ? "in" : "out", peal->mode, peal->median_us,
               peal->variant, peer->median_us, peer->variant, peer->median_us / peal->median_us);
}

void peali_report_gpu_contests(const peali_race *race)
{
    printf("\n# %s, %d ranks: median us of Peal and of NCCL at its best, and how many times as fast Peal is\n"
           "#%8s %7s %6s %6s %-5s %10s %-24s %10s %-15s %8s\n", peal_kind_name(race->flags->kind), race->team->nranks, "size",
           "type", "redop", "place", "mode", "peal", "", "nccl", "", "times");
    for (int graph = 0; graph < 2; graph++)
        for (int i = 0; i < race->nrows; i += race->nrunners)
            contest(race, &race->rows[i], graph == 1);
}
