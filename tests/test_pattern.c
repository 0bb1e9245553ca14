/* The data of a race: its known result is what the kernels give on all ranks' data, and every wrong element is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/reduce.h"
#include "pattern.h"

enum { COUNT = 9000, NRANKS = 5, CALL = 1234, MOST_BYTES = 2 * sizeof(long double) };

/* What NRANKS ranks give to CALL, reduced by the kernels: a second way to the result that the pattern has by integers alone. */
static void reduce_all(peal_type type, peal_op op, char *out)
{
    void *give[NRANKS];
    peali_pattern pattern;
    for (int r = 0; r < NRANKS; r++) {
        assert_true(peali_pattern_create(&pattern, r, NRANKS, type, op));
        assert_non_null(give[r] = calloc(COUNT, MOST_BYTES));
        peali_pattern_give(&pattern, false, CALL, give[r], COUNT);
        peali_pattern_destroy(&pattern);
    }
    peali_reduce_find(type, op)((void *[]){out}, 1, (const void *const *)give, NRANKS, COUNT, false);
    if (op == PEAL_AVG)
        peali_divide_find(type)(out, COUNT, NRANKS);
    for (int r = 0; r < NRANKS; r++)
        free(give[r]);
}

static void result_is_known(void **state)
{
    char *out = calloc(COUNT, MOST_BYTES);
    assert_non_null(out);
    for (peal_type type = 0; type < PEAL_TYPE_COUNT; type++)
        for (peal_op op = 0; op < PEAL_OP_COUNT; op++) {
            peali_pattern pattern;
            if (!peal_op_takes(op, type))
                continue;
            assert_true(peali_pattern_create(&pattern, 2, NRANKS, type, op));
            reduce_all(type, op, out);
            assert_int_equal(peali_pattern_wrong(&pattern, CALL, out, COUNT), 0);
            out[COUNT / 2 * pattern.elem] ^= 1;
            out[(COUNT - 1) * pattern.elem] ^= 1;
            assert_int_equal(peali_pattern_wrong(&pattern, CALL, out, COUNT), 2);
            peali_pattern_destroy(&pattern);
        }
    free(out);
}

/* A call that moved nothing leaves the data of the call before, or this rank's own: neither passes. */
static void stale_data_is_wrong(void **state)
{
    peali_pattern pattern;
    float *out = calloc(COUNT, sizeof *out);
    assert_non_null(out);
    assert_true(peali_pattern_create(&pattern, 0, NRANKS, PEAL_FLOAT, PEAL_SUM));
    reduce_all(PEAL_FLOAT, PEAL_SUM, (char *)out);
    assert_true(peali_pattern_wrong(&pattern, CALL + 1, out, COUNT) > COUNT / 2);
    peali_pattern_give(&pattern, false, CALL, out, COUNT);
    assert_true(peali_pattern_wrong(&pattern, CALL, out, COUNT) > COUNT / 2);
    peali_pattern_destroy(&pattern);
    free(out);
}

static void hash_sees_every_byte(void **state)
{
    char data[37] = {0};
    double plain = peali_pattern_hash(data, sizeof data);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = 1;
        assert_true(peali_pattern_hash(data, sizeof data) != plain);
        data[i] = 0;
    }
    assert_true(peali_pattern_hash(data, sizeof data) == plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_is_known),
        cmocka_unit_test(stale_data_is_wrong),
        cmocka_unit_test(hash_sees_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
