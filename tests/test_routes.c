/* At PEAL_LOG=info each rank says where it is, and one line for each kind of its peers, however many ranks there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "team.h"

static char path[64];

static void nothing(peal_comm *comm, int rank, void *ctx)
{
}

/*
 * Lines of the log so far that have all of TEXT, but for the host's name, which "HOST" stands for; without one all, but
 * warnings of who waits for a rank that is slow, as under valgrind.
 */
static int lines(const char *text)
{
    char line[1024], want[1024], host[256] = "";
    int found = 0;
    const char *at = strstr(text, "HOST");
    gethostname(host, sizeof host - 1);
    snprintf(want, sizeof want, "%.*s%s%s\n", at ? (int)(at - text) : (int)strlen(text), text, at ? host : "", at ? at + 4 : "");
    FILE *log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        found += *text ? strcmp(line, want) == 0 : !strstr(line, " waits since ");
    fclose(log);
    return found;
}

static void make(unsigned n, peali_layout layout)
{
    peali_layout layouts[64];
    for (unsigned r = 0; r < n; r++)
        layouts[r] = layout;
    FILE *log = fopen(path, "w");
    assert_non_null(log);
    fclose(log);
    assert_int_equal(team_run_in(n, layouts, nothing, NULL), PEAL_OK);
}

static void kinds_of_peers(void **state)
{
    make(6, (peali_layout){.nodes = "3+2+1"});
    assert_int_equal(lines("[peal] info rank 1: init rank 1 of 6 host HOST device cpu node 0 of 3"), 1);
    assert_int_equal(lines("[peal] info rank 1: lanes: 1 -> 0,2 via shm, within reach"), 1);
    assert_int_equal(lines("[peal] info rank 1: lanes: 1 -> 3-5 via loop, on other nodes; device memory would be staged"), 1);
    assert_int_equal(lines("[peal] info rank 4: init rank 4 of 6 host HOST device cpu node 1 of 3"), 1);
    assert_int_equal(lines("[peal] info rank 4: lanes: 4 -> 3 via shm, within reach"), 1);
    assert_int_equal(lines("[peal] info rank 4: lanes: 4 -> 0-2,5 via loop, on other nodes; device memory would be staged"), 1);
    assert_int_equal(lines("[peal] info rank 5: lanes: 5 -> 0-4 via loop, on other nodes; device memory would be staged"), 1);
    assert_int_equal(lines(""), 3 * 5 + 2);
}

static void out_of_reach(void **state)
{
    make(3, (peali_layout){.apart = true});
    assert_int_equal(lines("[peal] info rank 0: lanes: 0 -> 1-2 via loop, kept apart; device memory would be staged"), 1);
    assert_int_equal(lines(""), 3 * 2);
    make(3, (peali_layout){.push = true});
    assert_int_equal(lines("[peal] info rank 2: lanes: 2 -> 0-1 via shm, within reach"), 1);
    assert_int_equal(lines(""), 3 * 2);
}

static void alone(void **state)
{
    make(1, (peali_layout){0});
    assert_int_equal(lines("[peal] info rank 0: init rank 0 of 1 host HOST device cpu node 0 of 1"), 1);
    assert_int_equal(lines(""), 1);
}

static void many(void **state)
{
    make(40, (peali_layout){.nodes = "20+20"});
    assert_int_equal(lines("[peal] info rank 7: lanes: 7 -> 0-6,8-19 via shm, within reach"), 1);
    assert_int_equal(lines(""), 40 * 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_peers),
        cmocka_unit_test(out_of_reach),
        cmocka_unit_test(alone),
        cmocka_unit_test(many),
    };
    snprintf(path, sizeof path, "test_routes.%ld.log", (long)getpid());
    setenv("PEAL_LOG", "info", 1);
    setenv("PEAL_LOG_FILE", path, 1);
    int failed = cmocka_run_group_tests_name("routes", tests, NULL, NULL);
    unlink(path);
    return failed;
}
