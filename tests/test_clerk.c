/* Clerks rest where nothing moves, and those who are to serve a call are awake for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "exec/clerk.h"

/* What a clerk looks at: how often so far, and how often where it had not rested. */
typedef struct look {
    peali_errand errand;
    int passes, awake;
} look;

static bool pass(peali_errand *errand, bool rested)
{
    look *l = (look *)errand;
    (void)peali_add_relaxed(&l->passes, 1);
    if (!rested)
        (void)peali_add_relaxed(&l->awake, 1);
    return false;
}

/* Until so many passes of L in a row were of a clerk that rests. */
static void rest(look *l)
{
    enum { IN_A_ROW = 4 };
    int passes, awake;
    do {
        passes = peali_load_relaxed(&l->passes);
        awake = peali_load_relaxed(&l->awake);
        while (peali_load_relaxed(&l->passes) < passes + IN_A_ROW)
            peali_clock_sleep(1000000);
    } while (peali_load_relaxed(&l->awake) != awake);
}

static void wait_awake(look *l, int before)
{
    while (peali_load_relaxed(&l->awake) == before)
        peali_clock_yield();
}

static void test_who_serves_is_awake(void **state)
{
    enum { ROUNDS = 20 };
    look first = {.errand = {.clerk = 0, .pass = pass}}, second = {.errand = {.clerk = 1, .pass = pass}};
    assert_int_equal(peali_clerk_give(&first.errand), 0);
    assert_int_equal(peali_clerk_give(&second.errand), 0);
    for (int i = 0; i < ROUNDS; i++) {
        rest(&first);
        rest(&second);
        const int before = peali_load_relaxed(&first.awake), its = peali_load_relaxed(&second.awake);
        peali_clerk_wake(1);
        wait_awake(&first, before);
        rest(&first);
        assert_int_equal(peali_load_relaxed(&second.awake), its);
        peali_clerk_wake(2);
        wait_awake(&first, before);
        wait_awake(&second, its);
    }
    peali_clerk_take_back(&first.errand);
    peali_clerk_take_back(&second.errand);
}

/* A call that comes as the clerk lies down: it has just looked, in vain. */
static void test_no_call_is_slept_through(void **state)
{
    enum { CALLS = 60 };
    look l = {.errand = {.clerk = 0, .pass = pass}};
    assert_int_equal(peali_clerk_give(&l.errand), 0);
    for (int i = 0; i < CALLS; i++) {
        rest(&l);
        const int passes = peali_load_relaxed(&l.passes), before = peali_load_relaxed(&l.awake);
        while (peali_load_relaxed(&l.passes) == passes)
            peali_clock_pause();
        for (int spin = 0; spin < i; spin++)
            peali_clock_pause();
        peali_clerk_wake(1);
        wait_awake(&l, before);
    }
    peali_clerk_take_back(&l.errand);
}

/* The core may be one that the program computes on. */
static void test_who_is_called_looks_on_but_little(void **state)
{
    enum { MOST = 20000 }; /* who is not takes 100,000 looks */
    look l = {.errand = {.clerk = 0, .pass = pass, .called = true}};
    int before, now = 0;
    assert_int_equal(peali_clerk_give(&l.errand), 0);
    peali_clerk_wake(1);
    do {
        before = now;
        peali_clock_sleep(20000000);
        now = peali_load_relaxed(&l.passes);
    } while (now != before || now == 0);
    assert_true(now < MOST);
    peali_clerk_take_back(&l.errand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_called_looks_on_but_little),
        cmocka_unit_test(test_who_serves_is_awake),
        cmocka_unit_test(test_no_call_is_slept_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
