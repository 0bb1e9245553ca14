/*
 * Random legal schedules through the lowering, in all modes, on random nodes and on random hosts: check must prove the programs,
 * and a runner of its own (program_runner.h) must find no harm in them.
 *
 * usage: test_random_programs [SEEDS [FIRST]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "program_runner.h"
#include "random_scheds.h"

enum { INTERLEAVINGS = 12 };

static int seeds = 2000, first = 1;

static void try_mode(const peal_problem *p, const int *host, const peali_truth *truth, peali_mode mode, unsigned seed)
{
    peali_program *program[RANDOM_RANKS];
    peal_sched *sched[RANDOM_RANKS];
    peali_programs_report report;
    program_case what = {p, host, mode, (const peal_sched *const *)sched, (const peali_program *const *)program};
    if (peali_programs_lower(truth, mode, program) != PEAL_OK)
        fail_msg("seed %u, %s: not lowered", seed, peali_mode_name(mode));
    for (int r = 0; r < p->nranks; r++)
        assert_int_equal(peali_sched_build(&random_algo, p, r, &sched[r]), PEAL_OK);
    if (peali_programs_check(truth, mode, what.program, &report) != PEAL_OK)
        fail_msg("seed %u: %s", seed, report.why);
    if (!program_harmless(&what, INTERLEAVINGS, seed))
        fail_msg("seed %u, %s: check proves what the runner finds wrong", seed, peali_mode_name(mode));
    for (int r = 0; r < p->nranks; r++) {
        peali_program_free(&program[r]);
        peali_sched_free(&sched[r]);
    }
}

static void test_random(void **state)
{
    int node[RANDOM_RANKS], host[RANDOM_RANKS];
    for (int seed = first; seed < first + seeds; seed++) {
        unsigned draw = (unsigned)seed * 40503u;
        peal_problem p = {.kind = PEAL_ALLREDUCE, .op = PEAL_SUM, .nranks = 1 + (int)(draw >> 3) % 6, .nnodes = 1, .node = node};
        node[0] = 0;
        for (int r = 1; r < p.nranks; r++)
            node[r] = node[r - 1] + (int)((draw = draw * 1664525u + 1013904223u) >> 20) % 3 / 2;
        p.nnodes = node[p.nranks - 1] + 1;
        const int *hosts = seed % 3 ? NULL : host;
        for (int r = 0; r < p.nranks; r++)
            host[r] = (int)((draw = draw * 1664525u + 1013904223u) >> 20) % 3;
        peali_programs_report report;
        peali_truth *truth = NULL;
        random_scheds_make((unsigned)seed, p.nranks);
        if (peali_truth_make(&random_algo, &p, hosts, &report, &truth) != PEAL_OK)
            fail_msg("seed %d: %s", seed, report.why);
        for (int mode = PEALI_PULL; mode < PEALI_MODES; mode++)
            try_mode(&p, hosts, truth, (peali_mode)mode, (unsigned)seed);
        peali_truth_free(&truth);
    }
    print_message("%d random schedules in all modes\n", seeds);
}

int main(int argc, char **argv)
{
    seeds = argc > 1 ? atoi(argv[1]) : seeds;
    first = argc > 2 ? atoi(argv[2]) : first;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
