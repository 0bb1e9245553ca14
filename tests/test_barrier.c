/*
 * A barrier is one: no rank leaves before the last has entered, by every algorithm of allreduce, within reach by pull and by push,
 * with one rank staged, on two nodes and by messages alone. It stays apart from the allreduce that it runs as.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sched/sched.h"
#include "team.h"

enum { MOST = 6, ROUNDS = 12 };

typedef struct scene {
    int n, two_nodes;
    long entered; /* by all ranks, in all barriers */
    char wrong[MOST][128];
    peal_status got[MOST];
    int gone;
} scene;

/* One rank after the other is late. */
static void come(scene *s, int rank, int round)
{
    struct timespec nap = {0, 300 * 1000};
    if (round % s->n == rank)
        nanosleep(&nap, NULL);
    __atomic_add_fetch(&s->entered, 1, __ATOMIC_SEQ_CST);
}

static peal_status pass(peal_comm *comm, int round)
{
    peal_request *request;
    if (round % 2)
        return peal_barrier(comm, NULL);
    peal_status status = peal_ibarrier(comm, NULL, &request);
    return status == PEAL_OK ? peal_wait(&request) : status;
}

/* Barriers, PASSED so far, and between them the allreduces that they could be mistaken for. */
static int hold(peal_comm *comm, scene *s, int rank, long *passed)
{
    int right = 1;
    for (int round = 0; round < ROUNDS && right; round++) {
        unsigned char bits = (unsigned char)(0xff ^ 1 << rank), all = 0, common = (unsigned char)(0xff << s->n);
        come(s, rank, round);
        right &= pass(comm, round) == PEAL_OK;
        right &= __atomic_load_n(&s->entered, __ATOMIC_SEQ_CST) >= ++*passed * s->n;
        right &= peal_allreduce(&bits, &all, 1, PEAL_BYTE, PEAL_BAND, comm, NULL) == PEAL_OK && all == common;
    }
    return right;
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    long passed = 0;
    int node[MOST];
    for (int r = 0; r < s->n; r++)
        node[r] = s->two_nodes && r >= s->n / 2;
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = s->n, .nnodes = 1 + s->two_nodes, .node = node};
    for (const peal_algo *const *a = peali_algos; *a && !*s->wrong[rank]; a++)
        if (peali_algo_fits(*a, &problem) &&
            (peal_comm_force(comm, PEAL_ALLREDUCE, (*a)->name) != PEAL_OK ||
             peal_comm_force(comm, PEAL_BARRIER, (*a)->name) != PEAL_OK || !hold(comm, s, rank, &passed)))
            snprintf(s->wrong[rank], sizeof s->wrong[rank], "%s", (*a)->name);
}

static void every_size(peali_layout layout, int staged, const char *what)
{
    static const char *const nodes[] = {NULL, "1", "1+1", "1+2", "2+2", "2+3", "3+3"};
    for (int n = layout.nodes ? 2 : 1; n <= MOST; n++) {
        peali_layout layouts[MOST];
        scene s = {.n = n, .two_nodes = layout.nodes != NULL};
        for (int r = 0; r < n; r++) {
            layouts[r] = layout;
            layouts[r].nodes = layout.nodes ? nodes[n] : NULL;
            layouts[r].staged = staged && r == n / 2;
        }
        assert_int_equal(team_run_in((unsigned)n, layouts, play, &s), PEAL_OK);
        for (int r = 0; r < n; r++)
            if (*s.wrong[r])
                fail_msg("rank %d of %d, %s: %s", r, n, what, s.wrong[r]);
    }
}

static void test_nobody_leaves_early(void **state)
{
    every_size((peali_layout){.apart = true}, 0, "messages");
    every_size((peali_layout){.pull = true}, 0, "pull");
    every_size((peali_layout){.pull = true}, 1, "pull, one staged");
    every_size((peali_layout){0}, 0, "push");
    every_size((peali_layout){.nodes = "two"}, 0, "push on two nodes");
}

static void ask(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    peal_kind kind;
    const char *name;
    long calls, barriers = 0;
    int right = peal_barrier(comm, NULL) == PEAL_OK && peal_barrier(comm, s) == PEAL_ERR_UNSUPPORTED;
    right &= peal_barrier(NULL, NULL) == PEAL_ERR_INVALID && peal_ibarrier(comm, NULL, NULL) == PEAL_ERR_INVALID;
    right &= strcmp(peal_comm_choice(comm, PEAL_BARRIER, 0, PEAL_TYPE_COUNT, PEAL_OP_COUNT),
                    peal_comm_choice(comm, PEAL_ALLREDUCE, 1, PEAL_BYTE, PEAL_BAND)) == 0;
    right &= peal_comm_force(comm, PEAL_BARRIER, "wring") == PEAL_ERR_INVALID;
    right &= peal_comm_force(comm, PEAL_BARRIER, "ring") == PEAL_OK;
    right &= strcmp(peal_comm_choice(comm, PEAL_BARRIER, 0, PEAL_BYTE, PEAL_BAND), "ring") == 0;
    for (int i = 0; peali_comm_tally(comm, i, &kind, &name, &calls); i++) {
        barriers += kind == PEAL_BARRIER ? calls : 0;
        right &= kind == PEAL_BARRIER || calls == 0;
    }
    snprintf(s->wrong[rank], sizeof s->wrong[rank], "%s", right && barriers == 1 ? "" : "wrong");
}

static void test_choice_and_refusals(void **state)
{
    scene s = {.n = 3};
    assert_int_equal(team_run(3, ask, &s), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_string_equal(s.wrong[r], "");
}

/* The same algorithm, count, type and op: nothing but the kind tells them apart. */
static void differ(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned char byte = 0;
    s->got[rank] = rank == 1 ? peal_barrier(comm, NULL) : peal_allreduce(&byte, &byte, 1, PEAL_BYTE, PEAL_BAND, comm, NULL);
    __atomic_add_fetch(&s->gone, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&s->gone, __ATOMIC_SEQ_CST) < s->n) /* a rank that ended its communicator could not be told */
        usleep(1000);
}

static void test_mismatch(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        peali_layout layouts[3];
        scene s = {.n = 3};
        for (int r = 0; r < 3; r++)
            layouts[r] = (peali_layout){.apart = apart, .parley_ms = 100};
        assert_int_equal(team_run_in(3, layouts, differ, &s), PEAL_OK);
        for (int r = 0; r < 3; r++)
            assert_int_equal(s.got[r], PEAL_ERR_MISMATCH);
    }
}

int main(void)
{
    setenv("PEAL_TIMEOUT", "20", 0); /* a rank that saw a mistake leaves the others alone */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_leaves_early),
        cmocka_unit_test(test_choice_and_refusals),
        cmocka_unit_test(test_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
