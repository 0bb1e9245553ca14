/* What ranks that share a device_ranks.h say: one log for all of them, which they look into; and time. */
#ifndef DEVICE_LOG_H
#define DEVICE_LOG_H

#include <errno.h>
#include <time.h>

#include "device_ranks.h"
#include "log_lines.h"

static char log_path[256];

static inline int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static inline void nap_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* The last rank goes on when each other one has said that it is done; processes give each other the time for it. */
static int done_here;

static inline void say_done(void)
{
    __atomic_add_fetch(&done_here, 1, __ATOMIC_SEQ_CST);
}

static inline void await_others(const seat *s)
{
#ifdef TEST_MPI
    nap_ms(1000);
#else
    while (__atomic_load_n(&done_here, __ATOMIC_SEQ_CST) < s->n - 1)
        nap_ms(1);
#endif
    __atomic_store_n(&done_here, 0, __ATOMIC_SEQ_CST);
}

/* In how many lines of the log TEXT is. */
static inline int times_logged(const char *text)
{
    return log_lines(log_path, text);
}

static inline bool logged(const char *text)
{
    return times_logged(text) > 0;
}

/* The log begins anew. All ranks call. */
static inline void forget_log(void)
{
#ifdef TEST_MPI
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0 && truncate(log_path, 0) != 0 && errno != ENOENT)
        exit(2);
    MPI_Barrier(MPI_COMM_WORLD);
#else
    if (truncate(log_path, 0) != 0 && errno != ENOENT)
        exit(2);
#endif
}

#endif
