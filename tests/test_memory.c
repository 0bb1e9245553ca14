/* No memory: each allocation of a call fails once, which leaves the communicator as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/arena.h"
#include "sched/tuning.h"
#include "team.h"

enum { MOST = 20000 };

/* What was called before can be called again, and in the end the call, too. */
static void test_call_leaves_the_communicator(void **state)
{
    peal_threads *threads;
    peal_comm *comm;
    int32_t *in = calloc(MOST, sizeof *in), *out = calloc(MOST, sizeof *out);
    in[0] = 7;
    assert_non_null(peali_tuning_get());
    long at = 1;
    for (peal_status status = PEAL_ERR_MEMORY; status != PEAL_OK; at++) {
        assert_int_equal(peal_threads_create(1, &threads), PEAL_OK);
        assert_int_equal(peal_comm_create_threads(threads, 0, &comm), PEAL_OK);
        assert_int_equal(peal_comm_premul(comm, &(int32_t){3}, PEAL_INT32), PEAL_OK);
        assert_int_equal(peal_allreduce(in, out, 10, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
        peali_alloc_fail_at(at);
        status = peal_allreduce(in, out, MOST, PEAL_INT32, PEAL_PREMUL_SUM, comm, NULL);
        peali_alloc_fail_at(0);
        assert_true(status == PEAL_OK || status == PEAL_ERR_MEMORY);
        out[0] = 0;
        assert_int_equal(peal_allreduce(in, out, 10, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
        assert_int_equal(out[0], 7);
        assert_int_equal(peal_allreduce(in, out, MOST, PEAL_INT32, PEAL_PREMUL_SUM, comm, NULL), PEAL_OK);
        assert_int_equal(out[0], 21);
        peal_comm_destroy(&comm);
        peal_threads_destroy(&threads);
    }
    assert_true(at > 5);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_leaves_the_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
