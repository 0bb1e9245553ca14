/* The monotonic clock: it also runs on while the machine's date is set. */
#include "base/clock.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

int64_t peali_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void peali_clock_yield(void)
{
    sched_yield();
}

/* Linux counts a yield to somebody among the switches that a thread did not want. */
long peali_clock_taken(void)
{
    struct rusage use;
    return getrusage(RUSAGE_THREAD, &use) == 0 ? use.ru_nivcsw : 0;
}

void peali_clock_sleep(int64_t ns)
{
    struct timespec nap = {ns / 1000000000, ns % 1000000000};
    nanosleep(&nap, NULL);
}
