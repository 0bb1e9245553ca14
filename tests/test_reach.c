/*
 * Programs across reach: random collectives in a row, without a barrier, in pull and push, on 1 to 4 nodes of threads with messages
 * between them, with short windows, one rank staged, and slow and fast ranks; every result must be right. And by messages alone, of
 * which each waits for its receive.
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
#include <unistd.h>

#include "comm/comm_private.h"
#include "exec/runner.h"
#include "team.h"
#include "turns.h"

enum { ROOM = 1500, CLASS = 64 * PEAL_REDUCE + 5 };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static int rounds = 15;
#else
static int rounds = 60;
#endif
static int calls = 60, first_seed = 1;

typedef struct scene {
    int n, slow;
    unsigned seed;
    int wrong[TURN_RANKS];
    char nodes[32];
    peali_layout layout[TURN_RANKS];
} scene;

static int one_call(peal_comm *comm, scene *s, int rank, unsigned call, unsigned *seed)
{
    static const size_t sizes[] = {1, 2, 5, 13, 64, 333, 1000, ROOM};
    turn t = {.call = call, .n = s->n, .rank = rank};
    turn_draw(&t, sizes, 8, s->nodes, seed);
    t.in = malloc(2 * sizeof *t.in * (size_t)t.n * t.count);
    t.out = t.in + (size_t)t.n * t.count;
    int wrong = turn_play(comm, &t);
    free(t.in);
    return wrong;
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    unsigned seed = s->seed;
    struct timespec nap = {0, 200 * 1000};
    for (unsigned call = 0; call < (unsigned)calls && s->wrong[rank] == 0; call++) {
        s->wrong[rank] += one_call(comm, s, rank, call, &seed);
        if (rank == s->slow && turn_next(&seed) % 8 == 0)
            nanosleep(&nap, NULL);
        else if (rank != s->slow)
            turn_next(&seed);
    }
}

static void lay_out(scene *s, unsigned *seed)
{
    s->n = 2 + (int)(turn_next(seed) % (TURN_RANKS - 1));
    turn_nodes(s->nodes, sizeof s->nodes, s->n, seed);
    peali_layout l = {.nodes = s->nodes, .push = turn_next(seed) % 2, .slices = 1 + (int)(turn_next(seed) % 7)};
    l.window = 1 + (int)(turn_next(seed) % 4);
    l.land_bytes = 16 << 10;
    l.stream = s->seed % 2;
    l.piece = s->seed % 3 ? 64 : 0;
    for (int r = 0; r < s->n; r++)
        s->layout[r] = l;
    s->layout[turn_next(seed) % (unsigned)s->n].staged = !l.push && turn_next(seed) % 2;
    s->slow = (int)(turn_next(seed) % (unsigned)s->n);
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

static void play_all(peal_comm *comm, int rank, void *ctx)
{
    static const size_t sizes[] = {100, 300, ROOM};
    int *wrong = ctx, n = peal_comm_size(comm);
    uint32_t *data = malloc(2 * sizeof *data * (size_t)n * ROOM);
    for (const peal_algo *const *a = peali_algos; *a && wrong[rank] == 0; a++) {
        const peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = 1};
        for (unsigned k = 0; k < 3 && peali_algo_fits(*a, &problem); k++) {
            turn t = {.algo = *a, .call = k, .n = n, .rank = rank, .count = sizes[k], .in = data, .out = data + (size_t)n * ROOM};
            wrong[rank] |= turn_play(comm, &t);
        }
    }
    free(data);
}

/* A call that made progress only when ranks ask each other what they called would not end here. */
static void test_nobody_has_to_ask(void **state)
{
    for (unsigned n = 2; n <= 5; n++)
        for (int push = 0; push < 2; push++) {
            int wrong[TURN_RANKS] = {0};
            peali_layout layouts[TURN_RANKS];
            for (unsigned r = 0; r < n; r++)
                layouts[r] = (peali_layout){.apart = true, .push = push, .parley_ms = 3600000};
            alarm(100);
            assert_int_equal(team_run_in(n, layouts, play_all, wrong), PEAL_OK);
            alarm(0);
            for (unsigned r = 0; r < n; r++)
                assert_int_equal(wrong[r], 0);
        }
}

/* The ring allreduce, whose results go round on and on: so many flags no rank has. */
static void build_long(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, next = peal_mod(rank + 1, n), prev = peal_mod(rank - 1, n);
    peal_blocks(s, n);
    peal_copy(s, peal_out(0, n), peal_in(0, n));
    for (int i = 0; i < n - 1; i++) {
        peal_send(s, next, peal_out(peal_mod(rank - i, n), 1));
        peal_recv(s, prev, peal_tmp(i % 2, peal_mod(rank - i - 1, n)));
        peal_reduce_into(s, peal_out(peal_mod(rank - i - 1, n), 1), peal_tmp(i % 2, peal_mod(rank - i - 1, n)));
    }
    for (int i = 0; i < 2 * PEALI_REACH_FLAGS; i++) {
        peal_send(s, next, peal_out(peal_mod(rank + 1 - i, n), 1));
        peal_recv(s, prev, peal_out(peal_mod(rank - i, n), 1));
    }
}

static const peal_algo long_ring = {.name = "long_ring", .kind = PEAL_ALLREDUCE, .build = build_long};

/* As a call does it that took ALGO. Returns its program, or NULL where the result is wrong. */
static const peali_program *play_algo(peal_comm *comm, const peal_algo *algo, const turn *t, int32_t slices, peali_mode mode)
{
    peal_problem problem = peali_comm_problem(comm, algo->kind, PEAL_SUM, 0);
    peali_job job = {.kind = algo->kind, .algo = algo, .count = t->count, .type = PEAL_UINT32, .slices = slices, .window = 1,
                     .mode = mode};
    peali_task task = {&problem, &comm->reach, comm->rank, comm->runner, &comm->lands, false};
    const peali_plan *plan;
    peal_status status = peali_plans_get(&comm->plans, &task, &job, &plan);
    if (status != PEAL_OK)
        return NULL;
    for (size_t i = 0; i < t->count; i++)
        t->in[i] = turn_share(t->call, t->rank, i);
    peali_run_start(comm->runner, plan, t->in, t->out, comm->sequence++);
    peali_run_show(comm->runner, CLASS);
    while ((status = peali_run_step(comm->runner)) == PEAL_IN_PROGRESS)
        peali_run_rest(comm->runner);
    for (size_t i = 0; i < t->count && status == PEAL_OK && (algo->kind == PEAL_ALLREDUCE || t->rank == 0); i++) {
        uint32_t sum = 0;
        for (int r = 0; r < t->n; r++)
            sum += turn_share(t->call, r, i);
        status = t->out[i] == sum ? PEAL_OK : PEAL_ERR_MISMATCH;
    }
    return status == PEAL_OK ? plan->program : NULL;
}

static bool play_long(peal_comm *comm, const turn *t, int32_t slices, peali_mode mode)
{
    const peali_program *program = play_algo(comm, &long_ring, t, slices, mode);
    return program && program->nreach == 1 && peali_run_seen(comm->runner) < 0;
}

static void play_limits(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx, n = peal_comm_size(comm);
    uint32_t *data = malloc(2 * sizeof *data * (size_t)n * ROOM);
    for (unsigned k = 0; k < 9 && wrong[rank] == 0; k++) {
        turn t = {.call = k, .n = n, .rank = rank, .count = k % 3 ? ROOM : 7, .in = data, .out = data + (size_t)n * ROOM};
        wrong[rank] = !play_long(comm, &t, 1 + (int32_t)k % 2, comm->layout.push ? PEALI_PUSH : PEALI_PULL);
        t.algo = peali_algo_find(PEAL_ALLREDUCE, "two_shot");
        wrong[rank] |= turn_play(comm, &t);
    }
    free(data);
}

/* A program with more flags, or landing slots, than there are has messages only, between others; each rank is still itself. */
static void test_too_many_flags(void **state)
{
    for (int how = 0; how < 3; how++) {
        int wrong[3] = {0};
        const peali_layout all = {.pull = how < 2, .push = how == 2};
        peali_layout layouts[3] = {all, all, all};
        layouts[1].staged = how == 1;
        assert_int_equal(team_run_in(3, layouts, play_limits, wrong), PEAL_OK);
        for (int r = 0; r < 3; r++)
            assert_int_equal(wrong[r], 0);
    }
}

/* Each block of everybody's vector to the root by itself: so many landing slots no rank has, but flags enough. */
static void build_pieces(peal_sched *s, const peal_problem *p, int rank)
{
    enum { PIECES = PEALI_REACH_SLOTS + 1 };
    peal_blocks(s, PIECES);
    if (rank == 0)
        peal_copy(s, peal_out(0, PIECES), peal_in(0, PIECES));
    for (int i = 0; i < PIECES; i++)
        for (int r = 1; r < p->nranks; r++)
            if (rank == r) {
                peal_send(s, 0, peal_in(i, 1));
            } else if (rank == 0) {
                peal_recv(s, r, peal_tmp(r, i));
                peal_reduce_into(s, peal_out(i, 1), peal_tmp(r, i));
            }
}

static const peal_algo pieces = {.name = "pieces", .kind = PEAL_REDUCE, .build = build_pieces};

static void play_pieces(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx, n = peal_comm_size(comm);
    uint32_t data[2 * ROOM];
    for (unsigned k = 0; k < 4 && wrong[rank] == 0; k++) {
        turn t = {.call = k, .n = n, .rank = rank, .count = k % 2 ? ROOM : 7, .in = data, .out = data + ROOM};
        const peali_program *program = play_algo(comm, &pieces, &t, 1, PEALI_PUSH);
        wrong[rank] = !program || program->nreach != n || program->mode != PEALI_PULL;
    }
}

/* With more landing slots than there are, but not flags, peers are read. */
static void test_too_many_landings(void **state)
{
    int wrong[3] = {0};
    const peali_layout push = {.push = true}, layouts[3] = {push, push, push};
    assert_int_equal(team_run_in(3, layouts, play_pieces, wrong), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wrong[r], 0);
}

/* What memory a reduce met is read behind a call of which each rank knows that all have left the reduce: not one by messages. */
static void play_showing(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx, n = peal_comm_size(comm);
    const peal_algo *tree = peali_algo_find(PEAL_REDUCE, "two_tree"), *all = peali_algo_find(PEAL_ALLREDUCE, "two_shot");
    uint32_t data[2 * ROOM];
    turn t = {.n = n, .rank = rank, .count = 100, .in = data, .out = data + ROOM};
    wrong[rank] |= !play_algo(comm, tree, &t, 1, PEALI_PULL);
    for (int k = 0; k < 3; k++) {
        wrong[rank] |= !play_long(comm, &t, 1, PEALI_PULL);
        wrong[rank] |= peali_run_look(comm->runner, CLASS) >= 0;
    }
    for (int k = 0; k < 2; k++)
        wrong[rank] |= !play_algo(comm, all, &t, 1, PEALI_PULL);
    wrong[rank] |= peali_run_look(comm->runner, CLASS) < 0;
}

static void test_who_has_left_is_not_counted_by_messages(void **state)
{
    int wrong[4] = {0};
    assert_int_equal(team_run(4, play_showing, wrong), PEAL_OK);
    for (int r = 0; r < 4; r++)
        assert_int_equal(wrong[r], 0);
}

/* How many landing slots of a two-shot allreduce among N have one reader each, and data beside their lines. */
static int32_t slots_of_one(int n, size_t count, int32_t *all)
{
    peali_program *programs[4];
    int32_t ranks[] = {0, 1, 2, 3}, alone = 0;
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = n, .nnodes = 1};
    peali_job job = {.algo = peali_algo_find(PEAL_ALLREDUCE, "two_shot"), .count = count, .type = PEAL_UINT32, .slices = 1,
                     .window = 1, .mode = PEALI_PUSH};
    peali_plan *plan;
    assert_int_equal(peali_lower_all(job.algo, &problem, &(peali_reach){n, ranks, PEALI_PUSH}, programs), PEAL_OK);
    assert_int_equal(peali_plan_make(programs[0], &job, &plan), PEAL_OK);
    for (int32_t slot = 0; slot < programs[0]->nland; slot++)
        alone += peali_plan_alone(plan, slot);
    *all = programs[0]->nland;
    peali_plan_free(&plan);
    for (int r = 0; r < n; r++)
        peali_program_free(&programs[r]);
    return alone;
}

/* What a rank reads alone it may write to: shares of a sum, and its result only where one other rank gets it. */
static void test_who_reads_alone(void **state)
{
    for (int n = 2; n <= 4; n++) {
        int32_t all, alone = slots_of_one(n, 3000, &all);
        assert_int_equal(all, 2 * n * (n - 1));
        assert_int_equal(alone, n == 2 ? all : n * (n - 1));
        assert_int_equal(slots_of_one(n, (size_t)n, &all), 0);
    }
}

/* Stamps tell whose buffers are seen, also of the slices at which their numbers begin anew. */
static void test_stamps_of_many_slices(void **state)
{
    static peali_runner writer = {.call = 5}, reader = {.call = 5};
    for (uint64_t g = PEALI_RUN_SEEN - 3; g < PEALI_RUN_SEEN + 3; g++)
        for (int seen = 0; seen < 2; seen++) {
            writer.seen = seen;
            reader.seen = true;
            assert_true(peali_run_stamped(&reader, peali_run_stamp(&writer, g), g));
            assert_int_equal(reader.seen, seen);
            assert_false(peali_run_stamped(&reader, peali_run_stamp(&writer, g), g + 1));
        }
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    calls = argc > 2 ? atoi(argv[2]) : calls;
    first_seed = argc > 3 ? atoi(argv[3]) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_calls_in_a_row),
        cmocka_unit_test(test_nobody_has_to_ask),
        cmocka_unit_test(test_too_many_flags),
        cmocka_unit_test(test_too_many_landings),
        cmocka_unit_test(test_who_has_left_is_not_counted_by_messages),
        cmocka_unit_test(test_who_reads_alone),
        cmocka_unit_test(test_stamps_of_many_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
