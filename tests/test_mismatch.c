/*
 * Calls that differ between ranks: each is named, with both calls in full, by every rank that cannot finish; none is silent. Over
 * threads, by messages and across reach.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sched/sched.h"
#include "team.h"

enum { MOST_RANKS = 8, TEXT = 1 << 16 };

enum defect { COUNT, TYPE, OP, ROOT, KIND, EXTRA, MISSING, DEFECTS };
static const char *const defect_names[] = {"count", "type", "op", "root", "kind", "extra", "missing"};

typedef struct scene {
    enum defect defect;
    const peal_algo *algo;
    int n, bad;
    size_t count;
    peal_status got[MOST_RANKS];
    int gone; /* ranks that returned */
} scene;

static char log_path[64];

static peal_status call(peal_comm *comm, const scene *s, int differs, float *in, float *out)
{
    size_t count = s->count + (differs && s->defect == COUNT ? 1 : 0);
    peal_type type = differs && s->defect == TYPE ? PEAL_INT32 : PEAL_FLOAT;
    peal_op op = differs && s->defect == OP ? PEAL_AVG : PEAL_SUM; /* which run alike */
    int root = differs && s->defect == ROOT ? 1 : 0;
    peal_kind kind = s->algo->kind;
    if (differs && s->defect == KIND && kind == PEAL_ALLREDUCE)
        return peal_barrier(comm, NULL);
    if (differs && s->defect == KIND)
        return kind == PEAL_BROADCAST ? peal_allreduce(in, out, count, type, op, comm, NULL)
                                      : peal_broadcast(out, count, type, root, comm, NULL);
    if (kind == PEAL_BROADCAST)
        return peal_broadcast(out, count, type, root, comm, NULL);
    if (kind == PEAL_REDUCE)
        return peal_reduce(in, out, count, type, op, root, comm, NULL);
    return peal_allreduce(in, out, count, type, op, comm, NULL);
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    float *in = calloc(s->count + 1, sizeof *in), *out = calloc(s->count + 1, sizeof *out);
    int bad = rank == s->bad;
    if (peal_comm_force(comm, s->algo->kind, s->algo->name) != PEAL_OK)
        return;
    s->got[rank] = peal_allreduce(in, out, 1, PEAL_FLOAT, PEAL_SUM, comm, NULL); /* a right one first */
    if (s->got[rank] == PEAL_OK && s->defect == EXTRA && bad)
        s->got[rank] = peal_allreduce(in, out, s->count, PEAL_FLOAT, PEAL_MIN, comm, NULL);
    if (s->defect == MISSING && bad)
        usleep(400 * 1000); /* and then it comes, late */
    if (s->got[rank] == PEAL_OK)
        s->got[rank] = call(comm, s, bad, in, out);
    __atomic_add_fetch(&s->gone, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&s->gone, __ATOMIC_SEQ_CST) < s->n) /* a rank that ended its communicator could not be told */
        usleep(1000);
    free(in);
    free(out);
}

static size_t read_log(char *text)
{
    FILE *f = fopen(log_path, "r");
    size_t n = f ? fread(text, 1, TEXT - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    return n;
}

/* A line of rank RANK that names two calls, or for a missing rank the ranks without a word. */
static int names(const char *text, int rank, const char *words)
{
    char start[32];
    snprintf(start, sizeof start, "rank %d: ", rank);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = strchr(line, '\n'), *at = strstr(line, start), *what = strstr(line, words);
        if (at && what && end && at < end && what < end)
            return 1;
    }
    return 0;
}

static void judge(const scene *s, const char *text, const char *layout)
{
    int named = 0;
    for (int r = 0; r < s->n; r++) {
        int says = s->defect == MISSING ? names(text, r, "no word from rank") : names(text, r, "calls differ: rank ");
        named += says;
        if (s->defect != MISSING && s->got[r] != PEAL_OK && (!says || s->got[r] != PEAL_ERR_MISMATCH))
            fail_msg("%s %s, %s, count %zu, %d ranks, %s: rank %d returned \"%s\" and said: %s", peal_kind_name(s->algo->kind),
                     s->algo->name, defect_names[s->defect], s->count, s->n, layout, r, peal_status_text(s->got[r]), text);
    }
    int all = s->algo->kind == PEAL_ALLREDUCE && s->defect != MISSING ? s->n : 1;
    if (s->defect == MISSING && s->algo->kind == PEAL_BROADCAST) /* the others may leave without it */
        all = 0;
    if (named < all)
        fail_msg("%s %s, %s, count %zu, %d ranks, %s: %d ranks said what is wrong: %s", peal_kind_name(s->algo->kind),
                 s->algo->name, defect_names[s->defect], s->count, s->n, layout, named, text);
}

static void one(scene s, int apart, int parley_ms)
{
    static char text[TEXT];
    peali_layout layouts[MOST_RANKS];
    for (int r = 0; r < s.n; r++)
        layouts[r] = (peali_layout){.apart = apart, .parley_ms = parley_ms};
    FILE *f = fopen(log_path, "w");
    if (f)
        fclose(f);
    assert_int_equal(team_run_in((unsigned)s.n, layouts, play, &s), PEAL_OK);
    read_log(text);
    judge(&s, text, apart ? "messages" : "within reach");
}

static int applies(const scene *s)
{
    int rooted = s->algo->kind == PEAL_BROADCAST || s->algo->kind == PEAL_REDUCE;
    if (s->algo->kind == PEAL_ALLGATHER || s->algo->kind == PEAL_REDUCE_SCATTER)
        return 0;
    return (s->defect != ROOT || rooted) && (s->defect != OP || s->algo->kind != PEAL_BROADCAST);
}

static void matrix(int n, size_t count, int apart)
{
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int d = 0; d < DEFECTS; d++) {
            scene s = {.defect = (enum defect)d, .algo = *a, .n = n, .bad = n - 1, .count = count};
            peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = 1};
            if (peali_algo_fits(*a, &problem) && applies(&s))
                one(s, apart, 100);
        }
}

static void test_messages_2(void **state)
{
    matrix(2, 16, 1);
}

static void test_messages_4(void **state)
{
    matrix(4, 16, 1);
}

static void test_messages_large(void **state)
{
    matrix(4, 75000, 1);
}

static void test_within_reach(void **state)
{
    matrix(4, 16, 0);
    matrix(3, 75000, 0);
}

/* With the times that users have: within 2 s. */
static void test_in_time(void **state)
{
    for (int d = 0; d < DEFECTS; d++) {
        struct timespec from, to;
        scene s = {.defect = (enum defect)d, .algo = peali_algo_find(PEAL_ALLREDUCE, "ring"), .n = 4, .bad = 2, .count = 75000};
        if (d == ROOT || d == MISSING)
            continue;
        clock_gettime(CLOCK_MONOTONIC, &from);
        one(s, 1, 0);
        clock_gettime(CLOCK_MONOTONIC, &to);
        double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
        if (seconds > 2.7) /* of which the named line comes by 2 s, and what is left is a linger */
            fail_msg("%s took %.2f s", defect_names[d], seconds);
    }
}

int main(void)
{
    snprintf(log_path, sizeof log_path, "mismatch.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    setenv("PEAL_TIMEOUT", "5", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_2),     cmocka_unit_test(test_messages_4), cmocka_unit_test(test_messages_large),
        cmocka_unit_test(test_within_reach), cmocka_unit_test(test_in_time),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
