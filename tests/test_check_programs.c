/*
 * check of programs: right programs of every algorithm are proved, and for each of its ten checks a program that is wrong in just
 * that is refuted, with the cause in words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "program_edit.h"
#include "study/check_programs.h"

enum { RANKS = 8 };

/* The programs of one problem, of which a test edits some. */
typedef struct scene {
    int node[RANKS];
    peal_problem problem;
    peali_truth *truth;
    peali_mode mode;
    peali_program *right[RANKS], *edited[RANKS];
    edit_program loose; /* the one under the knife */
} scene;

/* N ranks on nodes of SIZE ranks. */
static scene *lowered(const char *name, int n, int size, peali_mode mode)
{
    scene *s = calloc(1, sizeof *s);
    peali_programs_report report;
    assert_non_null(s);
    for (int r = 0; r < n; r++)
        s->node[r] = r / size;
    s->problem = (peal_problem){.kind = PEAL_ALLREDUCE, .op = PEAL_SUM, .nranks = n, .node = s->node, .nnodes = s->node[n - 1] + 1};
    s->mode = mode;
    const peal_algo *algo = peali_algo_find(PEAL_ALLREDUCE, name);
    if (!algo)
        algo = peali_algo_find(s->problem.kind = PEAL_BROADCAST, name);
    assert_non_null(algo);
    assert_int_equal(peali_truth_make(algo, &s->problem, NULL, &report, &s->truth), PEAL_OK);
    assert_int_equal(peali_programs_lower(s->truth, mode, s->right), PEAL_OK);
    if (peali_programs_check(s->truth, mode, (const peali_program *const *)s->right, &report) != PEAL_OK)
        fail_msg("%s", report.why);
    return s;
}

static edit_program *open_rank(scene *s, int r)
{
    assert_true(edit_open(&s->loose, s->right[r]));
    return &s->loose;
}

static void close_rank(scene *s, int r)
{
    s->edited[r] = edit_close(&s->loose);
}

/* The edited programs are refuted, with CAUSE among the words; S is gone. */
static void refuted(scene *s, const char *cause)
{
    peali_programs_report report;
    const peali_program *with[RANKS];
    for (int r = 0; r < s->problem.nranks; r++)
        with[r] = s->edited[r] ? s->edited[r] : s->right[r];
    peal_status status = peali_programs_check(s->truth, s->mode, with, &report);
    if (status != PEAL_ERR_INVALID || !strstr(report.why, cause))
        fail_msg("status %d, and not '%s' but: %s", status, cause, report.why);
    for (int r = 0; r < s->problem.nranks; r++) {
        if (s->edited[r])
            edit_free(s->edited[r]);
        peali_program_free(&s->right[r]);
    }
    peali_truth_free(&s->truth);
    free(s);
}

/* The K-th instruction of KIND. */
static int find(const edit_program *e, int kind, int k)
{
    for (int no = 0; no < e->n; no++)
        if (e->at[no].i.kind == kind && k-- == 0)
            return no;
    fail_msg("the program has no such instruction");
    return -1;
}

/* The first operand of E, an own or another rank's, with buf below 0 or not: its instruction, and *K. */
static int find_operand(const edit_program *e, bool target, bool landing, int *k)
{
    for (int no = 0; no < e->n; no++)
        for (*k = target ? e->at[no].i.nsrc : 0; *k < e->at[no].i.nsrc + (target ? e->at[no].i.ndst : 0); (*k)++)
            if ((e->at[no].locs[*k].buf < 0) == landing && e->at[no].i.kind != PEALI_I_RECV)
                return no;
    fail_msg("the program has no such operand");
    return -1;
}

static int find_await(const edit_program *e, int from)
{
    for (int no = from; no < e->n; no++)
        if (e->at[no].i.nawaits)
            return no;
    fail_msg("the program awaits nothing");
    return -1;
}

static void test_every_algorithm(void **state)
{
    FILE *out = tmpfile();
    peali_check_options options = {.kind = -1, .max_ranks = 9};
    char line[900];
    assert_non_null(out);
    if (peali_check_programs_all(out, &options) <= 0)
        for (rewind(out); fgets(line, sizeof line, out);)
            print_message("%s", line);
    options.least = INT64_MAX;
    assert_int_equal(peali_check_programs_all(out, &options), -1);
    options.least = 0;
    options.least_each = INT64_MAX;
    assert_int_equal(peali_check_programs_all(out, &options), -1);
    options.least_each = 0;
    assert_true(peali_check_programs_all(out, &options) > 10000);
    fclose(out);
}

static void test_values(void **state)
{
    scene *s = lowered("two_shot", 4, 4, PEALI_PULL);
    edit_program *e = open_rank(s, 1);
    edit_instr *i = &e->at[find(e, PEALI_I_REDUCE, 0)];
    peali_loc keep = i->locs[0];
    i->locs[0] = i->locs[1];
    i->locs[1] = keep;
    close_rank(s, 1);
    refuted(s, "summed in another order");

    s = lowered("two_shot", 4, 4, PEALI_PULL);
    e = open_rank(s, 1);
    i = &e->at[find(e, PEALI_I_REDUCE, 0)];
    edit_drop_operand(i, 2);
    close_rank(s, 1);
    refuted(s, "other shares");

    s = lowered("two_shot", 4, 4, PEALI_PULL);
    e = open_rank(s, 1);
    i = &e->at[find(e, PEALI_I_REDUCE, 0)];
    edit_drop_operand(i, i->i.nsrc + 2);
    close_rank(s, 1);
    refuted(s, "not written");
}

static void test_push_operands(void **state)
{
    int k = 0;
    scene *s = lowered("ring", 3, 3, PEALI_PUSH);
    edit_program *e = open_rank(s, 1);
    int no = find_operand(e, false, false, &k);
    e->at[no].locs[k].rank = 2;
    close_rank(s, 1);
    refuted(s, "reads memory of another rank");

    s = lowered("ring", 3, 3, PEALI_PUSH);
    e = open_rank(s, 1);
    no = find_operand(e, true, true, &k);
    e->at[no].locs[k].buf = PEAL_BUF_OUT;
    e->at[no].locs[k].base = 0;
    close_rank(s, 1);
    refuted(s, "writes where it must not");

    s = lowered("ring", 3, 3, PEALI_PUSH);
    e = open_rank(s, 1);
    no = find_operand(e, true, true, &k);
    edit_insert(e, no + 1, &e->at[no]);
    close_rank(s, 1);
    refuted(s, "as instruction");

    s = lowered("chain", 3, 3, PEALI_PUSH);
    e = open_rank(s, 0);
    no = find_operand(e, true, true, &k);
    e->at[no].locs[k].buf--;
    close_rank(s, 0);
    refuted(s, "there is no landing slot");
}

static void wait_for_send(scene *s, int r)
{
    edit_program *e = open_rank(s, r);
    int no = find(e, PEALI_I_SEND, 0);
    edit_instr wait = {.i = {.kind = PEALI_I_REDUCE, .peer = -1, .flag = -1, .nwaits = 1}, .waits = {no}};
    edit_insert(e, no + 1, &wait);
    e->at[no + 1].waits[0] = no;
    close_rank(s, r);
}

static void test_progress(void **state)
{
    scene *s = lowered("recursive_doubling", 2, 1, PEALI_PULL);
    wait_for_send(s, 0);
    wait_for_send(s, 1);
    refuted(s, "deadlock");

    s = lowered("two_shot", 3, 3, PEALI_PULL);
    for (int r = 0; r < 2; r++) { /* each awaits the other's sum before its own */
        edit_program *e = open_rank(s, r);
        int32_t flag = s->right[1 - r]->instrs[s->right[1 - r]->ninstrs - 2].flag;
        e->at[find_await(e, 0)].awaits[0] = (peali_await){1 - r, flag};
        close_rank(s, r);
    }
    refuted(s, "deadlock");
}

static void test_arrivals(void **state)
{
    scene *s = lowered("ring", 2, 1, PEALI_PULL);
    edit_program *e = open_rank(s, 0);
    int send = find(e, PEALI_I_SEND, 1);
    for (int no = 0; no < e->n; no++)
        for (int k = 0; k < e->at[no].i.nwaits; k++)
            if (e->at[no].waits[k] == send)
                edit_drop_wait(&e->at[no], k--);
    close_rank(s, 0);
    refuted(s, "nothing waits for its end");

    int k = 0;
    s = lowered("chain", 2, 2, PEALI_PUSH);
    e = open_rank(s, 1);
    edit_drop(e, find_operand(e, false, true, &k));
    close_rank(s, 1);
    refuted(s, "may leave a slice before");
}

static void test_open_messages(void **state)
{
    scene *s = lowered("recursive_doubling", 2, 1, PEALI_PULL);
    edit_program *e = open_rank(s, 0);
    int send = find(e, PEALI_I_SEND, 0), no = find(e, PEALI_I_REDUCE, 0);
    for (int k = 0; k < e->at[no].i.nwaits; k++)
        if (e->at[no].waits[k] == send)
            edit_drop_wait(&e->at[no], k--);
    edit_instr *last = &e->at[e->n - 1];
    last->waits[last->i.nwaits++] = send;
    close_rank(s, 0);
    refuted(s, "races at IN and OUT");

    s = lowered("recursive_doubling", 2, 1, PEALI_PULL);
    e = open_rank(s, 0);
    int recv = find(e, PEALI_I_RECV, 0);
    no = find(e, PEALI_I_REDUCE, 0);
    for (int k = 0; k < e->at[no].i.nwaits; k++)
        if (e->at[no].waits[k] == recv)
            edit_drop_wait(&e->at[no], k--);
    last = &e->at[e->n - 1];
    last->waits[last->i.nwaits++] = recv;
    close_rank(s, 0);
    refuted(s, "races at tmp");
}

static void test_closed(void **state)
{
    static const uint8_t all[RANKS] = {1, 1, 1, 1, 1, 1, 1, 1}, none[RANKS];
    scene *s = lowered("chain", 3, 3, PEALI_PUSH);
    edit_program *e = open_rank(s, 0);
    e->p.knows = all;
    close_rank(s, 0);
    refuted(s, "for which it does not wait");

    s = lowered("chain", 3, 3, PEALI_PUSH);
    e = open_rank(s, 0);
    e->p.stores_to = none;
    close_rank(s, 0);
    refuted(s, "which its program does not say");

    for (int mode = PEALI_PULL; mode < PEALI_MODES; mode++) {
        s = lowered("chain", 3, 3, (peali_mode)mode);
        for (int r = 0; r < 3; r++) {
            e = open_rank(s, r);
            e->p.all_hear = true;
            close_rank(s, r);
        }
        refuted(s, mode == PEALI_PUSH ? "says that all have begun" : "says that all hear of all");
        s = lowered("chain", 3, 3, (peali_mode)mode);
        for (int r = 0; r < 3; r++) {
            e = open_rank(s, r);
            e->p.all_wait = true;
            close_rank(s, r);
        }
        refuted(s, "says that all have begun");
    }

    s = lowered("chain", 3, 3, PEALI_PULL);
    for (int r = 0; r < 3; r++) {
        e = open_rank(s, r);
        e->p.tells = true;
        close_rank(s, r);
    }
    refuted(s, "whose buffers are seen, and is not");

    s = lowered("two_shot", 3, 3, PEALI_PUSH);
    e = open_rank(s, 1);
    e->p.all_hear = false;
    close_rank(s, 1);
    refuted(s, "hears of all");
}

/* What CPU ranks go by when they store, and when buffers are staged. */
static void test_places(void **state)
{
    static const uint8_t nothing[64];
    static int32_t lines[64];
    scene *s = lowered("two_shot", 3, 3, PEALI_PUSH);
    edit_program *e = open_rank(s, 1);
    assert_in_range(e->p.nland, 1, 64);
    e->p.land_line = lines; /* all slots of a rank on one line */
    close_rank(s, 1);
    refuted(s, "other cuts, scratch or landing slots");

    s = lowered("two_shot", 3, 3, PEALI_PUSH);
    for (int r = 0; r < 3; r++) {
        e = open_rank(s, r);
        e->p.land_line = lines;
        close_rank(s, r);
    }
    refuted(s, "no line of its own");

    s = lowered("two_shot", 3, 3, PEALI_PULL);
    e = open_rank(s, 1);
    assert_in_range(e->p.ncuts, 1, 64);
    e->p.shown = nothing;
    close_rank(s, 1);
    refuted(s, "does not show");
}

static void test_list_order(void **state)
{
    scene *s = lowered("recursive_doubling", 2, 1, PEALI_PULL);
    edit_program *e = open_rank(s, 0);
    int send = find(e, PEALI_I_SEND, 0), recv = find(e, PEALI_I_RECV, 0);
    assert_int_equal(recv, send + 1);
    edit_swap(e, send, recv);
    e->at[recv].waits[e->at[recv].i.nwaits++] = send; /* the send now comes second, and waits for the arrival */
    close_rank(s, 0);
    refuted(s, "for which it does not wait in list order");
}

static void test_messages(void **state)
{
    scene *s = lowered("ring", 3, 1, PEALI_PULL);
    edit_program *e = open_rank(s, 0);
    e->at[find(e, PEALI_I_SEND, 0)].i.lane = 1;
    e->p.nlanes = 2;
    close_rank(s, 0);
    refuted(s, "the schedule has no such message");

    s = lowered("ring", 3, 1, PEALI_PULL);
    e = open_rank(s, 0);
    peali_instr *a = &e->at[find(e, PEALI_I_SEND, 0)].i, *b = &e->at[find(e, PEALI_I_SEND, 1)].i;
    a->first = b->first;
    a->end = b->end;
    close_rank(s, 0);
    refuted(s, "whose place it has");

    s = lowered("recursive_doubling", 2, 1, PEALI_PULL);
    e = open_rank(s, 0);
    edit_drop(e, find(e, PEALI_I_RECV, 0));
    close_rank(s, 0);
    refuted(s, "no instruction performs");
}

static void test_races_across_ranks(void **state)
{
    scene *s = lowered("two_shot", 4, 4, PEALI_PULL);
    edit_program *e = open_rank(s, 2);
    edit_drop_await(&e->at[find_await(e, 0)], 0);
    close_rank(s, 2);
    refuted(s, "before its enter");

    s = lowered("two_shot", 4, 4, PEALI_PULL);
    e = open_rank(s, 2);
    edit_drop_await(&e->at[e->n - 1], 0); /* nobody would know that its IN was read */
    close_rank(s, 2);
    refuted(s, "races at");

    s = lowered("chain", 3, 3, PEALI_PULL);
    e = open_rank(s, 1);
    edit_drop_await(&e->at[e->n - 1], 0);
    close_rank(s, 1);
    refuted(s, "after its exit");

    s = lowered("ring", 3, 3, PEALI_PULL);
    e = open_rank(s, 1);
    for (int no = 0, first = -1; no < e->n; no++)
        if (e->at[no].i.flag >= 0 && first >= 0)
            e->at[no].i.flag = e->at[first].i.flag;
        else if (e->at[no].i.flag >= 0)
            first = no;
    close_rank(s, 1);
    refuted(s, "raises flag");
}

static void test_flags_of_slots(void **state)
{
    int k = 0;
    scene *s = lowered("ring", 3, 3, PEALI_PUSH);
    edit_program *e = open_rank(s, 1);
    int no = find_operand(e, true, true, &k);
    edit_drop_operand(&e->at[no], k);
    close_rank(s, 1);
    refuted(s, "nothing fills");

    s = lowered("two_shot", 3, 3, PEALI_PULL);
    e = open_rank(s, 1);
    e->at[0].i.flag = -1;
    close_rank(s, 1);
    refuted(s, "which nothing raises");
}

static void test_form(void **state)
{
    scene *s = lowered("ring", 3, 3, PEALI_PULL);
    edit_program *e = open_rank(s, 1);
    e->at[2].i.end = e->p.ncuts;
    close_rank(s, 1);
    refuted(s, "has no range");

    s = lowered("ring", 2, 1, PEALI_PULL);
    e = open_rank(s, 1);
    int no = find(e, PEALI_I_REDUCE, 0);
    e->at[no].waits[0] = no + 1;
    e->at[no].i.nwaits = 1;
    close_rank(s, 1);
    refuted(s, "which is no message before it");

    s = lowered("ring", 3, 3, PEALI_PULL);
    e = open_rank(s, 1);
    edit_drop(e, 0);
    close_rank(s, 1);
    refuted(s, "does not begin with enter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm), cmocka_unit_test(test_values),
        cmocka_unit_test(test_push_operands),   cmocka_unit_test(test_progress),
        cmocka_unit_test(test_arrivals),        cmocka_unit_test(test_open_messages),
        cmocka_unit_test(test_closed),          cmocka_unit_test(test_list_order),
        cmocka_unit_test(test_messages),        cmocka_unit_test(test_races_across_ranks),
        cmocka_unit_test(test_flags_of_slots),  cmocka_unit_test(test_form),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
