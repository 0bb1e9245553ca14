/*
 * Copies past the caches: what is written is not read before, and takes no room of what is.
 *
 * 16 bytes at a time on every CPU: with 32 and 64 they were as fast (bench_reduce on EPYC 9004).
 */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { LINE = 64 };

#if defined(__x86_64__)
/* TO is aligned. */
static inline void stream_line(char *to, const char *from)
{
    for (int at = 0; at < LINE; at += 16)
        _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
}

/*
 * Streaming stores keep no order with others. Without the fence a flag that is set afterwards could be seen before them, because
 * its release is a plain store here.
 */
static inline void stream_end(void)
{
    _mm_sfence();
}
#else
/* Elsewhere they are ordinary stores. */
static inline void stream_line(char *to, const char *from)
{
    memcpy(to, from, LINE);
}

static inline void stream_end(void)
{
}
#endif

/* Whole lines; what shares a line with its neighbours goes the ordinary way. */
static inline void stream(char *to, const char *from, size_t bytes)
{
    size_t before = -(uintptr_t)to % LINE, at = before < bytes ? before : bytes;
    memcpy(to, from, at);
    for (; at + LINE <= bytes; at += LINE)
        stream_line(to + at, from + at);
    memcpy(to + at, from + at, bytes - at);
}
