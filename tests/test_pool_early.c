/* A library's constructor takes memory of the pool before those of libpeal have run: it gets some, and a fork parts it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "exec/pool.h"

static unsigned char *block;

/* glibc's have the parameters of main. */
__attribute__((constructor(101))) static void early(int argc)
{
    if (argc == 1)
        block = peali_pool_alloc(1 << 20, PEALI_POOL_USER);
}

static void parts(void **state)
{
    int status;
    assert_non_null(block);
    *block = 1;
    pid_t child = fork();
    if (child == 0) {
        *block = 2;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(*block, 1);
    peali_pool_free(block);
}

/* With an argument: whether there is a pool at all, as a process has only one. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts)};
    peali_pool_view view;
    int status = 0;
    if (argc > 1)
        return peali_pool_open(&view) == PEAL_OK ? 0 : 77;
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "try", NULL);
        _exit(1);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        printf("skipped: processes cannot share memory here; PEAL_LOG=info says why\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
