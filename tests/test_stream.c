/*
 * Which calls ask peers to write their results past the caches: those whose OUT they write to, and which was none of the last few.
 * With ranks that ask and ranks that do not, all results are right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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
    bool rests = s->others_rest && rank > 0, asks = s->n == RANKS && !(s->staged && rank == 1);
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
    for (int variant = 0; variant < 8; variant++) {
        scene s = {variant & 1 ? RANKS : RANKS - 1, variant & 2, variant & 4, NULL};
        peali_layout layouts[RANKS];
        for (int r = 0; r < RANKS; r++)
            layouts[r] = (peali_layout){.pull = true, .staged = s.staged && r == 1};
        assert_int_equal(team_run_in(s.n, layouts, play, &s), PEAL_OK);
        if (s.wrong)
            fail_msg("variant %d: %s", variant, s.wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cold_buffers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
