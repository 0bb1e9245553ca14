/* What has become of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topo/process.h"

/* A child that sends what it says of itself, and waits. */
static pid_t begin(peali_process *process)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        peali_process self;
        peali_process_self(&self);
        if (write(ends[1], &self, sizeof self) == (ssize_t)sizeof self)
            for (;;)
                pause();
        _exit(1);
    }
    assert_int_equal(read(ends[0], process, sizeof *process), sizeof *process);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void fates(void **state)
{
    peali_process self, other;
    peali_process_self(&self);
    assert_string_equal(peali_process_fate(&self), "runs");
    pid_t child = begin(&other);
    assert_int_equal(other.id, child);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    assert_string_equal(peali_process_fate(&other), "is stopped");
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_string_equal(peali_process_fate(&other), "has ended"); /* though nobody has heard of it */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_string_equal(peali_process_fate(&other), "has ended");
}

/* Another process has its number by now; or it lives where numbers mean something else. */
static void strangers(void **state)
{
    peali_process self;
    peali_process_self(&self);
    peali_process reused = self, elsewhere = self, unknown = {0, 0, 0};
    reused.began--;
    elsewhere.space++;
    assert_string_equal(peali_process_fate(&reused), "has ended");
    assert_null(peali_process_fate(&elsewhere));
    assert_null(peali_process_fate(&unknown));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fates), cmocka_unit_test(strangers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
