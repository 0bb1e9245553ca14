/* The winners' table of `peal bench`: who is wrong wins nothing. What else report.c can do is not linked here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

const char *peali_origin_commit(void)
{
    return "";
}

void peali_report_gpu_contests(const peali_race *race)
{
}

bool peali_save_json(const peali_race *race, const peali_origin *host, const char *file)
{
    return true;
}

bool peali_plot_svg(const peali_race *race, const peali_origin *host, const char *file)
{
    return true;
}

/* The last line of the table where "quick" takes 1 us, "slow" 2 and "slower" 4, and so many of their elements are wrong. */
static const char *line_of(double quick, double slow, double slower)
{
    static char text[2048];
    static const peali_flags flags = {.kind = PEAL_ALLREDUCE, .check = true};
    static peali_team team = {.nranks = 2};
    peali_row rows[3] = {{.bytes = 64, .median_us = 1, .wrong = quick}, {.bytes = 64, .median_us = 2, .wrong = slow},
                         {.bytes = 64, .median_us = 4, .wrong = slower}};
    peali_race race = {.flags = &flags, .team = &team, .nrunners = 3, .rows = rows, .nrows = 3,
                       .runners = {{.peal = true, .variant = "quick"}, {.peal = true, .variant = "slow"},
                                   {.peal = true, .variant = "slower"}}};
    FILE *file = tmpfile();
    int out = dup(1);
    assert_non_null(file);
    fflush(stdout);
    dup2(fileno(file), 1);
    peali_report_winners(&race);
    fflush(stdout);
    dup2(out, 1);
    close(out);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, "winner\n");
}

static void test_winners(void **state)
{
    assert_non_null(strstr(line_of(0, 0, 0), "quick, 2.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(7, 0, 0), "slow, 2.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(0, 7, 0), "quick, 4.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(7, 1, 0), "4.0  slower\n"));
    assert_non_null(strstr(line_of(7, 1, 1), "none was right\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_winners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
