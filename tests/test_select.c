/* Tuning tables: what they say, what breaks them, and that all ranks of a communicator choose alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "comm/comm.h"
#include "comm/select.h"
#include "sched/tuning.h"
#include "study/cost.h"
#include "team.h"

static peali_tuning table;
static char why[PEALI_TUNING_WHY];

/* The table of TEXT, by way of a file. */
static bool read_text(const char *text)
{
    char path[] = "test_select_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    why[0] = '\0';
    bool ok = peali_tuning_read(path, &table, why);
    unlink(path);
    return ok;
}

static peali_tuning_choice choose(peal_kind kind, const char *transport, int nranks, size_t bytes)
{
    peal_problem problem = {.kind = kind, .nranks = nranks, .nnodes = 1};
    return peali_tuning_choose(peali_tuning_find(&table, kind, transport, nranks, 1), &problem, bytes);
}

static void takes(const char *transport, int nranks, size_t bytes, const char *algo, size_t slice_bytes)
{
    peali_tuning_choice c = choose(PEAL_ALLREDUCE, transport, nranks, bytes);
    assert_non_null(c.algo);
    assert_string_equal(c.algo->name, algo);
    assert_int_equal(c.slice_bytes, slice_bytes);
}

static const char good[] = "# a comment\n"
                           "\n"
                           "allreduce mpi 4 1024 binomial 0\n"
                           "  allreduce mpi 4 16k recursive_doubling 0\n"
                           "allreduce mpi 4 inf ring 256K\n"
                           "allreduce mpi 16 inf rabenseifner 1m\n"
                           "allreduce * 4 inf ring 0\n"
                           "allreduce * 64 inf circulant 0\n";

static void test_lookup(void **state)
{
    assert_true(read_text(good));
    assert_int_equal(table.ngiven, 6);
    takes("mpi", 4, 1, "binomial", 0);
    takes("mpi", 4, 1024, "binomial", 0);
    takes("mpi", 4, 1025, "recursive_doubling", 0);
    takes("mpi", 4, 16 << 10, "recursive_doubling", 0);
    takes("mpi", 4, (16 << 10) + 1, "ring", 256 << 10);
    takes("mpi", 4, SIZE_MAX, "ring", 256 << 10);
    takes("ucx", 4, 16, "ring", 0); /* any transport */
    takes("ucx", 16, 16, "ring", 0);
    takes("ucx", 17, 16, "circulant", 0);
    takes("mpi", 2, 16, "binomial", 0);
    takes("mpi", 7, 16, "binomial", 0);  /* 7/4 is less than 16/7 */
    takes("mpi", 8, 16, "binomial", 0);  /* as near to both: the first */
    takes("mpi", 9, 16, "rabenseifner", 1 << 20);
    takes("mpi", 32, 16, "rabenseifner", 1 << 20);
    takes("mpi", 33, 16, "circulant", 0);
    takes("mpi", 4000, 16, "circulant", 0);
}

static void test_others_are_built_in(void **state)
{
    static peali_tuning alone;
    assert_true(read_text(good));
    assert_true(peali_tuning_read(NULL, &alone, why));
    assert_int_equal(alone.ngiven, 0);
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++) {
        peali_tuning_choice c = choose((peal_kind)kind, "mpi", 4, 1 << 20);
        assert_non_null(c.row);
        assert_int_equal(c.row->given, kind == PEAL_ALLREDUCE);
        assert_int_equal(c.algo->kind, kind);
    }
    assert_int_not_equal(peali_tuning_hash(&alone), peali_tuning_hash(&table));
}

static void test_fallback(void **state)
{
    static const int two_nodes[] = {0, 0, 1, 1};
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .nranks = 4, .nnodes = 2, .node = two_nodes};
    assert_true(read_text("allreduce * 4 inf hierarchical 0\nallreduce * 4 inf ring 64k\n"));
    takes("mpi", 4, 16, "ring", 64 << 10);
    peali_tuning_choice c = peali_tuning_choose(peali_tuning_find(&table, PEAL_ALLREDUCE, "mpi", 4, 2), &problem, 16);
    assert_string_equal(c.algo->name, "hierarchical");
    assert_true(read_text("allreduce * 4 inf hierarchical 0\n")); /* none is left: the first that suits */
    c = choose(PEAL_ALLREDUCE, "mpi", 4, 16);
    assert_null(c.row);
    assert_non_null(c.algo);
    assert_null(strstr(c.algo->name, "hierarchical"));
}

static const char *on_hosts(peal_kind kind, int nhosts, size_t bytes)
{
    static int node[16];
    peal_problem problem = {.kind = kind, .nranks = 2 * nhosts, .nnodes = nhosts, .node = node};
    for (int r = 0; r < problem.nranks; r++)
        node[r] = r / 2;
    return peali_tuning_choose(peali_tuning_find(&table, kind, "mpi", problem.nranks, nhosts), &problem, bytes).algo->name;
}

/* Rows of hosts come before those of the transport, and count hosts. */
static void test_hosts(void **state)
{
    assert_true(read_text("allreduce mpi 4 inf ring 0\nallreduce * 16 inf circulant 0\nallreduce hosts 2 1k binomial 0\n"
                          "allreduce hosts 2 inf hierarchical 0\nallreduce hosts 8 inf rabenseifner 64k\n"));
    takes("mpi", 4, 16, "ring", 0);
    assert_string_equal(on_hosts(PEAL_ALLREDUCE, 2, 1024), "binomial");
    assert_string_equal(on_hosts(PEAL_ALLREDUCE, 3, 1025), "hierarchical");
    assert_string_equal(on_hosts(PEAL_ALLREDUCE, 5, 16), "rabenseifner");
    assert_string_equal(on_hosts(PEAL_ALLREDUCE, 8, 16), "rabenseifner");
    assert_true(read_text("allreduce mpi 4 inf ring 0\n")); /* what somebody measured comes before what is built in */
    assert_string_equal(on_hosts(PEAL_ALLREDUCE, 2, 1024), "ring");
}

/*
 * By the cost model, how many times as long as the best in levels (allreduce, reduce-scatter), or of all, what the table takes
 * between hosts is. Of a reduce-scatter of 4 KiB among 4 hosts of 2, by network namespaces, knomial takes 674 us and hierarchical
 * 408, where the model has it the other way round: it does not know that ranks of a host share what sends their messages.
 */
static double excess(const peal_problem *p, size_t bytes)
{
    double best = INFINITY;
    peali_cost_params params;
    peali_tuning_choice c = peali_tuning_choose(peali_tuning_find(&table, p->kind, "ucx", p->nranks, p->nnodes), p, bytes);
    peali_cost_example(&params);
    for (int i = 0; peali_algos[i]; i++) {
        bool sums = p->kind == PEAL_ALLREDUCE || p->kind == PEAL_REDUCE_SCATTER;
        bool levels = !sums || strncmp(peali_algos[i]->name, "hierarchical", 12) == 0;
        if (peali_algos[i]->kind == p->kind && levels && peali_algo_fits(peali_algos[i], p))
            best = fmin(best, peali_cost_best_slices(peali_algos[i], p, bytes, &params).ns);
    }
    return peali_cost(c.algo, p, bytes, &params, (int)peali_tuning_slices(bytes, c.slice_bytes)) / best;
}

/* What is good between 8 hosts is not between 500. */
static void test_many_hosts(void **state)
{
    enum { PER_HOST = 4, MOST = 512 };
    static const int hosts[] = {2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64, 100, 127, 128, 256, 500, 509, MOST};
    static int node[PER_HOST * MOST];
    for (int r = 0; r < PER_HOST * MOST; r++)
        node[r] = r / PER_HOST;
    assert_true(peali_tuning_read(NULL, &table, why));
    for (size_t h = 0; h < sizeof hosts / sizeof hosts[0]; h++)
        for (int kind = PEAL_ALLREDUCE; kind <= PEAL_REDUCE_SCATTER; kind++)
            for (size_t bytes = 2 << 10; bytes <= 1 << 30; bytes *= 2) {
                int uneven = bytes & 0x55555555 ? 1 : 0;
                peal_problem p = {(peal_kind)kind, PEAL_SUM, PER_HOST * hosts[h] - uneven, 0, hosts[h], node};
                if (excess(&p, bytes) > 3)
                    fail_msg("%s of %zu bytes, %d ranks on %d hosts: %g times the best", peal_kind_name(p.kind), bytes, p.nranks,
                             p.nnodes, excess(&p, bytes));
            }
}

/* Every algorithm that the built-in table names can be chosen at any number of ranks. */
static void test_always_some(void **state)
{
    assert_true(peali_tuning_read(NULL, &table, why));
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        for (int n = 1; n <= 70; n++)
            for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes *= 8) {
                peali_tuning_choice c = choose((peal_kind)kind, "mpi", n, bytes);
                assert_non_null(c.algo);
                assert_int_equal(c.algo->kind, kind);
            }
}

static void test_malformed(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"allreduce mpi 4 inf ring\n", "line 1: it has not the 6 words"},
        {"# x\nallreduce mpi 4 inf ring 0 0\n", "line 2: it has not the 6 words"},
        {"barrier mpi 4 inf ring 0\n", "line 1: no collective barrier"},
        {"allreduce tcp 4 inf ring 0\n", "line 1: no transport tcp"},
        {"allreduce mpi 0 inf ring 0\n", "line 1: ranks 0"},
        {"allreduce mpi 4k inf ring 0\n", "line 1: ranks 4k"},
        {"allreduce mpi 4 1x ring 0\n", "line 1: bytes 1x"},
        {"allreduce mpi 4 99999999999999999999 ring 0\n", "line 1: bytes 99999999999999999999"},
        {"allreduce mpi 99999999999 inf ring 0\n", "line 1: ranks 99999999999"},
        {"allreduce mpi 4 -1 ring 0\n", "line 1: bytes -1"},
        {"allreduce mpi 4 1kk ring 0\n", "line 1: bytes 1kk"},
        {"allreduce mpi 4 inf rign 0\n", "line 1: no algorithm rign of allreduce"},
        {"broadcast mpi 4 inf ring 0\n", "line 1: no algorithm ring of broadcast"},
        {"allreduce mpi 4 inf ring inf\n", "line 1: slice_bytes inf"},
        {"allreduce mpi 4 2k ring 0\nallreduce mpi 4 1k ring 0\n", "line 2: its bytes are below"},
        {"allreduce mpi 4 2k ring 0\nallreduce mpi 8 inf ring 0\n",
         "line 2: the rows of allreduce mpi 4 before it end without inf"},
        {"allreduce mpi 4 2k ring 0\n", "line 2: the rows of allreduce mpi 4 before it end without inf"},
        {"allreduce mpi 4 inf ring 0\nallreduce mpi 8 inf ring 0\nallreduce mpi 4 inf ring 0\n",
         "line 3: the rows of allreduce mpi 4 are not together"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(read_text(cases[i].text));
        if (strncmp(why, cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("%s says: %s", cases[i].text, why);
    }
    assert_false(peali_tuning_read("nowhere/table", &table, why));
    assert_non_null(strstr(why, "cannot be read: No such file"));
    assert_false(peali_tuning_read(".", &table, why)); /* opened, but a folder */
    assert_non_null(strstr(why, "cannot be read"));
}

static void test_too_much(void **state)
{
    static char text[PEALI_TUNING_ROWS * 64];
    size_t at = 0;
    for (int i = 1; i <= PEALI_TUNING_ROWS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "allreduce mpi %d inf ring 0\n", i);
    assert_false(read_text(text));
    assert_non_null(strstr(why, "more than 1024"));
    memset(text, ' ', 300);
    strcpy(text + 300, "\n");
    assert_false(read_text(text));
    assert_non_null(strstr(why, "line 1: it is longer"));
}

static void test_hash(void **state)
{
    assert_true(read_text(good));
    uint64_t hash = peali_tuning_hash(&table);
    assert_true(read_text("allreduce mpi 4 1k binomial 0\nallreduce mpi 4 16K recursive_doubling 0\n# and\n"
                          "allreduce mpi 4 inf ring 262144\nallreduce mpi 16 inf rabenseifner 1024k\n"
                          "allreduce * 4 inf ring 0\nallreduce * 64 inf circulant 0"));
    assert_int_equal(peali_tuning_hash(&table), hash); /* other words for the same */
    assert_true(read_text("allreduce mpi 4 1k binomial 0\nallreduce mpi 4 16K recursive_doubling 0\n"
                          "allreduce mpi 4 inf ring 262145\nallreduce mpi 16 inf rabenseifner 1024k\n"
                          "allreduce * 4 inf ring 0\nallreduce * 64 inf circulant 0"));
    assert_int_not_equal(peali_tuning_hash(&table), hash);
}

static void test_slices(void **state)
{
    static const size_t cases[][3] = {{0, 0, 1}, {100, 0, 1}, {0, 10, 1}, {1, 10, 1}, {10, 10, 1}, {11, 10, 2}, {100, 10, 10},
                                      {SIZE_MAX, SIZE_MAX, 1}, {SIZE_MAX, 1, 1 << 15}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(peali_tuning_slices(cases[i][0], cases[i][1]), cases[i][2]);
}

/* What ranks that see no buffers of each other cut vectors into. */
static void test_shared_slices(void **state)
{
    static const int longest[][2] = {{2, 128}, {3, 128}, {4, 512}, {16, 512}, {44, 512}, {64, 512}};
    assert_true(peali_tuning_read(NULL, &table, why));
    for (size_t i = 0; i < sizeof longest / sizeof longest[0]; i++)
        takes("shm", longest[i][0], 4 << 20, "two_shot", (size_t)longest[i][1] << 10);
}

/* What is in flight of a long vector is staged where ranks see no buffers of each other: never all of it. */
static void test_shared_memory_is_bounded(void **state)
{
    assert_true(peali_tuning_read(NULL, &table, why));
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        for (int n = 2; n <= 128; n++) {
            size_t slice = choose((peal_kind)kind, "shm", n, (size_t)1 << 30).slice_bytes;
            if (slice < 1 || slice > 4 << 20)
                fail_msg("%s among %d: slices of %zu", peal_kind_name((peal_kind)kind), n, slice);
        }
}

static void note_slices(peal_comm *comm, int rank, void *ctx)
{
    peali_job job = {.count = (size_t)1 << 30, .type = PEAL_UINT8, .op = PEAL_SUM};
    assert_int_equal(peal_comm_force(comm, PEAL_ALLREDUCE, "ring"), PEAL_OK);
    assert_true(peali_select(comm, PEAL_ALLREDUCE, &job));
    ((int *)ctx)[rank] = job.slices;
    comm->seen[PEAL_BROADCAST] = UINT64_MAX; /* of its root's buffer that says something, of the others nothing */
    assert_int_equal(peal_comm_force(comm, PEAL_BROADCAST, "two_shot"), PEAL_OK);
    assert_true(peali_select(comm, PEAL_BROADCAST, &job) && job.slices == ((int *)ctx)[rank]);
    job.count = (size_t)1 << 40; /* more than tags tell apart */
    assert_true(peali_select(comm, PEAL_BROADCAST, &job) && job.slices <= PEALI_TUNING_SLICES);
    peal_comm_force_slice(comm, 1); /* bytes, but no less than an element */
    job = (peali_job){.count = 3, .type = PEAL_DOUBLE, .op = PEAL_SUM};
    assert_true(peali_select(comm, PEAL_ALLREDUCE, &job) && job.slices == 3);
}

/* Nor where somebody names an algorithm, which is else in one slice. */
static void test_staged_slices(void **state)
{
    const peali_layout apart[2] = {{.apart = true}, {.apart = true}};
    int slices[2];
    assert_int_equal(team_run_in(2, NULL, note_slices, slices), PEAL_OK);
    assert_int_equal(slices[0], 64);
    assert_int_equal(slices[1], 64);
    assert_int_equal(team_run_in(2, apart, note_slices, slices), PEAL_OK);
    assert_int_equal(slices[1], 1); /* messages are not staged */
}

static void slice_again(peal_comm *comm, int rank, void *ctx)
{
    int32_t *in = calloc(4096, sizeof *in), *out = calloc(4096, sizeof *out);
    static const size_t bytes[] = {0, 0, 0, 0, 1024, 512};
    unsigned made[6] = {0};
    for (int k = 0; k < 6; k++) {
        peal_comm_force_slice(comm, bytes[k]);
        assert_int_equal(peal_allreduce(in, out, 4096, PEAL_INT32, PEAL_SUM, comm, NULL), PEAL_OK);
        made[k] = (unsigned)comm->plans.made;
    }
    ((int *)ctx)[rank] = made[4] == made[3] + 1 && made[5] == made[4] + 1;
    free(in);
    free(out);
}

/* Slices that are asked for are those of a call that was made before, too. */
static void test_other_slices(void **state)
{
    int anew[2];
    assert_int_equal(team_run(2, slice_again, anew), PEAL_OK);
    assert_true(anew[0] && anew[1]);
}

typedef struct taken {
    const char *algo;
    int slices;
} taken;

/* Of 1 MiB, where buffers were not seen, and where they were. */
static void note_rows(peal_comm *comm, int rank, void *ctx)
{
    assert_int_equal(comm->max_ctas, 7);
    for (int seen = 0; seen < 2; seen++) {
        peali_job job = {.count = 1 << 20, .type = PEAL_UINT8, .op = PEAL_SUM};
        comm->seen[PEAL_ALLREDUCE] = seen ? UINT64_MAX : 0;
        assert_true(peali_select(comm, PEAL_ALLREDUCE, &job));
        ((taken *)ctx)[2 * rank + seen] = (taken){job.algo->name, job.slices};
    }
}

/* In a process whose table is TEXT, or the built-in one; two ranks of it, each without and with buffers that all see. */
static void takes_rows(const char *slice, const char *text, const char *algo, int unseen, int seen)
{
    char path[] = "test_select_XXXXXX";
    int status, fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        taken got[4] = {{NULL, 0}};
        setenv("PEAL_TUNING", *text ? path : "auto", 1);
        setenv("PEAL_SLICE", slice, 1);
        setenv("PEAL_MAX_CTAS", "7", 1);
        bool right = team_run_in(2, NULL, note_rows, got) == PEAL_OK;
        for (int k = 0; k < 4 && right; k++)
            right = strcmp(got[k].algo, algo) == 0 && got[k].slices == (k % 2 ? seen : unseen);
        _exit(!right);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(path);
    assert_int_equal(status, 0);
}

/* The first test, for a process has one table. What somebody measured comes before built-in rows of buffers that all see, too. */
static void test_rows_of_a_communicator(void **state)
{
    takes_rows("auto", "", "two_shot", 8, 2);
    takes_rows("auto", "allreduce shm 2 inf ring 64k\n", "ring", 16, 16);
    takes_rows("auto", "allreduce shm 2 inf ring 64k\nallreduce direct 2 inf ring 256k\n", "ring", 16, 4);
    takes_rows("32k", "allreduce shm 2 inf ring 64k\n", "ring", 32, 32);
    takes_rows("auto", "allreduce direct 2 inf two_shot 256k\n", "two_shot", 8, 4);
}

enum { SIZES = 22 };

static void note_choices(peal_comm *comm, int rank, void *ctx)
{
    const char *(*choice)[PEALI_TUNING_KINDS][SIZES] = ctx;
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        for (int i = 0; i < SIZES; i++)
            choice[rank][kind][i] = peal_comm_choice(comm, (peal_kind)kind, (size_t)1 << i, PEAL_DOUBLE, PEAL_SUM);
}

/* All ranks choose alike, though their memory differs, and as the table says of the vector's bytes. */
static void test_ranks_agree(void **state)
{
    enum { N = 5 };
    static const char *choice[N][PEALI_TUNING_KINDS][SIZES];
    peali_layout layouts[N] = {[1] = {.staged = true}, [4] = {.staged = true}};
    assert_int_equal(team_run_in(N, layouts, note_choices, choice), PEAL_OK);
    assert_true(peali_tuning_read(NULL, &table, why));
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        for (int i = 0; i < SIZES; i++) {
            bool parts = kind == PEAL_ALLGATHER || kind == PEAL_REDUCE_SCATTER;
            const peal_algo *algo = choose((peal_kind)kind, "shm", N, ((size_t)8 << i) * (parts ? N : 1)).algo;
            for (int r = 0; r < N; r++)
                assert_string_equal(choice[r][kind][i], algo->name);
        }
}

static void note_on_nodes(peal_comm *comm, int rank, void *ctx)
{
    for (int kind = 0; kind < PEALI_TUNING_KINDS; kind++)
        comm->seen[kind] = rank < 2 ? UINT64_MAX : 0;
    note_choices(comm, rank, ctx);
}

/* What ranks of one node saw of each other, those of another one were not told. */
static void test_nodes_agree(void **state)
{
    enum { N = 4 };
    static const char *choice[N][PEALI_TUNING_KINDS][SIZES];
    const peali_layout two = {.nodes = "2+2"}, layouts[N] = {two, two, two, two};
    assert_int_equal(team_run_in(N, layouts, note_on_nodes, choice), PEAL_OK);
    for (int r = 1; r < N; r++)
        assert_memory_equal(choice[r], choice[0], sizeof choice[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_a_communicator),
        cmocka_unit_test(test_lookup),      cmocka_unit_test(test_others_are_built_in), cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_always_some), cmocka_unit_test(test_malformed),           cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_hash),        cmocka_unit_test(test_slices),              cmocka_unit_test(test_ranks_agree),
        cmocka_unit_test(test_hosts),       cmocka_unit_test(test_shared_slices),
        cmocka_unit_test(test_nodes_agree), cmocka_unit_test(test_other_slices),
        cmocka_unit_test(test_shared_memory_is_bounded),
        cmocka_unit_test(test_many_hosts),     cmocka_unit_test(test_staged_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
