/* A new thread inherits the signals that are blocked, so all are while it is made. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

int peali_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

bool peali_thread_has_one_core(void)
{
    cpu_set_t set; /* where there are more cores than it holds, one is not all */
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
}

void peali_thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void peali_thread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_cond_timedwait(cond, lock, &until);
}
