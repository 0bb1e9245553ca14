/* Calls go the quicker way, and find out when that is the other one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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
    assert_int_equal(run(&t, 64, 100, 99), 62);
    assert_int_equal(run(&other, 64, 100, 500), 2);
    assert_int_equal(run(&same, 64, 100, 100), 2);
}

static void test_a_first_call_that_sets_up(void **state)
{
    peali_trial t = {0};
    assert_int_equal(run(&t, 2, 100, 0), 0);
    assert_int_equal(run(&t, 1, 0, 9000), 1);
    assert_int_equal(run(&t, 61, 100, 50), 61);
}

/* What else runs there changes. */
static void test_turns(void **state)
{
    peali_trial t = {0};
    assert_int_equal(run(&t, 64, 100, 50), 62);
    assert_int_equal(run(&t, 64, 100, 500), 2);
    assert_int_equal(run(&t, 64, 100, 50), 62);
}

static void test_calls_that_go_another_way(void **state)
{
    peali_trial t = {0};
    assert_int_equal(run(&t, 2, 100, 50), 0);
    for (int i = 0; i < 5; i++)
        peali_trial_tell(&t, 0, 10);
    assert_int_equal(run(&t, 62, 100, 50), 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_quicker_way),
        cmocka_unit_test(test_a_first_call_that_sets_up),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_calls_that_go_another_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
