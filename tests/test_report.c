/*
 * The winners' table of `peal bench`: who is wrong wins nothing; and what the machine's host kept of it. What else report.c can do
 * is not linked here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Between the two lies what is printed. */
static FILE *begin_output(int *out)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    *out = dup(1);
    fflush(stdout);
    dup2(fileno(file), 1);
    return file;
}

static const char *end_output(FILE *file, int out)
{
    static char text[2048];
    fflush(stdout);
    dup2(out, 1);
    close(out);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* The last line of the table where "quick" takes 1 us, "slow" 2 and "slower" 4, and so many of their elements are wrong. */
static const char *line_of(double quick, double slow, double slower)
{
    static const peali_flags flags = {.kind = PEAL_ALLREDUCE, .check = true};
    static peali_team team = {.nranks = 2};
    peali_row rows[3] = {{.bytes = 64, .median_us = 1, .wrong = quick}, {.bytes = 64, .median_us = 2, .wrong = slow},
                         {.bytes = 64, .median_us = 4, .wrong = slower}};
    peali_race race = {.flags = &flags, .team = &team, .nrunners = 3, .rows = rows, .nrows = 3,
                       .runners = {{.peal = true, .variant = "quick"}, {.peal = true, .variant = "slow"},
                                   {.peal = true, .variant = "slower"}}};
    int out;
    FILE *file = begin_output(&out);
    peali_report_winners(&race);
    return strstr(end_output(file, out), "winner\n");
}

static void test_winners(void **state)
{
    assert_non_null(strstr(line_of(0, 0, 0), "quick, 2.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(7, 0, 0), "slow, 2.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(0, 7, 0), "quick, 4.00 times as fast as the next\n"));
    assert_non_null(strstr(line_of(7, 1, 0), "4.0  slower\n"));
    assert_non_null(strstr(line_of(7, 1, 1), "none was right\n"));
}

static peali_steal read_text(const char *text)
{
    char name[] = "test_report_XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    const peali_steal ticks = peali_steal_read(name);
    unlink(name);
    return ticks;
}

/* Of 400 ticks 18 were stolen; guests' are in the users'. */
static void test_steal(void **state)
{
    const peali_steal before = read_text("cpu  100 1 20 1000 3 4 5 7 90 80\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
    const peali_steal after = read_text("cpu  300 1 120 1082 3 4 5 25 290 80\ncpu0 1 2 3 4 5 6 7 8 9 10\n"), none = {0};
    assert_true(peali_steal_share(before, after) == 18.0 / 400);
    assert_true(peali_steal_share(after, after) == 0);
    assert_true(peali_steal_read("/nowhere").all == 0 && read_text("intr 5\n").all == 0);
    assert_true(peali_steal_since(none) >= 0 && peali_steal_since(none) <= 1);
}

static const char *said_of(double share)
{
    int out;
    FILE *file = begin_output(&out);
    peali_report_steal(share);
    return end_output(file, out);
}

static void test_steal_is_said(void **state)
{
    assert_string_equal(said_of(0.004), "");
    assert_non_null(strstr(said_of(0.0444), "# steal 4.4 %: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_winners), cmocka_unit_test(test_steal),
                                       cmocka_unit_test(test_steal_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
