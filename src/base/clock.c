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

int64_t peali_clock_step(int64_t *looked_ns, int64_t most_ns)
{
    const int64_t before_ns = *looked_ns;
    *looked_ns = peali_clock_ns();
    return *looked_ns - before_ns < most_ns ? *looked_ns - before_ns : most_ns;
}

void peali_clock_yield(void)
{
    sched_yield();
}

/* A yield that takes TURN_NS was another's turn, which last 1 to 4 ms (Linux); to try it takes one turn in SHARED_NS. */
enum { TURN_NS = 500000, SHARED_NS = 50000000, NAP_NS = 20000 };

void peali_clock_give_way(void)
{
    static _Thread_local int64_t shared_until_ns;
    const int64_t before_ns = peali_clock_ns();
    if (before_ns < shared_until_ns) {
        peali_clock_sleep(NAP_NS);
        return;
    }
    peali_clock_yield();
    const int64_t now_ns = peali_clock_ns();
    if (now_ns - before_ns > TURN_NS)
        shared_until_ns = now_ns + SHARED_NS;
}

void peali_clock_rest(int64_t waited_ns)
{
    enum { SOON_NS = 1000000, MOST_NS = 250000, PART = 100 };
    if (waited_ns < SOON_NS)
        peali_clock_yield();
    else
        peali_clock_sleep(waited_ns / PART < MOST_NS ? waited_ns / PART : MOST_NS);
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
