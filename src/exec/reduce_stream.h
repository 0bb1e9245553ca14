/*
 * Copies past the caches: what is written is not read before, and takes no room of what is.
 *
 * By stores of 64 bytes where there are some, else of 16. Those of 64 took 0.82 to 1 of the time of those of 16 in allreduces of
 * 4, 16 and 32 ranks of Xeon, 0.92 on average where each rank copies what has landed for it. On EPYC 9004 16, 32 and 64 were as
 * fast (bench_reduce).
 */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = 64 };

/* TO is aligned. */
#if defined(__AVX512F__)
static inline void stream_line(char *to, const char *from)
{
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
}
#elif defined(__x86_64__)
static inline void stream_line(char *to, const char *from)
{
    for (int at = 0; at < LINE; at += 16)
        _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
}
#else
/* Elsewhere they are ordinary stores. */
static inline void stream_line(char *to, const char *from)
{
    memcpy(to, from, LINE);
}
#endif

/*
 * Whole lines; what shares a line with its neighbours goes the ordinary way. With each line that is written one of NEXT, if that is
 * not NULL, is asked for.
 */
static inline void stream(char *to, const char *from, size_t bytes, const char *next)
{
    size_t before = -(uintptr_t)to % LINE, at = before < bytes ? before : bytes;
    memcpy(to, from, at);
    for (; at + LINE <= bytes; at += LINE) {
        if (next)
            __builtin_prefetch(next + at);
        stream_line(to + at, from + at);
    }
    memcpy(to + at, from + at, bytes - at);
}
