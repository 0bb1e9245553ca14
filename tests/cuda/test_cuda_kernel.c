/* The kernels, emulated: every algorithm that fits a node, by every protocol, against the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "sched/sched.h"

enum { SCRATCH = 4 << 20 };

static uint32_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static bool fits(const peal_algo *algo, int n, int root)
{
    peal_problem p = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .root = root, .nnodes = 1};
    return !algo->fits || algo->fits(&p);
}

static gpus_call call_of(const peal_algo *algo, int n, peali_cuda_proto proto, size_t count)
{
    gpus_call c = {.algo = algo, .seed = draw(1 << 20)};
    c.job = (peali_cuda_job){algo->kind, count, PEAL_FLOAT, PEAL_SUM, 0, proto, 1 + draw(4)};
    if (algo->kind == PEAL_BROADCAST || algo->kind == PEAL_REDUCE)
        c.job.root = (int32_t)draw((uint32_t)n);
    c.threads = 32u << draw(3);
    return c;
}

/* Each algorithm by each protocol, with sizes that leave blocks empty, end within a word, and take several slices. */
static void all_algorithms(void **ctx)
{
    static const size_t counts[] = {1, 2, 7, 33, 1000, 5003};
    for (int n = 2; n <= 8; n += n < 4 ? 1 : 4) {
        gpus *g = gpus_create(n, 1 << 20);
        gpus_call calls[1024];
        int ncalls = 0, left_out = 0;
        for (int a = 0; peali_algos[a]; a++)
            for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++)
                for (unsigned k = 0; k < 6 && fits(peali_algos[a], n, 0); k++)
                    calls[ncalls++] = call_of(peali_algos[a], n, (peali_cuda_proto)proto, counts[k]);
        assert_int_equal(gpus_run(g, calls, ncalls, NULL, 0, &left_out), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        printf("%d ranks: %d calls, %d left out\n", n, ncalls, left_out);
        gpus_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_algorithms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
