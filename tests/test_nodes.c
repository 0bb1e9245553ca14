/* Maps of nodes, right and wrong; and how many cores of a machine a rank has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/nodes.h"
#include "topo/machine.h"

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

/* Ranks of one machine share its cores, whatever hosts it is divided into, and whether they are bound or not. */
static void shares(void **state)
{
    peali_place places[5] = {{.machine = 1, .host = {1}}, {.machine = 1, .host = {2}}, {.machine = 1, .host = {2}},
                             {.machine = 2, .host = {1}}, {.machine = 2, .host = {3}}};
    for (int r = 0; r < 3; r++)
        places[r].cores[r] = 0xff;
    for (int r = 3; r < 5; r++)
        places[r].cores[1] = 1u << 5;
    for (int r = 0; r < 5; r++)
        assert_int_equal(peali_machine_share(places, sizeof *places, 5, r), r < 3 ? 8 : 0);
    places[1].cores[0] = places[2].cores[0] = 0xff;
    places[1].cores[1] = places[2].cores[2] = 0;
    assert_int_equal(peali_machine_share(places, sizeof *places, 5, 1), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(wrong_maps),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
