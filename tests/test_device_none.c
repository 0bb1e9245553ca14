/*
 * Calls on device memory where there is no driver, or no device: all ranks are told what is missing, and host memory works as ever.
 * The argument is what the log must say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "team.h"

enum { RANKS = 2, NO_STREAM = 64 }; /* a stream that nobody looks at */

static const char *words;
static int wrong;

static void try(peal_comm *comm, int rank, void *ctx)
{
    int32_t one = 1, sum = 0;
    int bad = 0;
    for (int k = 0; k < 2; k++) {
        bad += peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, (void *)NO_STREAM) != PEAL_ERR_UNSUPPORTED;
        bad += peal_barrier(comm, (void *)NO_STREAM) != PEAL_ERR_UNSUPPORTED;
        bad += peal_allreduce(&one, &sum, 1, PEAL_INT32, PEAL_SUM, comm, NULL) != PEAL_OK || sum != RANKS;
        bad += peal_comm_error(comm) != PEAL_OK;
    }
    __atomic_add_fetch(&wrong, bad, __ATOMIC_SEQ_CST);
}

static void says_what_is_missing(void **state)
{
    char path[64], line[1024];
    int said = 0;
    snprintf(path, sizeof path, "device_none.%d.log", (int)getpid());
    setenv("PEAL_LOG_FILE", path, 1);
    assert_int_equal(team_run(RANKS, try, NULL), PEAL_OK);
    FILE *log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        said += strstr(line, words) != NULL;
    fclose(log);
    unlink(path);
    assert_int_equal(wrong, 0);
    assert_int_equal(said, 4 * RANKS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_is_missing)};
    words = argc > 1 ? argv[1] : "no NVIDIA driver";
    if (peali_cuda_driver_get(NULL)) {
        puts("skipped: this machine has a GPU");
        return 77;
    }
    return cmocka_run_group_tests_name("device_none", tests, NULL, NULL);
}
