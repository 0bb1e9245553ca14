/*
 * Collectives over a transport that delays, reorders and fails, one seed after another, between ranks that are all out of reach, or
 * on nodes of random sizes: `test_fault delays|failures [seeds [first]]`. Where messages are only late, every sum is right. Where
 * an operation fails, each call on each rank ends, with a right sum or a status that says why not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/net_fault.h"
#include "sched/sched.h"
#include "team.h"

enum { RANKS = 5, CALLS = 3, ROOM = 20000, SEED_SECONDS = 60 };

static bool failures;
static unsigned long seeds = 150, first = 1;

struct scene {
    unsigned long seed;
    const peal_algo *algo;
    unsigned n;
    char nodes[2 * RANKS + 1]; /* sizes; empty: all apart */
    int node[RANKS], nnodes;
    size_t count[CALLS];
    peali_layout layouts[RANKS];
    peali_fault faults[RANKS];
    int32_t *data[RANKS]; /* outlives the communicator: after a failure a peer may still read what it was sent */
    peal_status status[RANKS][CALLS];
    bool right[RANKS][CALLS];
};

static uint32_t mix(unsigned long x)
{
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return (uint32_t)(x ^ x >> 16);
}

static int32_t share(unsigned rank, size_t i, int call)
{
    return (int32_t)((i * 31 + rank * 17 + (size_t)call * 7) % 1009);
}

static bool right(const struct scene *s, const int32_t *data, int call)
{
    for (size_t i = 0; i < s->count[call]; i++) {
        int32_t sum = 0;
        for (unsigned r = 0; r < s->n; r++)
            sum += share(r, i, call);
        if (data[i] != sum)
            return false;
    }
    return true;
}

static void body(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    int32_t *data = s->data[rank];
    if (peal_comm_force(comm, PEAL_ALLREDUCE, s->algo->name) != PEAL_OK)
        return;
    peal_status status = PEAL_OK;
    for (int k = 0; k < CALLS; k++) {
        for (size_t i = 0; i < s->count[k] && status == PEAL_OK; i++) /* else others may still read it, or write there */
            data[i] = share((unsigned)rank, i, k);
        status = s->status[rank][k] = peal_allreduce(data, data, s->count[k], PEAL_INT32, PEAL_SUM, comm, NULL);
        s->right[rank][k] = status == PEAL_OK && right(s, data, k);
    }
}

/* The seed's allreduce, among those for these ranks. */
static const peal_algo *pick(const struct scene *s)
{
    const peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = (int)s->n, .nnodes = s->nnodes, .node = s->node};
    const peal_algo *fit[64];
    uint32_t nfit = 0;
    for (const peal_algo *const *a = peali_algos; *a && nfit < 64; a++)
        if ((*a)->kind == PEAL_ALLREDUCE && peali_algo_fits(*a, &problem))
            fit[nfit++] = *a;
    return fit[mix(s->seed * 3 + 1) % nfit];
}

/* Two seeds of three have nodes. */
static void place(struct scene *s)
{
    s->nnodes = 1;
    for (unsigned r = 0, size; s->seed % 3 && r < s->n; r += size, s->nnodes++) {
        size = 1 + mix(s->seed * 31 + r) % (s->n - r);
        snprintf(s->nodes + strlen(s->nodes), 3, r > 0 ? "+%u" : "%u", size % 10);
        for (unsigned k = r; k < r + size; k++)
            s->node[k] = s->nnodes - 1;
    }
    s->nnodes -= s->seed % 3 != 0;
}

static peali_layout layout(const struct scene *s, unsigned rank)
{
    peali_layout l = {.apart = !s->nodes[0], .nodes = s->nodes[0] ? s->nodes : NULL, .parley_ms = 20, .fault = &s->faults[rank]};
    unsigned how = mix(s->seed * 37) % 4;
    l.push = how == 0;
    l.pull = how == 1;
    l.staged = how == 1 && mix(s->seed * 41 + rank) % 2;
    l.slices = (int)(mix(s->seed * 11) % 6);
    l.window = l.slices ? 1 + (int)(mix(s->seed * 13) % 4) : 0;
    return l;
}

static void compose(struct scene *s, unsigned long seed)
{
    static const size_t counts[] = {1, 2, 7, 300, 3000, ROOM};
    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->n = 2 + mix(seed * 3) % (RANKS - 1);
    place(s);
    s->algo = pick(s);
    for (int k = 0; k < CALLS; k++)
        s->count[k] = counts[mix(seed * 7 + (unsigned)k) % 6];
    for (unsigned r = 0; r < s->n; r++) {
        s->faults[r] = (peali_fault){.seed = seed, .delay = (int)(mix(seed * 5) % 60)};
        s->layouts[r] = layout(s, r);
        s->data[r] = calloc(ROOM, sizeof(int32_t));
    }
    if (failures) {
        peali_fault *bad = &s->faults[mix(seed * 17) % s->n];
        bad->fail_at = 1 + mix(seed * 19) % 30;
        bad->lasting = mix(seed * 23) & 1;
    }
}

/* Says what is wrong with call K on rank R, or answers NULL. */
static const char *wrong(const struct scene *s, unsigned r, int k)
{
    peal_status status = s->status[r][k];
    if (status == PEAL_OK)
        return s->right[r][k] ? NULL : "a wrong sum";
    if (!failures)
        return "failed, but messages were only late";
    bool named = status == PEAL_ERR_NET || status == PEAL_ERR_TIMEOUT || status == PEAL_ERR_MISMATCH;
    return named ? NULL : "an error of another kind";
}

static void clear(struct scene *s)
{
    for (unsigned r = 0; r < s->n; r++)
        free(s->data[r]);
}

/* Threads of an overloaded machine may not find together in the short time that calls are given here; then they try again. */
static void run(struct scene *s, unsigned long seed)
{
    peal_status status = PEAL_ERR_TIMEOUT;
    for (int attempt = 0; attempt < 20 && status == PEAL_ERR_TIMEOUT; attempt++) {
        if (attempt > 0)
            clear(s);
        compose(s, seed);
        alarm(SEED_SECONDS);
        status = team_run_in(s->n, s->layouts, body, s);
        alarm(0);
    }
    assert_int_equal(status, PEAL_OK);
}

/* Plays SEED; true where any call failed. */
static bool play(unsigned long seed)
{
    static struct scene s;
    bool failed = false;
    run(&s, seed);
    for (unsigned r = 0; r < s.n; r++)
        for (int k = 0; k < CALLS; k++) {
            if (wrong(&s, r, k))
                fail_msg("seed %lu, %s, %u ranks on nodes %s, call %d with count %zu, rank %u: %s (%s)", seed, s.algo->name, s.n,
                         s.nodes, k, s.count[k], r, wrong(&s, r, k), peal_status_text(s.status[r][k]));
            failed |= s.status[r][k] != PEAL_OK;
        }
    clear(&s);
    return failed;
}

static void all_seeds(void **state)
{
    unsigned long failed = 0;
    for (unsigned long seed = first; seed < first + seeds; seed++)
        failed += play(seed);
    print_message("%lu seeds, %lu of them with failed calls\n", seeds, failed);
    assert_true(failures ? failed > seeds / 2 : failed == 0);
}

/* Both ranks start a call, one asks for it, and they are away for longer than PEAL_TIMEOUT, the other a little longer. */
static void compute_meanwhile(peal_comm *comm, int rank, void *ctx)
{
    struct scene *s = ctx;
    peal_request *request;
    s->status[rank][0] = peal_iallreduce(s->data[rank], s->data[rank], ROOM, PEAL_INT32, PEAL_SUM, comm, NULL, &request);
    for (int k = 0; k < 5000 && rank == 0 && s->status[rank][0] == PEAL_OK; k++)
        s->status[rank][0] = peal_test(&request) == PEAL_IN_PROGRESS ? PEAL_OK : PEAL_ERR_INVALID;
    usleep(1300000 + 100000 * (unsigned)rank);
    if (s->status[rank][0] == PEAL_OK)
        s->status[rank][0] = peal_wait(&request);
}

/* Nobody waits while all are away. */
static void away(void **state)
{
    static struct scene s = {.n = 2};
    peali_layout layouts[2] = {{.apart = true, .parley_ms = 20}, {.apart = true, .parley_ms = 20}};
    for (int r = 0; r < 2; r++)
        s.data[r] = calloc(ROOM, sizeof(int32_t));
    assert_int_equal(team_run_in(2, layouts, compute_meanwhile, &s), PEAL_OK);
    for (int r = 0; r < 2; r++)
        assert_int_equal(s.status[r][0], PEAL_OK);
    clear(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_seeds)};
    if (argc > 1 && strcmp(argv[1], "away") == 0) {
        const struct CMUnitTest one[] = {cmocka_unit_test(away)};
        setenv("PEAL_TIMEOUT", "1", 1);
        return cmocka_run_group_tests_name(argv[1], one, NULL, NULL);
    }
    if (argc < 2 || (strcmp(argv[1], "delays") != 0 && strcmp(argv[1], "failures") != 0)) {
        fprintf(stderr, "usage: test_fault delays|failures [seeds [first]] | away\n");
        return 2;
    }
    failures = strcmp(argv[1], "failures") == 0;
    seeds = argc > 2 ? strtoul(argv[2], NULL, 10) : seeds;
    first = argc > 3 ? strtoul(argv[3], NULL, 10) : first;
    setenv("PEAL_TIMEOUT", failures ? "0.2" : "50", 1);
    setenv("PEAL_LOG_FILE", "/dev/null", 0); /* failures are logged, by the thousand */
    return cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
