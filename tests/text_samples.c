/* Reach: each rank alone, and the ranks of each node together in all modes. */
#include "text_samples.h"

#include <stdlib.h>

enum { MOST = 16 };

typedef struct sampler {
    const peal_algo *algo;
    peal_problem problem;
    text_sample *each;
    void *ctx;
} sampler;

static void must(peal_status status)
{
    if (status != PEAL_OK)
        abort();
}

static void lowered(const sampler *s, const int32_t *ranks, int n, peali_mode mode)
{
    peali_program *programs[MOST];
    must(peali_lower_all(s->algo, &s->problem, &(peali_reach){n, ranks, mode}, programs));
    for (int x = 0; x < n; x++) {
        s->each(NULL, programs[x], s->ctx);
        peali_program_free(&programs[x]);
    }
}

static void sample(const sampler *s)
{
    int32_t ranks[MOST];
    for (int rank = 0, first = 0; rank < s->problem.nranks; rank++) {
        peal_sched *sched;
        must(peali_sched_build(s->algo, &s->problem, rank, &sched));
        s->each(sched, NULL, s->ctx);
        peali_sched_free(&sched);
        ranks[rank] = rank;
        lowered(s, &ranks[rank], 1, PEALI_PULL);
        bool last = rank + 1 == s->problem.nranks || s->problem.node[rank + 1] != s->problem.node[rank];
        if (!last)
            continue;
        for (int mode = PEALI_PULL; mode < PEALI_MODES; mode++)
            lowered(s, &ranks[first], rank + 1 - first, (peali_mode)mode);
        first = rank + 1;
    }
}

void text_samples(int n, text_sample *each, void *ctx)
{
    int node[MOST];
    for (int i = 0; peali_algos[i]; i++)
        for (int size = n; size > 0; size = size > 3 ? 3 : 0)
            for (int root = 0; root < n; root += n > 1 ? n - 1 : 1) {
                sampler s = {.algo = peali_algos[i], .each = each, .ctx = ctx};
                s.problem = (peal_problem){.kind = s.algo->kind, .op = PEAL_SUM, .nranks = n, .node = node};
                s.problem.nnodes = (n + size - 1) / size;
                for (int r = 0; r < n; r++)
                    node[r] = r / size;
                bool rooted = s.algo->kind == PEAL_BROADCAST || s.algo->kind == PEAL_REDUCE;
                s.problem.root = rooted ? root : 0;
                if ((rooted || root == 0) && peali_algo_fits(s.algo, &s.problem))
                    sample(&s);
            }
}
