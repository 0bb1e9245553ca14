/*
 * CUDA as the kernels see it (cuda/memory.cuh), on a CPU: the threads of a CTA are fibers of the thread that launches it, which
 * run until they wait for each other or pause. What a GPU promises is done here and nothing more: of a line of 16 bytes each half
 * arrives whole, in either order; a line of 128 bytes arrives whole where a warp stores it together.
 */
#ifndef EMULATED_H
#define EMULATED_H

#include <time.h>

enum { LOOKS = 64 }; /* in a few milliseconds: threads that all wait sleep between two */

#define DEVICE static inline
#define DEVICE_MEMBER inline
#define DEVICE_SLOW static inline
#define UNROLL _Pragma("GCC unroll 16")
#define PARAMETER const peali_cuda_call &
#define FRAME_PARAMETER const peali_cuda_call &
#define __global__
#define __launch_bounds__(...)

/* Of the fiber that runs (emulate.cpp). */
extern __thread uint32_t number_here;
uint32_t threads_here();
uint32_t cta_here();
uint32_t ctas_here();
bool meet(uint32_t threads, bool some);
void come_by(uint32_t threads);
void see_off(uint32_t threads);
bool warp_any(bool some);
uint64_t load_warp(const unsigned char *at, bool used);
void store_warp(unsigned char *at, uint64_t word, bool used);
quad load_row(const unsigned char *at, bool used);
void store_row(unsigned char *at, quad q, bool used);
void look_away();
void await_stream();
extern __thread bool has_awaited; /* that: the fiber that runs */
void touched_too_soon();

DEVICE uint32_t thread_here()
{
    return number_here;
}

/* Memory. */
DEVICE void begin_to_touch()
{
    if (!has_awaited)
        touched_too_soon();
}

DEVICE const peali_cuda_call &call_of(const peali_cuda_call &c)
{
    return c;
}

DEVICE uint32_t ask(const peali_cuda_call *c, size_t at, uint32_t = 0)
{
    return *(const uint32_t *)((const char *)c + at);
}

DEVICE uint64_t ask_long(const peali_cuda_call *c, size_t at, uint32_t = 0)
{
    return *(const uint64_t *)((const char *)c + at);
}

DEVICE peali_cuda_op load_op(const peali_cuda_op *at)
{
    return *at;
}

/* Of use to ASan alone; to TSan it is a race, which it is, but nobody looks at what was loaded. */
DEVICE uint32_t touch(const unsigned char *at)
{
    begin_to_touch();
#if defined(__SANITIZE_THREAD__)
    return 0;
#else
    return *(const volatile unsigned char *)at;
#endif
}

DEVICE uint64_t load_early(const unsigned char *at)
{
    begin_to_touch();
    return *(const uint64_t *)at;
}

DEVICE uint64_t load_if(const unsigned char *at, bool wanted)
{
    return wanted ? load_early(at) : 0;
}

DEVICE void want(uint32_t)
{
}

DEVICE uint32_t got(uint32_t)
{
    return 0;
}

DEVICE float fp16_to_float(uint16_t h)
{
    _Float16 x;
    __builtin_memcpy(&x, &h, sizeof x);
    return (float)x;
}

DEVICE uint16_t fp16_of_float(float x)
{
    _Float16 half = (_Float16)x;
    uint16_t h;
    __builtin_memcpy(&h, &half, sizeof h);
    return h;
}

/* The high half, and one more where the low half is above 0x8000, or is just that and the high half is odd. */
DEVICE uint16_t bf16_of_float(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

DEVICE uint32_t fp16_pair(float low, float high)
{
    uint32_t low_half = low != low ? 0x7e00 : fp16_of_float(low), high_half = high != high ? 0x7e00 : fp16_of_float(high);
    return low_half | high_half << 16;
}

DEVICE uint32_t bf16_pair(float low, float high)
{
    uint32_t low_half = low != low ? 0x7fc0 : bf16_of_float(low), high_half = high != high ? 0x7fc0 : bf16_of_float(high);
    return low_half | high_half << 16;
}

DEVICE uint32_t fp16_sum(uint32_t a, uint32_t b)
{
    return fp16_pair(fp16_to_float((uint16_t)a) + fp16_to_float((uint16_t)b),
                     fp16_to_float((uint16_t)(a >> 16)) + fp16_to_float((uint16_t)(b >> 16)));
}

DEVICE float bf16_to_float(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

DEVICE uint32_t bf16_sum(uint32_t a, uint32_t b)
{
    return bf16_pair(bf16_to_float((uint16_t)a) + bf16_to_float((uint16_t)b),
                     bf16_to_float((uint16_t)(a >> 16)) + bf16_to_float((uint16_t)(b >> 16)));
}

/*
 * Relaxed on a GPU. But a store there does not come before loads that its block had ended before it met, so that lines that are
 * reused are reused in order (kernel.cu, get_credit); in C++ this takes release and acquire.
 */
DEVICE quad load_line(const unsigned char *at)
{
    begin_to_touch();
    const uint64_t *half = (const uint64_t *)at;
    uint64_t second = __atomic_load_n(half + 1, __ATOMIC_ACQUIRE), first = __atomic_load_n(half, __ATOMIC_ACQUIRE);
    quad q = {(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second, (uint32_t)(second >> 32)};
    return q;
}

DEVICE quad load_line_acquire(const unsigned char *at)
{
    return load_line(at);
}

DEVICE void store_line(unsigned char *at, quad q)
{
    begin_to_touch();
    uint64_t *half = (uint64_t *)at, words[2] = {q.x | (uint64_t)q.y << 32, q.z | (uint64_t)q.w << 32};
    int first = thread_here() % 2;
    __atomic_store_n(half + first, words[first], __ATOMIC_RELEASE);
    __atomic_store_n(half + !first, words[!first], __ATOMIC_RELEASE);
}

/* Plain, so that TSan sees whether flags order it. */
DEVICE quad load_pack(const unsigned char *at)
{
    begin_to_touch();
    return *(const quad *)at;
}

DEVICE void store_pack(unsigned char *at, quad q)
{
    begin_to_touch();
    *(quad *)at = q;
}

DEVICE uint32_t load_acquire(const uint32_t *at)
{
    begin_to_touch();
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

DEVICE uint64_t load_word_acquire(const unsigned char *at)
{
    begin_to_touch();
    return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

DEVICE void store_release(uint32_t *at, uint32_t value)
{
    begin_to_touch();
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* A launch ends without a fence here. */
DEVICE void store_behind(uint32_t *at, uint32_t value)
{
    store_release(at, value);
}

DEVICE uint32_t load_relaxed(const uint32_t *at)
{
    begin_to_touch();
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEVICE uint64_t load_word(const uint64_t *at)
{
    begin_to_touch();
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

DEVICE void store_relaxed(uint32_t *at, uint32_t value)
{
    begin_to_touch();
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

DEVICE void store_word(uint64_t *at, uint64_t value)
{
    begin_to_touch();
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

DEVICE bool take_first(uint32_t *at)
{
    begin_to_touch();
    uint32_t zero = 0;
    return __atomic_compare_exchange_n(at, &zero, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Nothing needs it here: relaxed stores of a fiber are seen in order by who has acquired what it released. */
DEVICE void fence_all()
{
}

DEVICE uint64_t now_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

#endif
