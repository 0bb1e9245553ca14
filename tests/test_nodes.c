/* Maps of nodes, right and wrong; and the numbers of nodes where names come in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Names are pairs of words, with something else behind each. */
static void expect(const char *names, int nodes, const char *numbers)
{
    uint64_t ids[16][3] = {{0}};
    int n = (int)strlen(names), node[16];
    for (int r = 0; r < n; r++) {
        ids[r][0] = 1;
        ids[r][1] = (uint64_t)names[r];
        ids[r][2] = (uint64_t)r;
    }
    memset(node, -1, sizeof node);
    assert_int_equal(peali_nodes_count(ids, sizeof(uint64_t[2]), sizeof ids[0], n, node), nodes);
    for (int r = 0; r < n; r++)
        assert_int_equal(node[r], numbers[r] - '0');
    assert_int_equal(node[n], -1);
}

static void numbers(void **state)
{
    expect("a", 1, "0");
    expect("aaaa", 1, "0000");
    expect("aabbb", 2, "00111");
    expect("bba", 2, "001"); /* a communicator in the opposite order */
    expect("cab", 3, "012");
    expect("ca", 2, "01");   /* a rank of each of two nodes */
    expect("abab", 1, "0000");
    expect("abca", 1, "0000");
    expect("aabba", 1, "00000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(wrong_maps),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
