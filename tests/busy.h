/* For tests: two cores, each with a program that never rests. Such programs' turns last milliseconds. */
#ifndef BUSY_H
#define BUSY_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUSY_CORES = 2 };

typedef struct busy {
    cpu_set_t before;
    pid_t others[BUSY_CORES];
} busy;

/* Core NUMBER of those that this process may have, or from there N, and no others any more. */
static inline void busy_keep(int number, int n)
{
    cpu_set_t all, some;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        abort();
    CPU_ZERO(&some);
    for (int core = 0, k = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && k++ >= number && k <= number + n)
            CPU_SET(core, &some);
    if (sched_setaffinity(0, sizeof some, &some) != 0)
        abort();
}

/* False: there are not so many cores. */
static inline bool busy_begin(busy *b)
{
    if (sched_getaffinity(0, sizeof b->before, &b->before) != 0 || CPU_COUNT(&b->before) < BUSY_CORES)
        return false;
    busy_keep(0, BUSY_CORES);
    for (int i = 0; i < BUSY_CORES; i++)
        if ((b->others[i] = fork()) == 0) {
            busy_keep(i, 1);
            for (alarm(60);;)
                continue;
        }
    return true;
}

static inline void busy_end(busy *b)
{
    for (int i = 0; i < BUSY_CORES; i++) {
        kill(b->others[i], SIGKILL);
        waitpid(b->others[i], NULL, 0);
    }
    if (sched_setaffinity(0, sizeof b->before, &b->before) != 0)
        abort();
}

#endif
