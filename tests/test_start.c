/* Ranks that start together: all at one time, however late some hear of it. (Clocks that stand elsewhere: test_bench_clocks.sh.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "race.h"
#include "start.h"

enum { RANKS = 3, CALLS = 20 };

static const int64_t late_ns = 300000;
static bool one_is_late;
static void (*honest)(peali_team *team, double *values, int n);
static int64_t starts[RANKS][CALLS], left[RANKS][CALLS], leads[RANKS];

/* race.c's, which the start is not tested with: all samples of a rank are alike here. */
double peali_median(double *samples, int n)
{
    return samples[n / 2];
}

/* The last rank hears of every agreement later than the others. */
static void heard(peali_team *team, double *values, int n)
{
    honest(team, values, n);
    int64_t until = peali_clock_ns() + late_ns;
    while (one_is_late && team->rank == RANKS - 1 && peali_clock_ns() < until)
        ;
}

static int body(peali_team *team, void *arg)
{
    peali_team own = *team;
    own.max = heard;
    peali_start start = {0};
    for (int i = 0; i < CALLS; i++) {
        starts[team->rank][i] = peali_start_wait(&start, &own);
        left[team->rank][i] = peali_clock_ns();
    }
    leads[team->rank] = start.lead;
    return 0;
}

static int learn(peali_team *team, void *arg)
{
    if (team->rank == 0)
        honest = team->max;
    return 0;
}

static void race(bool late)
{
    one_is_late = late;
    assert_int_equal(peali_team_threads(RANKS, learn, NULL), 0);
    assert_int_equal(peali_team_threads(RANKS, body, NULL), 0);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(leads[r], leads[0]);
        assert_true(leads[r] >= (late ? 2 * late_ns : 1));
        for (int i = 0; i < CALLS; i++) {
            assert_int_equal(starts[r][i], starts[0][i]);
            assert_true(left[r][i] >= starts[r][i]); /* nobody leaves before */
            assert_true(i == 0 || starts[r][i] > left[0][i - 1]); /* agreed on when all had come */
        }
    }
}

static void test_all_hear_at_once(void **state)
{
    race(false);
}

static void test_one_hears_late(void **state)
{
    race(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hear_at_once),
        cmocka_unit_test(test_one_hears_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
