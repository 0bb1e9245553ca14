/*
 * Which calls write their results past the caches: those whose OUT was none of the last few. Where peers write them, with ranks
 * that ask for it and ranks that do not, and where each rank copies what has landed for it, all results are right, wherever they
 * lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm_private.h"
#include "exec/runner.h"
#include "team.h"

enum { RANKS = 4, COUNT = 5003, OUTS = PEALI_RUN_WARM + 1 };

typedef struct step {
    int out; /* IN_PLACE: the call is in place there */
    size_t count;
    peal_op op;
    bool past;
} step;

enum { IN_PLACE = OUTS };

static const step steps[] = {
    {0, COUNT, PEAL_SUM, true}, {0, COUNT, PEAL_SUM, false}, {1, COUNT, PEAL_SUM, true}, {2, COUNT, PEAL_SUM, true},
    {3, COUNT, PEAL_SUM, true}, {0, COUNT, PEAL_MAX, false}, {IN_PLACE, COUNT, PEAL_SUM, false},
    {4, 4000, PEAL_SUM, false}, {4, COUNT, PEAL_AVG, false}, {0, COUNT, PEAL_SUM, false},
    {4, COUNT, PEAL_SUM, true}, /* in the place of 0 */
    {1, COUNT, PEAL_SUM, false}, {0, COUNT, PEAL_SUM, true}, {4, COUNT, PEAL_SUM, false}, {3, COUNT, PEAL_SUM, false},
};

typedef struct scene {
    unsigned n;
    bool others_rest; /* all ranks but the first have one OUT only */
    bool staged;      /* the second one's buffers */
    bool push;        /* what each rank gets lands with it, and it copies that to its OUT */
    const char *wrong;
} scene;

static bool right(const step *s, const int32_t *out, int n)
{
    for (int32_t i = 0; i < (int32_t)s->count; i++) {
        int32_t sum = n * i + n * (n - 1) / 2;
        if (out[i] != (s->op == PEAL_SUM ? sum : s->op == PEAL_AVG ? sum / n : i + n - 1))
            return false;
    }
    return true;
}

static const char *one(peal_comm *comm, const step *s, int32_t (*at)[COUNT], int out, bool past)
{
    int rank = peal_comm_rank(comm), n = peal_comm_size(comm);
    int32_t *in = at[IN_PLACE], *to = at[out];
    for (int32_t i = 0; i < COUNT; i++)
        in[i] = i + rank;
    if (peal_allreduce(in, to, s->count, PEAL_INT32, s->op, comm, NULL) != PEAL_OK || !right(s, to, n))
        return "result";
    return comm->runner->mine->front.past == past ? NULL : "past";
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    int32_t(*at)[COUNT] = malloc((OUTS + 1) * sizeof *at);
    bool rests = s->others_rest && rank > 0, asks = s->n == RANKS;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        const char *wrong = one(comm, &steps[k], at, rests ? 0 : steps[k].out, asks && (rests ? k == 0 : steps[k].past));
        if (wrong)
            __atomic_store_n(&s->wrong, wrong, __ATOMIC_RELAXED);
    }
    free(at);
}

/* Of too few ranks, none asks. */
static void test_cold_buffers(void **state)
{
    for (int variant = 0; variant < 16; variant++) {
        scene s = {variant & 1 ? RANKS : RANKS - 1, variant & 2, variant & 4, variant & 8, NULL};
        peali_layout layouts[RANKS];
        for (int r = 0; r < RANKS; r++)
            layouts[r] = (peali_layout){.pull = !s.push, .push = s.push, .staged = s.staged && r == 1};
        assert_int_equal(team_run_in(s.n, layouts, play, &s), PEAL_OK);
        if (s.wrong)
            fail_msg("variant %d: %s", variant, s.wrong);
    }
}

/* What this rank wrote past the caches. */
static _Thread_local size_t streamed;

static void watch(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count, bool stream)
{
    streamed += stream ? count : 0;
    peali_reduce_find(PEAL_UINT8, PEAL_SUM)(dst, ndst, src, nsrc, count, stream);
}

/* And so many OUTs are warm. */
static void watch_all(peal_comm *comm, size_t warm)
{
    for (int k = 0; k < PLAN_SETS * PLAN_WAYS; k++) {
        peali_plan *plan = comm->plans.plan[k / PLAN_WAYS][k % PLAN_WAYS];
        if (plan) {
            plan->reduce = watch;
            plan->warm = warm;
        }
    }
}

enum { LANDED = 20 << 10, ROOM = LANDED + 256, ODD = 0xa5, TIMES = 48 };

/* COUNT bytes to OUT + SHIFT, and none beside them; PAST: all blocks that others have summed went past the caches, else none. */
static bool lands(peal_comm *comm, unsigned char *in, unsigned char *out, size_t shift, size_t count, bool past)
{
    int rank = peal_comm_rank(comm);
    for (size_t i = 0; i < count; i++)
        in[i] = (unsigned char)(i * 7 + i / 251 + (size_t)rank);
    if (in != out)
        memset(out - shift, ODD, ROOM);
    streamed = 0;
    if (peal_allreduce(in, out, count, PEAL_UINT8, PEAL_SUM, comm, NULL) != PEAL_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        if (out[i] != (unsigned char)(RANKS * (i * 7 + i / 251) + RANKS * (RANKS - 1) / 2))
            return false;
    for (size_t i = 0; i < ROOM && in != out; i++)
        if ((i < shift || i >= shift + count) && out[i - shift] != ODD)
            return false;
    size_t own = count / RANKS + 2; /* its own block, in each of a few slices longer by one */
    return streamed == 0 ? !past : past && streamed + own >= count && streamed <= count;
}

static void play_landed(peal_comm *comm, int rank, void *ctx)
{
    unsigned char *room[OUTS + 1];
    bool ok = peal_comm_force(comm, PEAL_ALLREDUCE, "two_shot") == PEAL_OK;
    (void)rank;
    for (int k = 0; k <= OUTS; k++)
        room[k] = malloc(ROOM);
    for (unsigned t = 0; t < TIMES; t++) {
        size_t count = LANDED - t % 3 * 61 - t / 3, shift = t * 5 % 67;
        unsigned char *in = room[OUTS] + t % 7;
        lands(comm, in, room[0] + shift, shift, count, false); /* makes the plan */
        watch_all(comm, SIZE_MAX);
        for (int k = 1; k < OUTS; k++)
            ok = lands(comm, in, room[k] + shift, shift, count, true) && ok;
        ok = lands(comm, in, room[1] + shift, shift, count, false) && ok;
        ok = lands(comm, in, in, 0, count, false) && ok;
        watch_all(comm, 1);
        ok = lands(comm, in, room[1] + shift, shift, count, true) && ok;
        ok = lands(comm, in, room[1] + shift, shift, count, false) && ok;
        ok = lands(comm, in, room[OUTS - 1] + shift, shift, count, true) && ok;
    }
    for (int k = 0; k <= OUTS; k++)
        free(room[k]);
    if (!ok)
        __atomic_store_n((bool *)ctx, true, __ATOMIC_RELAXED);
}

/* Of all lengths and places, cold, warm and in place, in slices and in one. */
static void test_landed(void **state)
{
    peali_layout layouts[RANKS];
    bool wrong = false;
    for (size_t whole = 0; whole < 2; whole++) {
        for (int r = 0; r < RANKS; r++)
            layouts[r] = (peali_layout){.push = true, .land_bytes = whole << 20};
        assert_int_equal(team_run_in(RANKS, layouts, play_landed, &wrong), PEAL_OK);
        assert_false(wrong);
    }
}

/* Of long vectors also where ranks are few; not what is read once more, as an average is. */
static void play_long(peal_comm *comm, int rank, void *ctx)
{
    enum { LEAST = (8 << 20) + 1 };
    static const struct {
        size_t count;
        peal_op op;
        bool past;
    } calls[] = {{LEAST - 1, PEAL_SUM, false}, {LEAST, PEAL_SUM, true}, {LEAST, PEAL_AVG, false}, {LEAST, PEAL_MAX, true}};
    unsigned char *in = malloc(LEAST), *out = malloc(LEAST);
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        memset(in, 3 + rank, LEAST);
        memset(out, ODD, LEAST);
        const unsigned char want = calls[k].op == PEAL_SUM ? 7 : calls[k].op == PEAL_AVG ? 3 : 4;
        bool ok = peal_allreduce(in, out, calls[k].count, PEAL_UINT8, calls[k].op, comm, NULL) == PEAL_OK;
        ok &= comm->runner->mine->front.past == calls[k].past && out[0] == want;
        ok &= memcmp(out, out + 1, calls[k].count - 1) == 0;
        if (!ok)
            __atomic_store_n((bool *)ctx, true, __ATOMIC_RELAXED);
    }
    if (peal_broadcast(out, LEAST, PEAL_UINT8, 0, comm, NULL) != PEAL_OK || !comm->runner->mine->front.past)
        __atomic_store_n((bool *)ctx, true, __ATOMIC_RELAXED); /* also who gives nothing, and only gets it */
    free(in);
    free(out);
}

static void test_long(void **state)
{
    const peali_layout layouts[2] = {{0}};
    bool wrong = false;
    assert_int_equal(team_run_in(2, layouts, play_long, &wrong), PEAL_OK);
    assert_false(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_buffers),
        cmocka_unit_test(test_landed),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
