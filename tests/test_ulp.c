/* Errors in units in the last place: what the kernels sum is as near as rounding allows, and what is off by one unit is seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/reduce.h"
#include "ulp.h"

enum { NRANKS = 3, PERIOD = PEALI_ULP_PERIOD };

static const peal_type types[] = {PEAL_FP8_E4M3, PEAL_FP8_E5M2, PEAL_FP16, PEAL_BF16, PEAL_FLOAT, PEAL_DOUBLE};
enum { TYPES = sizeof types / sizeof types[0] };

/* The sum, or average, that the CPU's kernels make of what N ranks give, and the error of rank 0's view of it. */
static double error_of_kernels(peal_type type, peal_op op, int n, void *out)
{
    void *give[NRANKS];
    peali_ulp ulps[NRANKS];
    for (int r = 0; r < n; r++) {
        assert_true(peali_ulp_create(&ulps[r], r, n, type, op));
        give[r] = ulps[r].mine;
    }
    peali_reduce_find(type, op)((void *[]){out}, 1, (const void *const *)give, n, PERIOD, false);
    if (op == PEAL_AVG)
        peali_divide_find(type)(out, PERIOD, n);
    double error = peali_ulp_error(&ulps[0], 0, out, PERIOD);
    for (int r = 0; r < n; r++)
        peali_ulp_destroy(&ulps[r]);
    return error;
}

/* Of two a sum rounds once; of three at most twice, the first time by half a unit of a number that is not larger. */
static void sums_of_kernels_are_near(void **state)
{
    void *out = calloc(PERIOD, sizeof(double));
    assert_non_null(out);
    for (int t = 0; t < TYPES; t++) {
        assert_true(error_of_kernels(types[t], PEAL_SUM, 1, out) == 0);
        double two = error_of_kernels(types[t], PEAL_SUM, 2, out), three = error_of_kernels(types[t], PEAL_SUM, 3, out);
        assert_true(two > 0.4 && two <= 0.5);
        assert_true(three >= 0.5 && three <= 1);
        assert_true(error_of_kernels(types[t], PEAL_AVG, 3, out) <= 2); /* whose units may be those of a quarter */
    }
    free(out);
}

static void one_unit_is_one(void **state)
{
    char *out = calloc(PERIOD, sizeof(double));
    assert_non_null(out);
    for (int t = 0; t < TYPES; t++) {
        size_t elem = peal_type_bytes(types[t]), at = (PERIOD - 1) * elem;
        peali_ulp ulp;
        assert_true(peali_ulp_create(&ulp, 0, 1, types[t], PEAL_SUM));
        memcpy(out, ulp.mine, PERIOD * elem);
        assert_true(peali_ulp_error(&ulp, 0, out, PERIOD) == 0);
        assert_true(peali_ulp_error(&ulp, 5, out, PERIOD) > 2); /* others than at the beginning */
        out[at] ^= 1;
        assert_true(peali_ulp_error(&ulp, 0, out, PERIOD - 1) == 0);
        assert_true(peali_ulp_error(&ulp, 0, out, PERIOD) == 1);
        assert_true(peali_ulp_error(&ulp, PERIOD - 1, out + at, 1) == 1);
        memset(out + at, 0x7f, elem); /* no number in some formats, and far away in others */
        assert_true(peali_ulp_error(&ulp, 0, out, PERIOD) > 100);
        out[at + elem - 1] = (char)0xff;
        assert_true(peali_ulp_error(&ulp, 0, out, PERIOD) > 100);
        peali_ulp_destroy(&ulp);
    }
    free(out);
}

/* What the tables hold, by the machine's own arithmetic. */
static void tables_are_right(void **state)
{
    peali_ulp f, d;
    assert_true(peali_ulp_create(&f, 0, 1, PEAL_FLOAT, PEAL_SUM) && peali_ulp_create(&d, 0, 1, PEAL_DOUBLE, PEAL_SUM));
    const float *floats = (const float *)(const void *)f.mine;
    const double *doubles = (const double *)(const void *)d.mine;
    for (int k = 0; k < PERIOD; k++) {
        assert_true(floats[k] >= 0.0625F && floats[k] < 2 && f.exact[k] == (long double)floats[k]);
        assert_true(doubles[k] >= 0.0625 && doubles[k] < 2 && d.exact[k] == (long double)doubles[k]);
    }
    peali_ulp_destroy(&f);
    peali_ulp_destroy(&d);
    assert_true(peali_ulp_create(&f, 0, 1, PEAL_FLOAT, PEAL_SUM));
    float off = nextafterf((float)f.exact[0], 100), far = (float)f.exact[0] + 1000, none = NAN;
    assert_true(peali_ulp_error(&f, 0, &off, 1) == 1);
    assert_true(peali_ulp_error(&f, 0, &none, 1) == INFINITY);
    assert_true(peali_ulp_error(&f, 0, &far, 1) > 1e9);
    peali_ulp_destroy(&f);
}

static void others_are_not_taken(void **state)
{
    for (int t = 0; t < TYPES; t++) {
        assert_true(peali_ulp_takes(types[t], PEAL_SUM) && peali_ulp_takes(types[t], PEAL_AVG));
        assert_false(peali_ulp_takes(types[t], PEAL_MIN) || peali_ulp_takes(types[t], PEAL_PROD));
    }
    assert_false(peali_ulp_takes(PEAL_INT32, PEAL_SUM) || peali_ulp_takes(PEAL_COMPLEX_FLOAT, PEAL_SUM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_kernels_are_near), cmocka_unit_test(one_unit_is_one), cmocka_unit_test(tables_are_right),
        cmocka_unit_test(others_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
