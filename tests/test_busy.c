/*
 * Programs that never rest have all cores, too, so that ranks have theirs for half of the time: no call waits for the end of the
 * others' turns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "busy.h"
#include "team.h"

enum { RANKS = BUSY_CORES, CALLS = 2000 };

static int64_t took_ns[RANKS];

static void call(peal_comm *comm, int rank, void *ctx)
{
    const int64_t begin_ns = peali_clock_ns();
    int32_t one = 1, sum = 0, right = 0;
    for (int k = 0; k < CALLS; k++)
        right += peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, NULL) == PEAL_OK && sum == RANKS;
    took_ns[rank] = right == CALLS ? peali_clock_ns() - begin_ns : -1;
}

/* A turn is 2.8 ms, and yielded to in each call, where ranks only yield. */
static void test_calls(void **state)
{
    busy b;
    if (!busy_begin(&b))
        skip();
    peal_status status = team_run(RANKS, call, NULL);
    busy_end(&b);
    assert_int_equal(status, PEAL_OK);
    print_message("%lld us a call\n", (long long)(took_ns[0] / CALLS / 1000));
    for (int r = 0; r < RANKS; r++)
        assert_in_range(took_ns[r], 0, CALLS * 300 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
    return cmocka_run_group_tests_name("busy", tests, NULL, NULL);
}
