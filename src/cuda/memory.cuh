/*
 * How the kernels touch memory that others touch, and meet the threads of their block. In PTX's words all of this is of system
 * scope; a test has its own versions, which run on a CPU.
 */
#ifndef PEALI_CUDA_MEMORY_CUH
#define PEALI_CUDA_MEMORY_CUH

#include <stddef.h>
#include <string.h>

#include "cuda/call.h"

/* 16 bytes of memory. */
struct alignas(16) quad {
    uint32_t x, y, z, w;
};

#ifndef __CUDACC__
#include "emulated.h"
#else

enum { LOOKS = 1024 }; /* in vain, by a thread that waits, in about a millisecond */

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define DEVICE_SLOW static __device__ __noinline__
#define UNROLL _Pragma("unroll")
#define PARAMETER const __grid_constant__ peali_cuda_call
#define FRAME_PARAMETER const __grid_constant__ frame

/* A call without its program, for kernels that have no use for it: a launch takes the longer the more parameters it has. */
struct alignas(peali_cuda_call) frame {
    unsigned char bytes[offsetof(peali_cuda_call, ops)];
};

DEVICE const peali_cuda_call &call_of(const frame &f)
{
    return reinterpret_cast<const peali_cuda_call &>(f);
}

DEVICE float fp16_to_float(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

DEVICE uint16_t fp16_of_float(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

DEVICE uint16_t bf16_of_float(float x)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

/* Two at once, the low half first. Where an instruction finds no number it makes 0x7fff: NaN as the one that the CPU makes. */
DEVICE uint32_t fp16_one_nan(uint32_t pair)
{
    uint32_t numbers;
    asm("set.eq.u32.f16x2 %0, %1, %1;" : "=r"(numbers) : "r"(pair));
    return pair & (numbers | 0x7e007e00U);
}

DEVICE uint32_t bf16_one_nan(uint32_t pair)
{
#if __CUDA_ARCH__ >= 900
    uint32_t numbers;
    asm("set.eq.u32.bf16x2 %0, %1, %1;" : "=r"(numbers) : "r"(pair));
    return pair & (numbers | 0x7fc07fc0U);
#else
    const uint32_t low = (pair & 0xffff) == 0x7fff ? 0x7fc0 : pair & 0xffff, high = pair >> 16;
    return low | (high == 0x7fff ? 0x7fc0 : high) << 16;
#endif
}

DEVICE uint32_t fp16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return fp16_one_nan(pair);
}

DEVICE uint32_t bf16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return bf16_one_nan(pair);
}

/*
 * Sums of two numbers each. They are what sums of floats are when rounded to these: a float has 24 bits, at least 2 p + 2 of numbers
 * of p, with which it does not matter that a sum is rounded twice (Figueroa, When is double rounding innocuous?, SIGNUM 30, 1995).
 */
DEVICE uint32_t fp16_sum(uint32_t a, uint32_t b)
{
    uint32_t sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return fp16_one_nan(sum);
}

DEVICE uint32_t bf16_sum(uint32_t a, uint32_t b)
{
    uint32_t sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80U), "r"(b));
    return bf16_one_nan(sum);
}

DEVICE uint32_t thread_here()
{
    return threadIdx.x;
}

DEVICE uint32_t threads_here()
{
    return blockDim.x;
}

DEVICE uint32_t cta_here()
{
    return blockIdx.x;
}

DEVICE uint32_t ctas_here()
{
    return gridDim.x;
}

/* Both halves of 8 bytes arrive whole; which one arrives first is open. */
DEVICE quad load_line(const unsigned char *at)
{
    quad q;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w)
                 : "l"(at) : "memory");
    return q;
}

/* What was stored before a half that is new, this thread sees after this. A fence behind load_line takes longer. */
DEVICE quad load_line_acquire(const unsigned char *at)
{
    uint64_t first, second;
    asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(at) : "memory");
    return {(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second, (uint32_t)(second >> 32)};
}

DEVICE void store_line(unsigned char *at, quad q)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w) : "memory");
}

/*
 * Of a whole warp at once: what 16 threads in a row load or store as one line of 128 bytes is one access. USED: of 16 threads
 * alike.
 */
DEVICE uint64_t load_warp(const unsigned char *at, bool used)
{
    uint64_t word = 0;
    __syncwarp();
    if (used)
        asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

DEVICE void store_warp(unsigned char *at, uint64_t word, bool used)
{
    __syncwarp();
    if (used)
        asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

/* The same of 8 threads in a row, each of which has 16 bytes of the line. Not used: anything. */
DEVICE quad load_row(const unsigned char *at, bool used)
{
    quad q;
    __syncwarp();
    asm volatile("{\n.reg .pred used;\nsetp.ne.u32 used, %5, 0;\n@used ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(at), "r"((uint32_t)used) : "memory");
    return q;
}

DEVICE void store_row(unsigned char *at, quad q, bool used)
{
    __syncwarp();
    if (used)
        store_line(at, q);
}

/*
 * Data of bulk: ordered by flags. Landing slots are read once, and the first level of cache would only keep what is stale by
 * then.
 */
DEVICE quad load_pack(const unsigned char *at)
{
    quad q;
    asm volatile("ld.relaxed.sys.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q.x), "=r"(q.y), "=r"(q.z), "=r"(q.w) : "l"(at) : "memory");
    return q;
}

DEVICE void store_pack(unsigned char *at, quad q)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w) : "memory");
}

/* AT comes into the first level of cache; what is returned is of no use but for got(): until then it need not have come. */
DEVICE uint32_t touch(const unsigned char *at)
{
    uint32_t value;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(value) : "l"(at));
    return value;
}

/* A word of a vector, asked for where this stands, and not behind what does not need it. */
DEVICE uint64_t load_early(const unsigned char *at)
{
    uint64_t value;
    asm volatile("ld.global.u64 %0, [%1];" : "=l"(value) : "l"(at));
    return value;
}

/* 0 where it is not to be. One instruction, behind which nothing waits yet. */
DEVICE uint64_t load_if(const unsigned char *at, bool wanted)
{
    uint64_t value;
    asm volatile("{\n.reg .pred wanted;\nsetp.ne.u32 wanted, %2, 0;\nmov.u64 %0, 0;\n@wanted ld.global.u64 %0, [%1];\n}"
                 : "=l"(value) : "l"(at), "r"((uint32_t)wanted));
    return value;
}

DEVICE uint32_t load_acquire(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

DEVICE uint64_t load_word_acquire(const unsigned char *at)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

DEVICE void store_release(uint32_t *at, uint32_t value)
{
    asm volatile("fence.acq_rel.sys; st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

/* Who sees this knows that the launches before this one are over: their threads have ended, so it takes no fence. */
DEVICE void store_behind(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

DEVICE uint32_t load_relaxed(const uint32_t *at)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

DEVICE uint64_t load_word(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

DEVICE void store_relaxed(uint32_t *at, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

DEVICE void store_word(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

/* True for the one caller of all that sees 0 there, and makes it 1. */
DEVICE bool take_first(uint32_t *at)
{
    return atomicCAS(at, 0, 1) == 0;
}

/*
 * The THREADS threads of a block that move data meet here, what each has done is done, and all hear whether SOME is set in any. The
 * threads of a warp come together first, for the barrier that expects it. With the one that does not (without .aligned; nvcc 13.0,
 * H200) short two-shot calls of 3 and 4 ranks, behind a vote, gave old contents of a slot.
 */
DEVICE bool meet(uint32_t threads, bool some)
{
    uint32_t any;
    __syncwarp();
    asm volatile("{\n.reg .pred in, out;\nsetp.ne.u32 in, %1, 0;\n"
                 "barrier.cta.red.or.aligned.pred out, 1, %2, in;\nselp.u32 %0, 1, 0, out;\n}"
                 : "=r"(any) : "r"((uint32_t)some), "r"(threads) : "memory");
    return any;
}

/*
 * What the THREADS threads of a block that move data have loaded before they come by, those of warp 0 can store to when they have
 * seen all others off. The others do not wait. Warps come together first, as they do to meet.
 */
DEVICE void come_by(uint32_t threads)
{
    if (threads <= 32 || threadIdx.x < 32)
        return;
    __syncwarp();
    asm volatile("barrier.cta.arrive.aligned 2, %0;" ::"r"(threads) : "memory");
}

DEVICE void see_off(uint32_t threads)
{
    if (threads <= 32)
        return;
    __syncwarp();
    asm volatile("barrier.cta.sync.aligned 2, %0;" ::"r"(threads) : "memory");
}

/*
 * Waits until what stands before this kernel in its stream is over, and sees what that stored. With `early` (cuda/gpu.h) the
 * kernel may have begun sooner: before this it may load its parameters, which takes a while, and touches no memory.
 */
DEVICE void await_stream()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* What this thread has stored before, everybody sees before what it stores from here on. */
DEVICE void fence_all()
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* As meet, of the threads of a warp. */
DEVICE bool warp_any(bool some)
{
    return __any_sync(~0U, some);
}

DEVICE uint64_t now_ns()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

/*
 * The word AT bytes into parameters C, loaded without waiting for it as a constant operand does: the compiler may not know that the
 * second index of a thread is 0. NONE: 0, which comes of what has to be there before.
 */
DEVICE uint32_t ask(const peali_cuda_call *c, size_t at, uint32_t none = 0)
{
    return *(const uint32_t *)((const char *)c + at + (threadIdx.y + none));
}

DEVICE uint64_t ask_long(const peali_cuda_call *c, size_t at, uint32_t none = 0)
{
    return *(const uint64_t *)((const char *)c + at + (threadIdx.y + none));
}

/* One of the parameters, as a whole. */
DEVICE peali_cuda_op load_op(const peali_cuda_op *at)
{
    static_assert(sizeof(peali_cuda_op) == 16, "two words");
    const uint64_t words[2] = {((const uint64_t *)at)[0], ((const uint64_t *)at)[1]};
    peali_cuda_op op;
    memcpy(&op, words, sizeof op);
    return op;
}

/* WORD has come, when this thread goes on. */
DEVICE void want(uint32_t word)
{
    asm volatile("" ::"r"(word) : "memory");
}

/* 0, when WORD has come. */
DEVICE uint32_t got(uint32_t word)
{
    uint32_t none;
    asm volatile("{\n.reg .pred rare;\nsetp.eq.u32 rare, %1, 0x5ca1ab1e;\nselp.u32 %0, 16, 0, rare;\n}" : "=r"(none) : "r"(word));
    return none;
}

/* Between two looks at memory. */
DEVICE void look_away()
{
}
#endif
#endif
