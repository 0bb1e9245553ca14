/*
 * check accepts what is right, and refutes a schedule with each kind of defect, naming the rank and the operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "check_samples.h"
#include "study/check.h"

static peal_bill current_bill;

static peal_bill bill(const peal_problem *p)
{
    return current_bill;
}

static peal_algo algo_of(const sample *t)
{
    current_bill = t->bill;
    return (peal_algo){t->name, t->kind, t->in_rank_order, NULL, t->build, bill};
}

static peal_status check_sample(const sample *t, peali_check_report *report)
{
    peal_algo algo = algo_of(t);
    peal_problem p = {.kind = t->kind, .op = PEAL_SUM, .nranks = t->n, .root = t->root, .nnodes = 1};
    return peali_check(&algo, &p, report);
}

static void test_samples(void **state)
{
    peali_check_report report;
    int wrong = 0;
    for (size_t i = 0; i < nsamples; i++) {
        const sample *t = &samples[i];
        peal_status status = check_sample(t, &report);
        if (status == (t->why ? PEAL_ERR_INVALID : PEAL_OK) && (!t->why || strstr(report.why, t->why)))
            continue;
        print_error("sample %zu (%s): status %d, said \"%s\", expected \"%s\"\n", i, t->name, status, report.why,
                    t->why ? t->why : "");
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* Schedules that build.c would refuse, or with edges that order.c would not give, made by editing right ones. */
typedef struct built {
    peal_algo algo;
    peal_problem problem;
    peal_sched *sched[8];
    peali_order order[8];
} built;

static void make(built *b, const sample *t)
{
    b->algo = algo_of(t);
    b->problem = (peal_problem){.kind = t->kind, .op = PEAL_SUM, .nranks = t->n, .root = t->root, .nnodes = 1};
    for (int r = 0; r < t->n; r++) {
        assert_int_equal(peali_sched_build(&b->algo, &b->problem, r, &b->sched[r]), PEAL_OK);
        assert_int_equal(peali_order_infer(b->sched[r], &b->order[r]), PEAL_OK);
    }
}

static void expect(built *b, const char *why)
{
    peali_check_case what = {&b->algo, &b->problem, (const peal_sched *const *)b->sched, b->order};
    peali_check_report report;
    peal_status status = peali_check_built(&what, &report);
    if (why && (status != PEAL_ERR_INVALID || !strstr(report.why, why)))
        fail_msg("status %d, said \"%s\", expected \"%s\"", status, report.why, why);
    if (!why && status != PEAL_OK)
        fail_msg("status %d, said \"%s\"", status, report.why);
    for (int r = 0; r < b->problem.nranks; r++) {
        peali_order_free(&b->order[r]);
        peali_sched_free(&b->sched[r]);
    }
}

static void test_races(void **state)
{
    built b;
    make(&b, &samples[0]);
    peali_order *o = &b.order[1];
    memset(o->start, 0, 5 * sizeof *o->start);
    expect(&b, "rank 1, operation 1 (send OUT block 0 to rank 0 lane 0): races with operation 0 (copy OUT block 0 from IN): "
               "reads OUT");

    make(&b, &samples[0]);
    o = &b.order[0];
    o->start[4] = o->start[3]; /* the reduction waits for nothing */
    expect(&b, "rank 0, operation 3 (reduce OUT block 0 from tmp 0): races with operation 2");

    make(&b, &samples[0]);
    for (int e = b.order[0].start[3]; e < b.order[0].start[4]; e++)
        if (b.order[0].from[e] == 1)
            b.order[0].from[e] = 2; /* it waits for its message, not for the send */
    expect(&b, "rank 0, operation 3 (reduce OUT block 0 from tmp 0): races with operation 1 (send OUT block 0 to rank 1 lane 0): "
               "writes OUT");
}

/* Edges that imply the one that was left out are as good. */
static void test_implied_edge(void **state)
{
    built b;
    make(&b, &samples[0]);
    int32_t start[] = {0, 0, 1, 1, 3}, from[] = {0, 1, 2};
    memcpy(b.order[0].start, start, sizeof start);
    memcpy(b.order[0].from, from, sizeof from);
    expect(&b, NULL);
}

static void test_needless_edge(void **state)
{
    built b;
    make(&b, &samples[0]);
    int32_t start[] = {0, 0, 1, 2, 4}, from[] = {0, 0, 1, 2};
    memcpy(b.order[1].start, start, sizeof start);
    peali_free(b.order[1].from);
    b.order[1].from = peali_alloc(4, sizeof *from);
    memcpy(b.order[1].from, from, sizeof from);
    expect(&b, "rank 1, operation 2 (recv tmp 0 block 0 from rank 0 lane 0): waits for operation 0, with which it shares nothing");
}

static void test_forms(void **state)
{
    built b;
    make(&b, &samples[0]);
    b.sched[1]->ops[2].dst = PEAL_BUF_IN;
    expect(&b, "rank 1, operation 2 (recv IN block 0 from rank 0 lane 0): writes IN");
    make(&b, &samples[0]);
    b.sched[1]->ops[1].peer = 1;
    expect(&b, "rank 1, operation 1 (send OUT block 0 to rank 1 lane 0): there is no such peer");
    make(&b, &samples[0]);
    b.sched[1]->ops[1].peer = 2;
    expect(&b, "there is no such peer");
    make(&b, &samples[0]);
    b.sched[0]->ops[0].end = 2;
    expect(&b, "rank 0, operation 0 (copy OUT blocks 0..1 from IN): of 1 blocks");
    make(&b, &samples[0]);
    b.sched[0]->ops[3].src = PEAL_BUF_OUT;
    expect(&b, "OUT is its own source");
    make(&b, &samples[0]);
    b.sched[0]->ops[3].src = PEAL_BUF_TMP + 9;
    expect(&b, "source buffer 11 of 3");
    make(&b, &samples[0]);
    b.sched[0]->ops[2].dst = -1;
    expect(&b, "target buffer -1 of 3");
    make(&b, &samples[0]);
    b.sched[0]->ops[2].lane = 1;
    expect(&b, "of 1 lanes");
    make(&b, &samples[0]);
    b.sched[0]->ops[2].verb = 4;
    expect(&b, "operation 2 has verb 4");
}

/* Beyond exact sets: a share that is lost or counted twice shows in the sum of weights. */
static void one_share_wrong(peal_sched *s, const peal_problem *p, int rank)
{
    int n = p->nranks, wrong = p->root ? 2 : 0;
    peal_blocks(s, 1);
    peal_copy(s, peal_out(0, 1), peal_in(0, 1));
    if (rank > 0) {
        peal_send(s, 0, peal_out(0, 1));
        peal_recv(s, 0, peal_out(0, 1));
        return;
    }
    for (int r = 1; r < n; r++) {
        peal_recv(s, r, peal_tmp(0, 0));
        for (int i = 0; i < (r == 33 ? wrong : 1); i++)
            peal_reduce_into(s, peal_out(0, 1), peal_tmp(0, 0));
    }
    for (int r = 1; r < n; r++)
        peal_send(s, r, peal_out(0, 1));
}

static void test_fingerprints(void **state)
{
    sample t = {"one_share_wrong", PEAL_ALLREDUCE, 65, 0, one_share_wrong, {1, 2, 64, 1},
                "rank 0: ends with other shares in block 0 of OUT", 0};
    peali_check_report report;
    for (t.root = 0; t.root < 2; t.root++) {
        assert_int_equal(check_sample(&t, &report), PEAL_ERR_INVALID);
        assert_non_null(strstr(report.why, t.why));
    }
}

/* Every allocation fails once; a proof then says so, and nothing leaks. */
static void test_no_memory(void **state)
{
    peali_check_report report;
    peal_status status = PEAL_ERR_MEMORY;
    for (long n = 1; status == PEAL_ERR_MEMORY; n++) {
        assert_true(n < 1000);
        peali_alloc_fail_at(n);
        status = check_sample(&samples[5], &report);
    }
    peali_alloc_fail_at(0);
    assert_int_equal(status, PEAL_OK);
}

static void test_all_algorithms(void **state)
{
    peali_check_options options = {.kind = -1, .max_ranks = PEALI_CHECK_EXACT};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    int64_t schedules = peali_check_all(out, &options);
    fclose(out);
    print_message("%s", text);
    free(text);
    assert_true(schedules > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),       cmocka_unit_test(test_races),        cmocka_unit_test(test_implied_edge),
        cmocka_unit_test(test_needless_edge), cmocka_unit_test(test_forms),        cmocka_unit_test(test_fingerprints),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_all_algorithms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
