/*
 * The base: names, arena, clock, configuration and log.
 *
 * Configuration is read once in a process, so each setting is tried in a child of its own, whose stderr comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

static char said[1 << 16]; /* by the last child */

static void hear(int fd)
{
    size_t len = 0;
    ssize_t got;
    while (len < sizeof(said) - 1 && (got = read(fd, said + len, sizeof(said) - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = 0;
}

/* Runs PLAY in a child with the settings "NAME=value" up to NULL and no other PEAL_* variable; answers what PLAY answers. */
static int in_child(int (*play)(void), const char *const *settings)
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        for (int i = 0; settings[i]; i++)
            putenv((char *)settings[i]);
        _exit(play());
    }
    close(out[1]);
    hear(out[0]);
    close(out[0]);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_SETTINGS ((const char *const[]){NULL})

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(peal_kind_name(PEAL_ALLREDUCE), "allreduce");
    assert_string_equal(peal_kind_name(PEAL_REDUCE), "reduce");
    assert_string_equal(peal_kind_name(PEAL_BARRIER), "barrier");
    assert_string_equal(peal_type_name(PEAL_INT8), "int8");
    assert_string_equal(peal_type_name(PEAL_UINT64), "uint64");
    assert_string_equal(peal_type_name(PEAL_DOUBLE), "double");
    assert_string_equal(peal_type_name(PEAL_BF16), "bf16");
    assert_string_equal(peal_type_name(PEAL_FP8_E4M3), "fp8_e4m3");
    assert_string_equal(peal_type_name(PEAL_COMPLEX_LONG_DOUBLE), "complex_long_double");
    assert_string_equal(peal_op_name(PEAL_SUM), "sum");
    assert_string_equal(peal_op_name(PEAL_BXOR), "bxor");
    assert_string_equal(peal_op_name(PEAL_AVG), "avg");
    assert_string_equal(peal_op_name(PEAL_PREMUL_SUM), "premul_sum");
    assert_string_equal(peal_kind_name(PEAL_KIND_COUNT), "?");
    assert_string_equal(peal_type_name((peal_type)-1), "?");
    assert_string_equal(peal_op_name((peal_op)(PEAL_PREMUL_SUM + 1)), "?");
    assert_int_equal(peal_type_bytes(PEAL_UINT16), 2);
    assert_int_equal(peal_type_bytes(PEAL_FLOAT), 4);
    assert_int_equal(peal_type_bytes(PEAL_BYTE), 1);
    assert_int_equal(peal_type_bytes(PEAL_FP8_E5M2), 1);
    assert_int_equal(peal_type_bytes(PEAL_FP16), 2);
    assert_int_equal(peal_type_bytes(PEAL_COMPLEX_LONG_DOUBLE), 2 * sizeof(long double));
    assert_int_equal(peal_type_bytes(PEAL_TYPE_COUNT), 0);
}

static void op_takes(void **state)
{
    (void)state;
    for (int op = 0; op <= PEAL_PREMUL_SUM; op++)
        for (int type = 0; type < PEAL_TYPE_COUNT; type++) {
            int complex_number = type >= PEAL_COMPLEX_FLOAT, real = type >= PEAL_FP8_E4M3 && !complex_number;
            int sum = op == PEAL_SUM || op == PEAL_PROD || op >= PEAL_AVG, extreme = op == PEAL_MIN || op == PEAL_MAX;
            int logical = op == PEAL_LAND || op == PEAL_LOR || op == PEAL_LXOR, bitwise = !sum && !extreme && !logical;
            int takes = type == PEAL_BYTE ? bitwise : type == PEAL_BOOL ? logical : complex_number ? sum : !real || sum || extreme;
            assert_int_equal(peal_op_takes((peal_op)op, (peal_type)type), takes);
        }
    assert_int_equal(peal_op_takes((peal_op)(PEAL_PREMUL_SUM + 1), PEAL_INT8), 0);
    assert_int_equal(peal_op_takes(PEAL_SUM, PEAL_TYPE_COUNT), 0);
}

static void status_text(void **state)
{
    (void)state;
    for (int a = PEAL_ERR_CAPTURE - 1; a <= PEAL_IN_PROGRESS; a++)
        for (int b = PEAL_ERR_CAPTURE - 1; b < a; b++)
            assert_string_not_equal(peal_status_text((peal_status)a), peal_status_text((peal_status)b));
}

static void arena(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 5000, 1 << 20, 3 << 20};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), EACH = 20 };
    unsigned char *got[SIZES * EACH];
    peali_arena a = {NULL};
    for (size_t i = 0; i < SIZES * EACH; i++) {
        size_t bytes = sizes[i % SIZES];
        got[i] = peali_arena_get(&a, bytes, 1);
        assert_non_null(got[i]);
        assert_int_equal((uintptr_t)got[i] % 64, 0);
        for (size_t b = 0; b < bytes; b += 61)
            assert_int_equal(got[i][b], 0);
        memset(got[i], (int)i + 1, bytes);
    }
    for (size_t i = 0; i < SIZES * EACH; i++)
        for (size_t b = 0; b < sizes[i % SIZES]; b += 61)
            assert_int_equal(got[i][b], (unsigned char)(i + 1));
    assert_null(peali_arena_get(&a, SIZE_MAX / 2, 4));
    assert_null(peali_arena_get(&a, SIZE_MAX - 3, 1));
    peali_arena_free(&a);
    assert_null(a.head);
}

static void arena_is_few_allocations(void **state)
{
    (void)state;
    peali_arena a = {NULL};
    long before = peali_alloc_count();
    for (int i = 0; i < 10000; i++)
        assert_non_null(peali_arena_get(&a, 1, 64));
    assert_in_range(peali_alloc_count() - before, 1, 10);
    peali_arena_free(&a);
}

static void allocation_fails(void **state)
{
    (void)state;
    long before = peali_alloc_count();
    peali_alloc_fail_at(3);
    char *first = peali_alloc(3, 1);
    assert_non_null(first);
    first = peali_realloc(first, 5, 1);
    assert_non_null(first);
    assert_null(peali_realloc(first, 7, 1));
    peali_arena a = {NULL};
    assert_non_null(peali_arena_get(&a, 1, 1));
    peali_alloc_fail_at(1);
    assert_null(peali_arena_get(&a, 1, 1 << 20));
    assert_non_null(peali_arena_get(&a, 1, 1)); /* what is there stays usable */
    assert_int_equal(peali_alloc_count() - before, 5);
    assert_null(peali_alloc(SIZE_MAX / 2, 3));
    assert_null(peali_realloc(NULL, SIZE_MAX / 2, 3));
    peali_arena_free(&a);
    peali_free(first);
}

static void time_goes_on(void **state)
{
    (void)state;
    int64_t before = peali_clock_ns();
    usleep(2000);
    peali_clock_yield();
    assert_in_range(peali_clock_ns() - before, 2000000, 60000000000);
}

static int check_twice(void)
{
    int verdict = peali_config_check();
    return peali_config_check() == verdict ? -verdict : 99;
}

static int check_cleared(void)
{
    clearenv();
    return peali_config_check();
}

static int defaults(void)
{
    const peali_config *c = peali_config_get();
    return c->log_level == PEALI_LOG_WARN && c->log_subsys == ~0u && !c->log_file && !c->algo && c->slice_bytes == 0 &&
           c->timeout_ns == -1 && c->proto == -1 && c->max_ctas == 0 && c->scratch_bytes == 16 << 20 && c->p2p &&
           c->early && c->interpose == -1;
}

static void config_defaults(void **state)
{
    (void)state;
    assert_int_equal(in_child(check_twice, NO_SETTINGS), 0);
    assert_string_equal(said, "");
    assert_int_equal(in_child(defaults, NO_SETTINGS), 1);
    assert_int_equal(in_child(defaults, SETTINGS("PEAL_LOG=", "PEAL_SLICE=")), 1);
    assert_int_equal(in_child(check_twice, SETTINGS("PEAL_TIMEOUT=")), 0);
    assert_int_equal(in_child(check_cleared, NO_SETTINGS), 0);
}

static int print_config(void)
{
    const peali_config *c = peali_config_get();
    const char *file = c->log_file ? c->log_file : "-", *algo = c->algo ? c->algo : "-";
    fprintf(stderr, "%d %x %s %s %lld %lld %d %d %lld %d %d %d %d", c->log_level, c->log_subsys, file, algo,
            (long long)c->slice_bytes, (long long)c->timeout_ns, c->proto, c->max_ctas, (long long)c->scratch_bytes, c->p2p,
            c->proxy_threads, c->progress_thread, c->interpose);
    return 0;
}

static void config_values(void **state)
{
    (void)state;
    in_child(print_config, SETTINGS("PEAL_LOG=trace", "PEAL_LOG_SUBSYS=net,init", "PEAL_LOG_FILE=a b", "PEAL_ALGO=ring",
                                    "PEAL_SLICE=64k", "PEAL_TIMEOUT=2.25", "PEAL_PROTO=ll128", "PEAL_MAX_CTAS=128",
                                    "PEAL_SCRATCH=5K", "PEAL_P2P=0", "PEAL_GDR=off", "PEAL_PROXY_THREADS=8",
                                    "PEAL_PROGRESS_THREAD=0", "PEAL_INTERPOSE=1"));
    assert_string_equal(said, "3 5 a b ring 65536 2250000000 1 128 5120 0 8 0 1");
    in_child(print_config, SETTINGS("PEAL_LOG=debug", "PEAL_LOG_SUBSYS=tune,all", "PEAL_LOG_FILE=stderr", "PEAL_ALGO=auto",
                                    "PEAL_SLICE=1024G", "PEAL_SCRATCH=1099511627776", "PEAL_TIMEOUT=0", "PEAL_INTERPOSE=0"));
    assert_string_equal(said, "2 ffffffff - - 1099511627776 0 -1 0 1099511627776 1 0 -1 0");
    in_child(print_config, SETTINGS("PEAL_SLICE=auto", "PEAL_TIMEOUT=1000000000", "PEAL_LOG=info", "PEAL_LOG_SUBSYS=graph"));
    assert_string_equal(said, "1 8 - - 0 1000000000000000000 -1 0 16777216 1 0 -1 -1");
    in_child(print_config, SETTINGS("PEAL_SLICE=3m", "PEAL_TIMEOUT=0.0000000019", "PEAL_LOG_SUBSYS=coll"));
    assert_string_equal(said, "0 2 - - 3145728 1 -1 0 16777216 1 0 -1 -1");
}

/* A wrong value: one line with the variable, its value and what is right, and the default in its place. */
static void config_wrong_values(void **state)
{
    (void)state;
    char path[1100] = "PEAL_LOG_FILE=", algo[100] = "PEAL_ALGO=";
    memset(path + strlen(path), 'x', 1024);
    memset(algo + strlen(algo), 'x', 64);
    const char *const wrong[] = {"PEAL_LOG=loud", "PEAL_LOG=warning", "PEAL_LOG_SUBSYS=net,", "PEAL_LOG_SUBSYS=net,nets",
                                 "PEAL_LOG_SUBSYS=,", "PEAL_SLICE=0", "PEAL_SLICE=-1", "PEAL_SLICE=4kb", "PEAL_SLICE=k",
                                 "PEAL_SLICE=1025g", "PEAL_SLICE=1099511627777", "PEAL_SLICE=99999999999999999999",
                                 "PEAL_TIMEOUT=-1", "PEAL_TIMEOUT=1,5", "PEAL_TIMEOUT=ten", "PEAL_TIMEOUT=5s",
                                 "PEAL_TIMEOUT=1000000001", "PEAL_TIMEOUT=.", "PEAL_NODES=4,4", "PEAL_NODES=four", "PEAL_LEVEL=l4",
                                 "PEAL_NET=tcp", "PEAL_INTERPOSE=2", "PEAL_NET_DEVICES=^", "PEAL_NET_DEVICES=eth0,,eth1",
                                 "PEAL_NET_DEVICES=eth0, eth1", "PEAL_NET_DEVICES=,eth0", "PEAL_NET_DEVICES=eth0,",
                                 "PEAL_NET_DEVICES=eth0,^eth1", "PEAL_INTERPOSE=yes", "PEAL_INTERPOSE=10", "PEAL_SCRATCH=auto",
                                 "PEAL_SCRATCH=0", "PEAL_P2P=2", "PEAL_EARLY=on", "PEAL_GDR=1", "PEAL_PROTO=ll64",
                                 "PEAL_MAX_CTAS=0", "PEAL_MAX_CTAS=129", "PEAL_MAX_CTAS=8x", "PEAL_PROXY_THREADS=0",
                                 "PEAL_PROXY_THREADS=9", "PEAL_PROGRESS_THREAD=on", path, algo};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(in_child(check_twice, SETTINGS(wrong[i])), -PEAL_ERR_CONFIG);
        assert_int_equal(lines(said), 1);
        assert_non_null(strstr(said, wrong[i]));
        assert_non_null(strstr(said, ": use "));
        assert_int_equal(in_child(defaults, SETTINGS(wrong[i])), 1);
    }
}

static void config_unknown_name(void **state)
{
    (void)state;
    peal_config_entry entry;
    assert_int_equal(in_child(check_twice, SETTINGS("PEAL_ALGOO=ring", "PEALS=1")), -PEAL_ERR_CONFIG);
    assert_int_equal(lines(said), 1);
    assert_non_null(strstr(said, "PEAL_ALGOO=ring"));
    for (int i = 0; peal_config_list(i, &entry); i++)
        assert_non_null(strstr(said, entry.name));
    assert_int_equal(in_child(check_twice, SETTINGS("PEAL_=", "PEAL_LOG_=1", "PEAL_LOG=x")), -PEAL_ERR_CONFIG);
    assert_int_equal(lines(said), 3);
}

static void config_list(void **state)
{
    (void)state;
    peal_config_entry entry;
    int count = 0;
    for (; peal_config_list(count, &entry); count++) {
        assert_int_equal(strncmp(entry.name, "PEAL_", 5), 0);
        assert_true(entry.value[0] && entry.choices[0] && entry.meaning[0]);
    }
    assert_int_equal(count, 24);
    assert_int_equal(peal_config_list(-1, &entry), 0);
    setenv("PEAL_LOG", "loud", 1);
    assert_int_equal(peal_config_list(0, &entry), 1);
    assert_string_equal(entry.name, "PEAL_LOG");
    assert_string_equal(entry.value, "loud");
    unsetenv("PEAL_LOG");
    peal_config_list(0, &entry);
    assert_string_equal(entry.value, "warn");
}

static int log_each(void)
{
    errno = 77;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 3, "count %d", 7);
    peali_log(PEALI_LOG_INFO, PEALI_SUB_NET, -1, "info");
    peali_log(PEALI_LOG_DEBUG, PEALI_SUB_NET, 0, "two\nlines");
    peali_log(PEALI_LOG_DEBUG, PEALI_SUB_INIT, 0, "init");
    peali_log(PEALI_LOG_TRACE, PEALI_SUB_NET, 0, "trace");
    return errno;
}

static void log_lines(void **state)
{
    (void)state;
    assert_int_equal(in_child(log_each, NO_SETTINGS), 77);
    assert_string_equal(said, "[peal] warn rank 3: count 7\n");
    in_child(log_each, SETTINGS("PEAL_LOG=debug", "PEAL_LOG_SUBSYS=net"));
    assert_string_equal(said, "[peal] warn rank 3: count 7\n[peal] info: info\n[peal] debug rank 0: two lines\n");
    in_child(log_each, SETTINGS("PEAL_LOG=trace"));
    assert_int_equal(lines(said), 5);
}

static int log_long(void)
{
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 0, "%s", text);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 0, "next");
    return 0;
}

static void log_long_line(void **state)
{
    (void)state;
    in_child(log_long, NO_SETTINGS);
    assert_int_equal(lines(said), 2);
    assert_non_null(strstr(said, "xxx...\n[peal] warn rank 0: next\n"));
    assert_in_range(strlen(said), 2000, 2100);
}

static char folder[64];

static int log_to_file(void)
{
    char path[400], host[256] = "";
    gethostname(host, sizeof(host) - 1);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 5, "first");
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 6, "second");
    snprintf(path, sizeof(path), "%s/%s.%ld.2.%%q", folder, host, (long)getpid());
    FILE *f = fopen(path, "r");
    int found = f && fread(path, 1, sizeof(path), f) == 53;
    if (f)
        fclose(f);
    return found && strncmp(path, "[peal] warn rank 5: first\n[peal] warn rank 6: second\n", 53) == 0;
}

/* The program closes all that it did not open, and opens a file of its own. */
static int log_closed(void)
{
    char path[200];
    struct stat is;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 0, "first");
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
        close(fd);
    snprintf(path, sizeof(path), "%s/data", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 0, "second");
    return fd == STDERR_FILENO + 1 && fstat(fd, &is) == 0 && is.st_size == 0;
}

/* What it prints to a stream that it closed does not land in the log. */
static int log_without_streams(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, 0, "first");
    return fcntl(STDIN_FILENO, F_GETFD) < 0 && fcntl(STDOUT_FILENO, F_GETFD) < 0;
}

static void log_file(void **state)
{
    (void)state;
    char setting[200], command[200];
    snprintf(folder, sizeof(folder), "test_base.%ld", (long)getpid());
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(setting, sizeof(setting), "PEAL_LOG_FILE=%s/%%h.%%p.%%r.%%q", folder);
    assert_int_equal(in_child(log_to_file, SETTINGS(setting, "OMPI_COMM_WORLD_RANK=2")), 1);
    assert_string_equal(said, "");
    assert_int_equal(in_child(log_closed, SETTINGS(setting)), 1);
    assert_string_equal(said, "[peal] warn rank 0: second\n");
    assert_int_equal(in_child(log_without_streams, SETTINGS(setting)), 1);
    assert_string_equal(said, "");
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    in_child(log_each, SETTINGS(setting));
    assert_int_equal(lines(said), 2);
    assert_non_null(strstr(said, "cannot open PEAL_LOG_FILE"));
    assert_non_null(strstr(said, "[peal] warn rank 3: count 7\n"));
    in_child(log_each, SETTINGS("PEAL_LOG_FILE=/dev/full")); /* what a full disk does not take */
    assert_string_equal(said, "[peal] warn rank 3: count 7\n");
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 100; i++)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, *(int *)arg, "%060d", i);
    return NULL;
}

static int log_from_threads(void)
{
    pthread_t thread[4];
    int rank[4];
    for (int i = 0; i < 4; i++) {
        rank[i] = i;
        if (pthread_create(&thread[i], NULL, log_many, &rank[i]) != 0)
            return 1;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static void log_lines_stay_whole(void **state)
{
    (void)state;
    assert_int_equal(in_child(log_from_threads, NO_SETTINGS), 0);
    assert_int_equal(lines(said), 400);
    int next[4] = {0}, rank, i;
    for (char *line = said; *line; line = strchr(line, '\n') + 1) {
        assert_int_equal(strchr(line, '\n') - line, 80);
        assert_int_equal(sscanf(line, "[peal] warn rank %d: %d", &rank, &i), 2);
        assert_in_range(rank, 0, 3);
        assert_int_equal(i, next[rank]++);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(op_takes),
        cmocka_unit_test(status_text),
        cmocka_unit_test(arena),
        cmocka_unit_test(arena_is_few_allocations),
        cmocka_unit_test(allocation_fails),
        cmocka_unit_test(time_goes_on),
        cmocka_unit_test(config_defaults),
        cmocka_unit_test(config_values),
        cmocka_unit_test(config_wrong_values),
        cmocka_unit_test(config_unknown_name),
        cmocka_unit_test(config_list),
        cmocka_unit_test(log_lines),
        cmocka_unit_test(log_long_line),
        cmocka_unit_test(log_file),
        cmocka_unit_test(log_lines_stay_whole),
    };
    static const char *const peal[] = {"PEAL_LOG", "PEAL_LOG_SUBSYS", "PEAL_LOG_FILE", "PEAL_ALGO", "PEAL_SLICE", "PEAL_TIMEOUT",
                                       "PEAL_INTERPOSE"};
    for (size_t i = 0; i < sizeof(peal) / sizeof(peal[0]); i++)
        unsetenv(peal[i]);
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
