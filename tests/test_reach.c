/*
 * Programs across reach: random collectives in a row, without a barrier, in pull and push, on 1 to 4 nodes of threads with messages
 * between them, with short windows, one rank staged, and slow and fast ranks; every result must be right.
 *
 * usage: test_reach [ROUNDS [CALLS [FIRST_SEED]]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sched/sched.h"
#include "team.h"

enum { MOST_RANKS = 13, ROOM = 1500 };

static int rounds = 60, calls = 60, first_seed = 1;

typedef struct scene {
    int n, slow;
    unsigned seed;
    int wrong[MOST_RANKS];
    char nodes[32];
    peali_layout layout[MOST_RANKS];
} scene;

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* The shares of one rank: wrapping integer products and sums show a share that is missing, doubled or of another call. */
static uint32_t share(unsigned call, int rank, size_t i)
{
    return (uint32_t)(call * 2654435761u + (unsigned)rank * 40503u + (unsigned)i * 69069u) | 1;
}

static uint32_t sum_of(unsigned call, int n, size_t i)
{
    uint32_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += share(call, r, i);
    return sum;
}

static const peal_algo *some_algo(const scene *s, unsigned *seed)
{
    int node[MOST_RANKS], nodes = 0;
    const char *at = s->nodes;
    for (int r = 0; r < s->n; nodes++) {
        char *end;
        for (long size = strtol(at, &end, 10); size > 0; size--)
            node[r++] = nodes;
        at = end + 1;
    }
    const peal_algo *fit[64];
    unsigned n = 0;
    for (const peal_algo *const *a = peali_algos; *a && n < 64; a++) {
        peal_problem problem = {.kind = (*a)->kind, .nranks = s->n, .nnodes = nodes, .node = node};
        if (peali_algo_fits(*a, &problem))
            fit[n++] = *a;
    }
    return fit[next(seed) % n];
}

typedef struct turn {
    const peal_algo *algo;
    unsigned call;
    int n, rank, root, in_place;
    size_t count;
    uint32_t in[MOST_RANKS * ROOM], out[MOST_RANKS * ROOM];
} turn;

/* The elements of the whole vector that rank RANK gives, [from, from + n). */
static size_t given(const turn *t, size_t *from)
{
    peal_kind kind = t->algo->kind;
    *from = kind == PEAL_ALLGATHER ? (size_t)t->rank * t->count : 0;
    return kind == PEAL_REDUCE_SCATTER ? (size_t)t->n * t->count : t->count;
}

static size_t wanted(const turn *t, size_t *from)
{
    peal_kind kind = t->algo->kind;
    *from = kind == PEAL_REDUCE_SCATTER ? (size_t)t->rank * t->count : 0;
    if (kind == PEAL_REDUCE && t->rank != t->root)
        return 0;
    return kind == PEAL_ALLGATHER ? (size_t)t->n * t->count : t->count;
}

static uint32_t expected(const turn *t, size_t i)
{
    if (t->algo->kind == PEAL_BROADCAST)
        return share(t->call, t->root, i);
    if (t->algo->kind == PEAL_ALLGATHER)
        return share(t->call, (int)(i / t->count), i);
    return sum_of(t->call, t->n, i);
}

static peal_status do_call(peal_comm *comm, turn *t, const uint32_t *in, uint32_t *out)
{
    uint32_t *result = t->algo->kind == PEAL_REDUCE && t->rank != t->root ? NULL : out;
    switch (t->algo->kind) {
    case PEAL_ALLREDUCE:
        return peal_allreduce(in, out, t->count, PEAL_UINT32, PEAL_SUM, comm, NULL);
    case PEAL_ALLGATHER:
        return peal_allgather(in, out, t->count, PEAL_UINT32, comm, NULL);
    case PEAL_REDUCE_SCATTER:
        return peal_reduce_scatter(in, out, t->count, PEAL_UINT32, PEAL_SUM, comm, NULL);
    case PEAL_BROADCAST:
        return peal_broadcast(out, t->count, PEAL_UINT32, t->root, comm, NULL);
    default:
        return peal_reduce(in, result, t->count, PEAL_UINT32, PEAL_SUM, t->root, comm, NULL);
    }
}

/* In place, the buffer that holds the whole vector is both: OUT, but for a reduce-scatter. */
static int run_turn(peal_comm *comm, turn *t)
{
    size_t at, from, n = given(t, &at);
    peal_kind kind = t->algo->kind;
    int whole_out = kind != PEAL_REDUCE_SCATTER, whole_in = kind != PEAL_ALLGATHER;
    uint32_t *in = t->in, *out = t->out;
    if (t->in_place || kind == PEAL_BROADCAST) {
        in = whole_in ? t->out : t->out + at;
        out = whole_out ? t->out : t->out + (size_t)t->rank * t->count;
    }
    for (size_t i = 0; i < n && (kind != PEAL_BROADCAST || t->rank == t->root); i++)
        in[i] = share(t->call, t->rank, at + i);
    if (peal_comm_force(comm, kind, t->algo->name) != PEAL_OK || do_call(comm, t, in, out) != PEAL_OK)
        return 1;
    n = wanted(t, &from);
    for (size_t i = 0; i < n; i++)
        if (out[i] != expected(t, from + i)) {
            fprintf(stderr, "call %u rank %d of %d: %s %s count %zu root %d in place %d: element %zu is wrong\n", t->call, t->rank,
                    t->n, peal_kind_name(kind), t->algo->name, t->count, t->root, t->in_place, i);
            return 1;
        }
    return 0;
}

static int one_call(peal_comm *comm, scene *s, int rank, unsigned call, unsigned *seed)
{
    static const size_t sizes[] = {1, 2, 5, 13, 64, 333, 1000, ROOM};
    turn *t = malloc(sizeof *t);
    *t = (turn){.call = call, .n = s->n, .rank = rank};
    t->count = sizes[next(seed) % 8];
    t->in_place = next(seed) % 2;
    t->algo = some_algo(s, seed);
    t->root = t->algo->kind == PEAL_BROADCAST || t->algo->kind == PEAL_REDUCE ? (int)(next(seed) % (unsigned)s->n) : 0;
    int wrong = run_turn(comm, t);
    free(t);
    return wrong;
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned seed = s->seed;
    struct timespec nap = {0, 200 * 1000};
    for (unsigned call = 0; call < (unsigned)calls && s->wrong[rank] == 0; call++) {
        s->wrong[rank] += one_call(comm, s, rank, call, &seed);
        if (rank == s->slow && next(&seed) % 8 == 0)
            nanosleep(&nap, NULL);
        else if (rank != s->slow)
            next(&seed);
    }
}

static void lay_out(scene *s, unsigned *seed)
{
    int nodes = 1 + (int)(next(seed) % 4), at = 0;
    s->n = 2 + (int)(next(seed) % (MOST_RANKS - 1));
    nodes = nodes < s->n ? nodes : s->n;
    for (int k = 0, left = s->n; k < nodes; k++) {
        int size = k == nodes - 1 ? left : 1 + (int)(next(seed) % (unsigned)(left - (nodes - k) + 1));
        left -= size;
        at += snprintf(s->nodes + at, sizeof s->nodes - (size_t)at, "%s%d", k ? "+" : "", size);
    }
    peali_layout l = {.nodes = s->nodes, .push = next(seed) % 2, .slices = 1 + (int)(next(seed) % 7)};
    l.window = 1 + (int)(next(seed) % 4);
    l.land_bytes = 16 << 10;
    for (int r = 0; r < s->n; r++)
        s->layout[r] = l;
    s->layout[next(seed) % (unsigned)s->n].staged = !l.push && next(seed) % 2;
    s->slow = (int)(next(seed) % (unsigned)s->n);
}

static void test_random_calls_in_a_row(void **state)
{
    for (int round = 0; round < rounds; round++) {
        scene s = {.seed = (unsigned)(first_seed + round)};
        unsigned seed = s.seed * 7919u;
        lay_out(&s, &seed);
        assert_int_equal(team_run_in((unsigned)s.n, s.layout, play, &s), PEAL_OK);
        for (int r = 0; r < s.n; r++)
            if (s.wrong[r])
                fail_msg("seed %u, %d ranks (%s), push %d, slices %d, window %d: rank %d", s.seed, s.n, s.nodes, s.layout[0].push,
                         s.layout[0].slices, s.layout[0].window, r);
    }
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    calls = argc > 2 ? atoi(argv[2]) : calls;
    first_seed = argc > 3 ? atoi(argv[3]) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_calls_in_a_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
