/*
 * Where messages of GPUs lie: what PEAL_GDR asks for, what the driver and the transport have, and a test message decide it, and the
 * log says why. Each scene is a process, as variables are read once; device memory is what the host can touch, or not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/wait.h>

#include "cuda/device_ranks.h"

static const char of_gpu[] = "messages of this rank's GPU lie in its memory";
static const char of_host[] = "messages of this rank's GPU lie in host memory";

typedef struct scene {
    const char *gdr, *host, *flushes; /* PEAL_GDR, FAKE_CUDA_HOST, FAKE_CUDA_FLUSHES */
    const char *fails;                /* the first call of it */
    peal_status want;
    const char *says, *says_not;
} scene;

/* 0, or the number of the call that fails in place of the first, in two nodes of a rank. */
static int number;

static void sums(seat *s)
{
    const peal_status *want = s->ctx;
    int32_t *at = seat_alloc(s, 4 * 5000), got[5000];
    for (int i = 0; i < 5000; i++)
        got[i] = i + s->rank;
    seat_copy(s, at, got, sizeof got);
    peal_status status = peal_allreduce(at, at, 5000, PEAL_INT32, PEAL_SUM, s->comm, s->stream);
    if (status != *want)
        seat_wrong(s, "%s", peal_status_text(status));
    seat_copy(s, got, at, sizeof got);
    for (int i = 0; i < 5000 && *want == PEAL_OK; i++)
        SEAT_CHECK(s, got[i] == s->n * i + s->n * (s->n - 1) / 2);
    seat_free(s, at);
}

static int play(const scene *sc, const char *log)
{
    const char *const nodes[] = {"1+1", "2+1", "1+2+1"};
    peal_status want = sc->want;
    int wrong = 0;
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    setenv("PEAL_GDR", sc->gdr, 1);
    setenv("FAKE_CUDA_HOST", sc->host, 1);
    setenv("FAKE_CUDA_FLUSHES", sc->flushes, 1);
    setenv("PEAL_LOG", "info", 1);
    setenv("PEAL_LOG_FILE", log, 1);
    if (number)
        setenv("PEAL_TIMEOUT", "4", 1);
    for (int k = 0; k < (number ? 1 : 3); k++) {
        if (sc->fails)
            fake_cuda_fail(sc->fails, number ? number : 1, 999);
        wrong += seats_run_in(nodes[k], NULL, sums, &want);
    }
    return wrong;
}

static bool said(const char *log, const char *words)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    while (!found && fgets(line, sizeof line, f))
        found = strstr(line, words) != NULL;
    fclose(f);
    return found;
}

static void stage(const scene *sc)
{
    char log[64];
    int status;
    snprintf(log, sizeof log, "test_device_gdr.%ld.log", (long)getpid());
    unlink(log);
    pid_t child = fork();
    if (child == 0)
        _exit(play(sc, log) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(said(log, sc->says));
    assert_false(said(log, sc->says_not));
    unlink(log);
}

static void test_told(void **state)
{
    stage(&(scene){"off", "1", "1", NULL, PEAL_OK, of_host, of_gpu});
    stage(&(scene){"on", "1", "1", NULL, PEAL_OK, of_gpu, of_host});
}

/* What the host reads by itself, every transport does. Else there is no RDMA here. */
static void test_auto(void **state)
{
    stage(&(scene){"auto", "1", "1", NULL, PEAL_OK, of_gpu, of_host});
    stage(&(scene){"auto", "0", "1", NULL, PEAL_OK, "messages of GPUs lie in host memory: messages go over loop", of_gpu});
    stage(&(scene){"auto", "1", "0", NULL, PEAL_OK, "are not sure to see what a network writes", of_gpu});
}

/* One rank's test fails, and all ranks go through host memory. */
static void test_unproved(void **state)
{
    static const char flush[] = "cuFlushGPUDirectRDMAWrites";
    stage(&(scene){"auto", "1", "1", flush, PEAL_OK, "a test message did not arrive as it was sent", of_gpu});
    stage(&(scene){"on", "1", "1", flush, PEAL_ERR_UNSUPPORTED, "PEAL_GDR=on: messages cannot lie in GPU memory: a test message",
                   of_gpu});
}

/* One rank cannot send its test message: who waits for that gives up before the others do, who wait for it. */
static void test_unsent(void **state)
{
    number = 7; /* each rank copied what it sums, its mark, and what it found of marks */
    stage(&(scene){"auto", "1", "1", "cuMemcpyAsync", PEAL_OK, "a test message did not arrive as it was sent", of_gpu});
    number = 0;
}

static void test_refused(void **state)
{
    stage(&(scene){"on", "0", "1", NULL, PEAL_ERR_UNSUPPORTED, "messages go over loop, which takes none from there", of_gpu});
    stage(&(scene){"on", "1", "0", NULL, PEAL_ERR_UNSUPPORTED, "PEAL_GDR=on: messages cannot lie in GPU memory: kernels of device",
                   of_gpu});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told), cmocka_unit_test(test_auto), cmocka_unit_test(test_unproved),
                                       cmocka_unit_test(test_unsent), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("device gdr", tests, NULL, NULL);
}
