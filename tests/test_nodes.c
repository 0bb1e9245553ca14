/* Maps of nodes, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/nodes.h"

static void maps(void **state)
{
    static const int of[] = {0, 0, 0, 0, 1, 2, 2, 2};
    int number;
    for (int place = 0; place < 8; place++) {
        assert_int_equal(peali_nodes_look_up("4+1+3", place, 8, &number), PEAL_OK);
        assert_int_equal(number, of[place]);
    }
    assert_int_equal(peali_nodes_look_up("1", 0, 1, &number), PEAL_OK);
    assert_int_equal(number, 0);
    assert_int_equal(peali_nodes_look_up("100000", 99999, 100000, &number), PEAL_OK);
    assert_int_equal(peali_nodes_look_up("007+1", 7, 8, &number), PEAL_OK);
    assert_int_equal(number, 1);
}

static void wrong_maps(void **state)
{
    static const char *const wrong[] = {"", "+", "8+", "+8", "4++4", "4+0+4", "0", "7", "9", "4+5", "4+3", "8+1", "4,4", "8x",
                                        "99999999999999999999", "4+99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (int place = 0; place < 8; place++) {
            int number = -7;
            assert_int_equal(peali_nodes_look_up(wrong[i], place, 8, &number), PEAL_ERR_CONFIG);
            assert_int_equal(number, -7);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(wrong_maps),
    };
    return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
