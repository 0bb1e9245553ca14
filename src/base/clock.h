/* Time and waiting. */
#ifndef PEALI_CLOCK_H
#define PEALI_CLOCK_H

#include <stdint.h>

#include <peal/status.h>

/* Nanoseconds of a clock that never goes back. Threads: any. */
PEAL_PUBLIC int64_t peali_clock_ns(void);

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

/* How often so far the calling thread, which could have gone on, had to make way for another. */
long peali_clock_taken(void);

#endif
