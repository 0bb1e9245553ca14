/* Timelines: the file is a list that is JSON but for its end; what begins ends; all calls and messages of all ranks are there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "comm/comm_private.h"
#include "exec/runner.h"
#include "exec/timeline.h"
#include "team.h"

enum { RANKS = 4, CALLS = 3, COUNT = 30000, SLICES = 3, LONG = 1 << 20, ATTEMPTS = 1000 };

static char path[64];
static pid_t parent;

static void sum(peal_comm *comm, int rank, void *ctx)
{
    int32_t *at = calloc(COUNT, sizeof *at);
    for (int k = 0; k < CALLS; k++)
        if (peal_comm_force(comm, PEAL_ALLREDUCE, "hierarchical") != PEAL_OK ||
            peal_allreduce(at, at, COUNT, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK)
            *(int *)ctx = 1;
    free(at);
}

/* The events in the file, which gets its end first. */
static cJSON *events(void)
{
    static char text[16 << 20];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text - 2, file);
    fclose(file);
    assert_true(bytes > 2 && bytes < sizeof text - 2 && text[bytes - 2] == ',');
    strcpy(text + bytes - 2, "]");
    cJSON *all = cJSON_Parse(text);
    assert_non_null(all);
    return all;
}

static double number(const cJSON *event, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(event, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static bool has(const cJSON *event, const char *name, const char *text)
{
    return strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(event, name)), text) == 0;
}

/* Event A of phase b: the next one with its id ends it, later. */
static void check_ends(const cJSON *a)
{
    const cJSON *b = a->next;
    while (b && (has(b, "ph", "X") || !has(b, "id", cJSON_GetStringValue(cJSON_GetObjectItem(a, "id"))) ||
                 number(b, "pid") != number(a, "pid")))
        b = b->next;
    assert_non_null(b);
    assert_true(has(b, "ph", "e") && has(b, "name", cJSON_GetStringValue(cJSON_GetObjectItem(a, "name"))));
    assert_true(number(b, "ts") >= number(a, "ts"));
}

/* It ends as processes do, and the file stays what it was. */
static void check_child(void)
{
    int status = 0;
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(stat(path, &after), 0);
    assert_true(status == 0 && after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
}

static void test_all_is_there(void **state)
{
    peali_layout layouts[RANKS];
    int wrong = 0, calls[RANKS] = {0}, sends[RANKS] = {0}, recvs[RANKS] = {0}, sums[RANKS] = {0};
    double sent[RANKS] = {0}, received[RANKS] = {0};
    for (int r = 0; r < RANKS; r++)
        layouts[r] = (peali_layout){.nodes = "2+2", .slices = SLICES};
    assert_int_equal(team_run_in(RANKS, layouts, sum, &wrong), PEAL_OK);
    assert_int_equal(wrong, 0);
    peali_timeline_save();
    check_child();
    cJSON *all = events(), *event;
    cJSON_ArrayForEach(event, all) {
        const int rank = (int)number(event, "pid");
        const cJSON *args = cJSON_GetObjectItem(event, "args");
        assert_true(rank >= 0 && rank < RANKS);
        if (has(event, "ph", "b"))
            check_ends(event);
        sums[rank] += has(event, "ph", "X") && has(event, "name", "reduce") && number(event, "dur") >= 0;
        if (!has(event, "ph", "e"))
            continue;
        bool sends_it = has(event, "name", "send"), receives = has(event, "name", "recv");
        calls[rank] += has(event, "name", "allreduce hierarchical") && number(args, "bytes") == 4 * COUNT;
        sends[rank] += sends_it;
        recvs[rank] += receives;
        sent[rank] += sends_it ? number(args, "bytes") : 0;
        received[rank] += receives ? number(args, "bytes") : 0;
        assert_true(!(sends_it || receives) || (int)number(args, "peer") == (rank + 2) % RANKS);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(calls[r], CALLS);
        assert_true(sends[r] >= CALLS * SLICES && sends[r] == recvs[r] && sums[r] >= CALLS * SLICES);
        assert_true(sent[r] == CALLS * 2 * COUNT && received[r] == CALLS * 2 * COUNT); /* half of the vector each */
    }
    cJSON_Delete(all);
}

/* Until a rank has been helped: the sum of the first elements tells all. */
static void sum_in_pieces(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = (int *)ctx + rank;
    int32_t *at = calloc(2 * (size_t)LONG, sizeof *at), *sums = at + LONG;
    for (int i = 1; i < LONG; i++)
        at[i] = rank + i;
    *wrong = peal_comm_force(comm, PEAL_ALLREDUCE, "two_shot") != PEAL_OK;
    for (int k = 0; k < ATTEMPTS && sums[0] == 0 && !*wrong; k++) {
        at[0] = peali_load_relaxed(&comm->runner->mine->sum.done) > 0;
        *wrong = peal_allreduce(at, sums, LONG, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK;
        for (int i = 1; i < LONG && !*wrong; i++)
            *wrong = sums[i] != RANKS * (RANKS - 1) / 2 + RANKS * i;
    }
    free(at);
}

/* Ranks that wait add up pieces of others' sums. */
static void test_who_waits_helps(void **state)
{
    peali_layout layouts[RANKS];
    int wrong[RANKS] = {0}, helps = 0;
    for (int r = 0; r < RANKS; r++)
        layouts[r] = (peali_layout){.pull = true, .piece = 4096};
    assert_int_equal(team_run_in(RANKS, layouts, sum_in_pieces, wrong), PEAL_OK);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(wrong[r], 0);
    peali_timeline_save();
    cJSON *all = events(), *event;
    cJSON_ArrayForEach(event, all) {
        if (!has(event, "name", "help"))
            continue;
        const int peer = (int)number(cJSON_GetObjectItem(event, "args"), "peer");
        helps++;
        assert_true(has(event, "ph", "X") && peer >= 0 && peer < RANKS && peer != (int)number(event, "pid"));
    }
    assert_true(helps > 0);
    cJSON_Delete(all);
}

/* Behind the end of the process, which writes the file once more. */
static void remove_file(void)
{
    if (getpid() == parent)
        unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_is_there), cmocka_unit_test(test_who_waits_helps)};
    parent = getpid();
    atexit(remove_file);
    snprintf(path, sizeof path, "timeline.%d.json", (int)getpid());
    setenv("PEAL_TIMELINE", path, 1);
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
