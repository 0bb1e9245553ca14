/* Calls go the quicker way, and find out when that is the other one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "exec/trial.h"

/* CALLS calls that take NS by either way: how many went way 1. */
static int run(peali_trial *t, int calls, int64_t ns0, int64_t ns1)
{
    int ones = 0;
    for (int i = 0; i < calls; i++) {
        const int way = peali_trial_way(t);
        ones += way;
        peali_trial_tell(t, way, way ? ns1 : ns0);
    }
    return ones;
}

static void test_the_quicker_way(void **state)
{
    peali_trial t = {0}, other = {0}, same = {0};
    assert_int_equal(run(&t, 64, 100, 99), 60);
    assert_int_equal(run(&other, 64, 100, 500), 4);
    assert_int_equal(run(&same, 64, 100, 100), 4);
}

static void test_a_first_call_that_sets_up(void **state)
{
    peali_trial t = {0}, other = {0};
    assert_int_equal(run(&t, 2, 100, 9000), 1);
    assert_int_equal(run(&t, 62, 100, 50), 59);
    assert_int_equal(run(&other, 2, 100, 10), 1); /* nor does one that happens to be quick count */
    assert_int_equal(run(&other, 62, 100, 200), 3);
}

/* Two of three calls that count may be slowed down by something else, whichever way they go. */
static void test_noise(void **state)
{
    peali_trial t = {0}, other = {0};
    assert_int_equal(run(&t, 4, 100, 900) + run(&t, 2, 100, 50) + run(&t, 2, 100, 900), 4);
    assert_int_equal(run(&t, 56, 100, 50), 56);
    assert_int_equal(run(&other, 4, 900, 100) + run(&other, 2, 50, 100) + run(&other, 2, 900, 100), 4);
    assert_int_equal(run(&other, 56, 50, 100), 0);
}

/* What else runs there changes. */
static void test_turns(void **state)
{
    peali_trial t = {0};
    assert_int_equal(run(&t, 64, 100, 90), 60);
    assert_int_equal(run(&t, 64, 100, 110), 4);
    assert_int_equal(run(&t, 64, 100, 90), 60);
}

/* Calls that take five or 50 times as long by one way: at most a hundredth of the time goes into that, or four calls of 2048. */
static void test_a_way_that_is_far_slower(void **state)
{
    peali_trial t = {0}, far = {0}, none = {0};
    assert_int_equal(run(&t, 2048, 100, 500), 4);
    assert_int_equal(run(&t, 8, 100, 500), 4);
    assert_int_equal(run(&far, 2048, 5000, 100), 2044);
    assert_int_equal(run(&far, 8, 5000, 100), 4);
    assert_int_equal(run(&none, 2048, 0, 100), 4);
}

/* Each by what it measures, but where one does try, those that try more often do, too. */
static void test_ranks_that_differ(void **state)
{
    peali_trial t[3];
    int tried[3] = {0};
    memset(t, 0, sizeof t);
    for (int i = 0; i < 2048; i++) {
        bool slow[3];
        for (int k = 0; k < 3; k++) {
            const int way = peali_trial_way(&t[k]);
            slow[k] = way == 1;
            tried[k] += way;
            peali_trial_tell(&t[k], way, way ? 110 + 100 * k : 100);
        }
        assert_true(!slow[1] || slow[0]);
        assert_true(!slow[2] || slow[1]);
    }
    assert_int_equal(tried[0], 128);
    assert_int_equal(tried[1], 16);
    assert_int_equal(tried[2], 8);
}

static void test_calls_that_go_another_way(void **state)
{
    peali_trial t = {0};
    peali_trial other = {0};
    assert_int_equal(run(&t, 3, 100, 50), 1);
    peali_trial_tell(&t, 0, 10);
    assert_int_equal(run(&t, 60, 100, 50), 58);
    assert_int_equal(run(&other, 2, 100, 50), 1);
    for (int i = 0; i < 6; i++)
        peali_trial_tell(&other, 0, 10);
    assert_int_equal(run(&other, 56, 100, 50), 0);
    assert_int_equal(run(&t, 64, 100, 50), 64);
    assert_int_equal(run(&other, 64, 100, 50), 60); /* which could not try, and does as soon as it may */
    assert_int_equal(run(&t, 384, 100, 50) + run(&other, 384, 100, 50), 768);
    assert_int_equal(run(&t, 64, 100, 50), 60); /* both at the same call */
    assert_int_equal(run(&other, 64, 100, 50), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_quicker_way),
        cmocka_unit_test(test_a_first_call_that_sets_up),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_a_way_that_is_far_slower),
        cmocka_unit_test(test_ranks_that_differ),
        cmocka_unit_test(test_calls_that_go_another_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
