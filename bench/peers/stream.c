/* By the widest loads and streaming stores that the compiler may use; elsewhere by the C library's copy. */
#include "stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
static void line(const char *in, char *out)
{
    _mm512_stream_si512((void *)out, _mm512_loadu_si512(in));
}
#elif defined(__AVX__)
#include <immintrin.h>
static void line(const char *in, char *out)
{
    _mm256_stream_si256((void *)out, _mm256_loadu_si256((const void *)in));
    _mm256_stream_si256((void *)(out + 32), _mm256_loadu_si256((const void *)(in + 32)));
}
#endif

bool stream(const void *in, void *out, size_t bytes)
{
#if defined(__AVX__)
    size_t skip = -(uintptr_t)out % 64; /* to a line: buffers have one to spare */
    for (size_t i = 0; i < bytes; i += 64)
        line((const char *)in + skip + i, (char *)out + skip + i);
    _mm_sfence();
#else
    memcpy(out, in, bytes);
#endif
    return true;
}
