/*
 * Overlap, in steps: all ranks of one communicator in one thread over net_loop, with a clock that lets every rank take in, in each
 * step, one message on each lane from its own node and one from other nodes, if it was there when the step began. So a slice has a
 * fixed cost, the outcome repeats exactly, and pipelines must meet their closed forms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run.h"
#include "net/net_loop.h"

#if defined(__SANITIZE_THREAD__)
enum { MOST_SLICES = 16 }; /* it is one thread */
#else
enum { MOST_SLICES = 64 };
#endif
enum { MOST_RANKS = 64, MOST_REQS = 4096 };

/* A net_loop whose receives end in the step after they arrived, while its rank has a turn left. */
typedef struct metronome {
    peali_net net;
    peali_net *under;
    struct pending {
        peali_net_req *req;
        peali_net_req below;
        int lane, far, receives, arrived;
    } reqs[MOST_REQS];
    const int *node;
    const peali_program *program;
    int turns[PEAL_LANES + 1][2];
} metronome;

static struct pending *place(metronome *m, peali_net_req *req)
{
    for (int i = 0; i < MOST_REQS; i++)
        if (!m->reqs[i].req || m->reqs[i].req == req) {
            m->reqs[i] = (struct pending){.req = req};
            return &m->reqs[i];
        }
    abort();
}

static peal_status beat_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    metronome *m = (metronome *)net;
    return m->under->send(m->under, peer, tag, data, bytes, &place(m, req)->below);
}

/* That of a call's first message from PEER, which takes the turn of a lane though it has a tag of its own. */
static int first_lane(const metronome *m, int peer)
{
    int lane = PEAL_LANES;
    for (int32_t i = 0; i < m->program->ninstrs; i++) {
        const peali_instr *at = &m->program->instrs[i];
        if (at->kind == PEALI_I_RECV && at->peer == peer && at->lane < lane)
            lane = at->lane;
    }
    return lane;
}

static struct pending *take(metronome *m, int peer, uint32_t tag, peali_net_req *req)
{
    struct pending *p = place(m, req);
    p->lane = tag >> 16 < PEAL_LANES ? (int)(tag >> 16) : first_lane(m, peer);
    p->far = m->node && m->node[peer] != m->node[m->net.rank];
    p->receives = 1;
    return p;
}

static peal_status beat_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    metronome *m = (metronome *)net;
    return m->under->recv(m->under, peer, tag, data, bytes, &take(m, peer, tag, req)->below);
}

static peal_status beat_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    metronome *m = (metronome *)net;
    return m->under->recv_some(m->under, peer, tag, data, bytes, &take(m, peer, tag, req)->below);
}

static peal_status beat_test(peali_net *net, peali_net_req *req)
{
    metronome *m = (metronome *)net;
    struct pending *p = m->reqs;
    while (p->req != req)
        p++;
    int *turns = &m->turns[p->lane][p->far];
    if (p->receives ? !p->arrived || *turns == 0 : m->under->test(m->under, &p->below) != PEAL_OK)
        return PEAL_IN_PROGRESS;
    *turns -= p->receives;
    p->req = NULL;
    return PEAL_OK;
}

static bool beat_cancel(peali_net *net, peali_net_req *req)
{
    metronome *m = (metronome *)net;
    struct pending *p = m->reqs;
    while (p->req != req)
        p++;
    p->req = NULL;
    return m->under->cancel(m->under, &p->below);
}

/* A new step: what has arrived by now may be taken in. */
static void beat(metronome *m)
{
    for (int i = 0; i < MOST_REQS; i++) {
        struct pending *p = &m->reqs[i];
        if (p->req && p->receives && !p->arrived)
            p->arrived = m->under->test(m->under, &p->below) == PEAL_OK;
    }
    for (int lane = 0; lane <= PEAL_LANES; lane++)
        m->turns[lane][0] = m->turns[lane][1] = 1;
}

static peal_status beat_idle(peali_net *net)
{
    return PEAL_OK;
}

typedef struct stage {
    metronome *net;
    peali_runner *runner;
    peali_program *program;
    peali_plan *plan;
    peali_public *shown;
    int32_t rank;
    uint32_t *buf;
    int done;
} stage;

static void set_up(stage *s, peal_threads *threads, const peal_problem *problem, const peali_job *job)
{
    s->net = calloc(1, sizeof *s->net);
    assert_int_equal(peali_net_loop_create(threads, s->rank, &s->net->under), PEAL_OK);
    s->net->net = (peali_net){.name = "metronome", .rank = s->rank, .nranks = problem->nranks};
    s->net->net.send = beat_send;
    s->net->net.recv = beat_recv;
    s->net->net.recv_some = beat_recv_some;
    s->net->node = problem->node;
    s->net->net.test = beat_test;
    s->net->net.cancel = beat_cancel;
    s->net->net.progress = s->net->net.flush = beat_idle;
    s->shown = peali_public_create(1, &(peali_lands){0, 0}, false);
    peali_setting setting = {.net = &s->net->net, .cores = 1, .parley_ns = 100000000000, .nreach = 1,
                             .ranks = &s->rank, .shown = &s->shown};
    assert_int_equal(peali_runner_create(&setting, &s->runner), PEAL_OK);
    assert_int_equal(peali_lower(job->algo, problem, &(peali_reach){1, &s->rank, PEALI_PULL}, s->rank, &s->program), PEAL_OK);
    s->net->program = s->program;
    assert_int_equal(peali_plan_make(s->program, job, &s->plan), PEAL_OK);
    assert_int_equal(peali_runner_fit(s->runner, s->plan), PEAL_OK);
    s->buf = calloc(job->count, sizeof *s->buf);
    for (size_t i = 0; i < job->count; i++)
        s->buf[i] = (uint32_t)(s->rank + 1);
}

static void tear_down(stage *s)
{
    peali_runner_destroy(&s->runner);
    peali_plan_free(&s->plan);
    peali_program_free(&s->program);
    s->net->under->destroy(s->net->under);
    free(s->net);
    free(s->buf);
}

/* Lets every rank go as far as it can in this step; how many are not through. */
static int let_go(stage *stages, int n)
{
    int left = 0;
    for (int again = 0; again < n + 2; again++) {
        left = 0;
        for (int r = 0; r < n; r++) {
            if (!stages[r].done && peali_run_step(stages[r].runner) == PEAL_OK)
                stages[r].done = 1;
            left += !stages[r].done;
        }
    }
    return left;
}

/* Steps until all ranks are through with K slices of the algorithm. */
static int steps(const char *name, const peal_problem *problem, int slices, int window)
{
    int n = problem->nranks, step = 0;
    stage stages[MOST_RANKS] = {{0}};
    peal_threads *threads;
    const peal_algo *algo = peali_algo_find(problem->kind, name);
    peali_job job = {algo->kind, algo, 64u * (size_t)slices, PEAL_UINT32, PEAL_SUM, problem->root, slices, window, PEALI_PULL};
    assert_non_null(job.algo);
    assert_int_equal(peal_threads_create(n, &threads), PEAL_OK);
    for (int r = 0; r < n; r++) {
        stages[r].rank = r;
        set_up(&stages[r], threads, problem, &job);
        peali_run_start(stages[r].runner, stages[r].plan, stages[r].buf, stages[r].buf, 0);
    }
    while (let_go(stages, n) > 0) {
        for (int r = 0; r < n; r++)
            beat(stages[r].net);
        if (++step > 100000)
            fail_msg("%s on %d ranks stalls", name, n);
    }
    uint32_t want = problem->kind == PEAL_BROADCAST ? (uint32_t)problem->root + 1 : (uint32_t)(n * (n + 1) / 2);
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < job.count; i++)
            assert_int_equal(stages[r].buf[i], want);
        tear_down(&stages[r]);
    }
    peal_threads_destroy(&threads);
    return step;
}

static void test_chain(void **state)
{
    peal_problem p = {.kind = PEAL_BROADCAST, .nranks = 8, .nnodes = 1};
    for (int k = 1; k <= 32; k *= 2)
        assert_int_equal(steps("chain", &p, k, k), 7 + k - 1);
    assert_int_equal(steps("chain", &p, 16, 4), 7 + 16 - 1);
}

static void test_ring(void **state)
{
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 8, .nnodes = 1};
    assert_int_equal(steps("ring", &p, 1, 1), 14);
    for (int k = 2; k <= 16; k *= 2)
        assert_int_equal(steps("ring", &p, k, k), 14 * k);
}

/* An inner rank of a tree takes in two children's sums and one result a slice: 3 steps, once the first slice is through. */
static void test_double_tree(void **state)
{
    static const int first[] = {8, 11}; /* n = 8, 16 */
    for (int i = 0; i < 2; i++) {
        peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 8 << i, .nnodes = 1};
        for (int k = 1; k <= MOST_SLICES; k *= 4)
            assert_int_equal(steps("double_binary_tree", &p, k, k), first[i] + 3 * (k - 1));
    }
}

/*
 * 4 nodes of 4: a slice takes 3 steps of reduce-scatter, 6 of a ring across, 3 of allgather. The stages overlap: node and network
 * are busy with 6 messages a slice each.
 */
static void test_hierarchy(void **state)
{
    int node[16];
    for (int r = 0; r < 16; r++)
        node[r] = r / 4;
    peal_problem p = {.kind = PEAL_ALLREDUCE, .nranks = 16, .nnodes = 4, .node = node};
    for (int k = 1; k <= MOST_SLICES; k *= 4)
        assert_int_equal(steps("hierarchical", &p, k, k), 12 + 6 * (k - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_double_tree),
        cmocka_unit_test(test_hierarchy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
