/*
 * With as many operations as blocks a table over the blocks is quickest to make and to ask; with few operations on many blocks,
 * sorting is.
 */
#include "sched/cuts.h"

#include <stdlib.h>

#include "base/arena.h"

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool tabulate(const peal_sched *const *scheds, int n, peali_cuts *cuts)
{
    int32_t nblocks = scheds[0]->nblocks;
    cuts->index = peali_alloc((size_t)nblocks + 1, sizeof *cuts->index);
    cuts->at = peali_alloc((size_t)nblocks + 1, sizeof *cuts->at);
    if (!cuts->index || !cuts->at)
        return false;
    cuts->index[0] = 1;
    for (int r = 0; r < n; r++)
        for (int32_t i = 0; i < scheds[r]->nops; i++)
            cuts->index[scheds[r]->ops[i].first] = cuts->index[scheds[r]->ops[i].end] = 1;
    for (int32_t b = 0; b <= nblocks; b++) {
        bool cut = cuts->index[b];
        cuts->index[b] = cuts->n;
        if (cut)
            cuts->at[cuts->n++] = b;
    }
    return true;
}

static bool sort(const peal_sched *const *scheds, int n, int64_t nops, peali_cuts *cuts)
{
    cuts->at = peali_alloc(2 * (size_t)nops + 1, sizeof *cuts->at);
    if (!cuts->at)
        return false;
    size_t k = 1; /* at[0] is 0 */
    for (int r = 0; r < n; r++)
        for (int32_t i = 0; i < scheds[r]->nops; i++) {
            cuts->at[k++] = scheds[r]->ops[i].first;
            cuts->at[k++] = scheds[r]->ops[i].end;
        }
    qsort(cuts->at, k, sizeof *cuts->at, by_value);
    for (size_t i = 0; i < k; i++)
        if (cuts->n == 0 || cuts->at[i] != cuts->at[cuts->n - 1])
            cuts->at[cuts->n++] = cuts->at[i];
    return true;
}

peal_status peali_cuts_make(const peal_sched *const *scheds, int n, peali_cuts *cuts)
{
    int64_t nops = 0;
    for (int r = 0; r < n; r++)
        nops += scheds[r]->nops;
    *cuts = (peali_cuts){0};
    if (scheds[0]->nblocks <= 2 * nops ? tabulate(scheds, n, cuts) : sort(scheds, n, nops, cuts))
        return PEAL_OK;
    peali_cuts_free(cuts);
    return PEAL_ERR_MEMORY;
}

void peali_cuts_free(peali_cuts *cuts)
{
    peali_free(cuts->at);
    peali_free(cuts->index);
    *cuts = (peali_cuts){0};
}

int32_t peali_cuts_find(const peali_cuts *cuts, int32_t block)
{
    if (cuts->index)
        return cuts->index[block];
    const int32_t *at = bsearch(&block, cuts->at, (size_t)cuts->n, sizeof *cuts->at, by_value);
    return (int32_t)(at - cuts->at);
}
