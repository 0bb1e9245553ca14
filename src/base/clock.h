/* Time and waiting. */
#ifndef PEALI_CLOCK_H
#define PEALI_CLOCK_H

#include <stdint.h>

#include <peal/status.h>

/* Nanoseconds of a clock that never goes back. Threads: any. */
PEAL_PUBLIC int64_t peali_clock_ns(void);

/*
 * Nanoseconds since *LOOKED_NS, which becomes now, but MOST_NS at most: a process that was stopped, and goes on, has waited for no
 * longer between two looks. Threads: any.
 */
int64_t peali_clock_step(int64_t *looked_ns, int64_t most_ns);

/* A moment's rest inside a spin loop, without giving the core away. */
static inline void peali_clock_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Gives the core away for about NS nanoseconds. */
void peali_clock_sleep(int64_t ns);

/* Gives the core to another thread that wants it. */
void peali_clock_yield(void);

/*
 * The same for a thread that should have a core of its own. Where another, which never rests, has taken it for a turn, this one
 * naps for the next 50 ms instead of yielding: who wakes gets the core, who yields it waits for the end of such turns, which are
 * milliseconds.
 */
void peali_clock_give_way(void);

/* For who has waited WAITED_NS: a yield in the first millisecond, then naps of a hundredth of that, 250 us at most. */
void peali_clock_rest(int64_t waited_ns);

/* How often so far the calling thread, which could have gone on, had to make way for another. */
long peali_clock_taken(void);

#endif
