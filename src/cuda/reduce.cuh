/*
 * The arithmetic of the kernels, on 8 bytes of elements at a time, as they lie in memory. A class of arithmetic has a state of
 * the sum so far, in which numbers of 8 and 16 bits are float, so that they are rounded once for each result; it gives the same bits as the
 * CPU does (exec/reduce.h). OFTEN: loops are made for it where vectors lie, too (cuda/direct.cuh).
 */
#ifndef PEALI_CUDA_REDUCE_CUH
#define PEALI_CUDA_REDUCE_CUH

#include <string.h>

#include <peal/peal.h>

#include "cuda/memory.cuh"

template <class To, class From> DEVICE To bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* The elements of a word. */
template <class T> struct lanes {
    T at[8 / sizeof(T)];
};

/* What a number of few bits is as a float, which holds all of them exactly; floats, one or two, as the nearest of them, NaN as one. */
struct fp16 {
    typedef uint16_t bits;
    static DEVICE_MEMBER float wide(uint16_t h)
    {
        return fp16_to_float(h);
    }
    static DEVICE_MEMBER uint16_t narrow(float x)
    {
        return x != x ? 0x7e00 : fp16_of_float(x);
    }
    static DEVICE_MEMBER uint32_t pair(float low, float high)
    {
        return fp16_pair(low, high);
    }
};

struct bf16 {
    typedef uint16_t bits;
    static DEVICE_MEMBER float wide(uint16_t h)
    {
        return bits_as<float>((uint32_t)h << 16);
    }
    static DEVICE_MEMBER uint16_t narrow(float x)
    {
        return x != x ? 0x7fc0 : bf16_of_float(x);
    }
    static DEVICE_MEMBER uint32_t pair(float low, float high)
    {
        return bf16_pair(low, high);
    }
};

/*
 * MANT bits behind the point; BIAS is the exponent of 1. SPECIAL is the first code of no number, and the largest number before it:
 * what is beyond that becomes it. By integers, for not all GPUs have instructions for this.
 */
template <int MANT, int BIAS, uint32_t SPECIAL> struct fp8 {
    typedef uint8_t bits;
    enum : uint32_t { SHIFT = 23 - MANT, MORE = (uint32_t)(127 - BIAS) << 23, SCALE = (uint32_t)(254 - BIAS) << 23 };
    static DEVICE_MEMBER float wide(uint8_t c)
    {
        uint32_t size = (c & 0x7fU) << SHIFT, sign = (c & 0x80U) << 24;
        uint32_t number = bits_as<uint32_t>(bits_as<float>(size) * bits_as<float>((uint32_t)SCALE));
        return bits_as<float>(sign | ((c & 0x7f) >= SPECIAL ? size | 0x7f800000 : number));
    }
    /* Below the least normal number it is a whole number of the last bit of LIFT: adding that rounds. */
    static DEVICE_MEMBER uint8_t narrow(float x)
    {
        const uint32_t lift = (uint32_t)(151 - BIAS - MANT) << 23;
        uint32_t u = bits_as<uint32_t>(x), size = u & 0x7fffffff;
        uint32_t number = (size - MORE + ((1U << (SHIFT - 1)) - 1) + (size >> SHIFT & 1)) >> SHIFT;
        if (size < (uint32_t)(128 - BIAS) << 23)
            number = bits_as<uint32_t>(bits_as<float>(size) + bits_as<float>(lift)) - lift;
        number = number < SPECIAL ? number : SPECIAL - 1;
        return (uint8_t)(x != x ? 0x7f : (u >> 24 & 0x80) | number);
    }
    static DEVICE_MEMBER uint32_t pair(float low, float high)
    {
        return narrow(low) | (uint32_t)narrow(high) << 8;
    }
};
typedef fp8<3, 7, 0x7f> fp8_e4m3;
typedef fp8<2, 15, 0x7c> fp8_e5m2;

DEVICE float one_nan(float x)
{
    return x != x ? bits_as<float>(0x7fc00000U) : x;
}

DEVICE double one_nan(double x)
{
    return x != x ? bits_as<double>(0x7ff8000000000000ULL) : x;
}

/* Sums of float and double. */
template <class T> struct sum_real {
    enum { OFTEN = 1 };
    typedef lanes<T> state;
    explicit DEVICE_MEMBER sum_real(const peali_cuda_call &)
    {
    }
    DEVICE_MEMBER state first(uint64_t word) const
    {
        return bits_as<state>(word);
    }
    DEVICE_MEMBER void add(state &s, uint64_t word) const
    {
        lanes<T> x = bits_as<lanes<T>>(word);
        UNROLL
        for (unsigned i = 0; i < 8 / sizeof(T); i++)
            s.at[i] = s.at[i] + x.at[i];
    }
    DEVICE_MEMBER uint64_t result(state s) const
    {
        UNROLL
        for (unsigned i = 0; i < 8 / sizeof(T); i++)
            s.at[i] = one_nan(s.at[i]);
        return bits_as<uint64_t>(s);
    }
};

/* Sums of numbers of few bits. */
template <class H> struct sum_narrow {
    enum { OFTEN = sizeof(typename H::bits) > 1, N = 8 / sizeof(typename H::bits) };
    typedef lanes<typename H::bits> word_lanes;
    struct state {
        float at[N];
    };
    explicit DEVICE_MEMBER sum_narrow(const peali_cuda_call &)
    {
    }
    DEVICE_MEMBER state first(uint64_t word) const
    {
        word_lanes x = bits_as<word_lanes>(word);
        state s;
        UNROLL
        for (int i = 0; i < N; i++)
            s.at[i] = H::wide(x.at[i]);
        return s;
    }
    DEVICE_MEMBER void add(state &s, uint64_t word) const
    {
        word_lanes x = bits_as<word_lanes>(word);
        UNROLL
        for (int i = 0; i < N; i++)
            s.at[i] = s.at[i] + H::wide(x.at[i]);
    }
    DEVICE_MEMBER uint64_t result(state s) const
    {
        uint64_t word = 0;
        UNROLL
        for (int i = 0; i < N; i += 2)
            word |= (uint64_t)H::pair(s.at[i], s.at[i + 1]) << 64 / N * i;
        return word;
    }
};

/* Of two words, whose order makes no difference; numbers of 16 bits need not become floats for that. */
template <class A> DEVICE uint64_t sum_of_two(const A &arithmetic, uint64_t a, uint64_t b)
{
    typename A::state x = arithmetic.first(a);
    arithmetic.add(x, b);
    return arithmetic.result(x);
}

DEVICE uint64_t sum_of_two(const sum_narrow<fp16> &, uint64_t a, uint64_t b)
{
    return fp16_sum((uint32_t)a, (uint32_t)b) | (uint64_t)fp16_sum((uint32_t)(a >> 32), (uint32_t)(b >> 32)) << 32;
}

DEVICE uint64_t sum_of_two(const sum_narrow<bf16> &, uint64_t a, uint64_t b)
{
    return bf16_sum((uint32_t)a, (uint32_t)b) | (uint64_t)bf16_sum((uint32_t)(a >> 32), (uint32_t)(b >> 32)) << 32;
}

/* Integers wrap: unsigned, and at least as wide as unsigned int, where int16 * int16 would overflow an int. */
template <class T, class U> DEVICE T apply_whole(uint8_t op, T a, T b)
{
    switch (op) {
    case PEAL_SUM: return (T)(0U + (U)a + (U)b);
    case PEAL_PROD: return (T)((0U + (U)a) * (U)b);
    case PEAL_MIN: return a < b ? a : b;
    case PEAL_MAX: return a > b ? a : b;
    case PEAL_LAND: return (T)((a != 0) & (b != 0));
    case PEAL_LOR: return (T)((a | b) != 0);
    case PEAL_LXOR: return (T)((a != 0) ^ (b != 0));
    case PEAL_BAND: return (T)(a & b);
    case PEAL_BOR: return (T)(a | b);
    default: return (T)(a ^ b);
    }
}

/* Of two equal numbers, which may be zeros of different signs, min takes the negative one and max the other. */
template <class T, class U> DEVICE T apply_real(uint8_t op, T a, T b)
{
    bool negative = bits_as<U>(a) >> (8 * sizeof(U) - 1);
    if (op == PEAL_PROD)
        return a * b;
    if (a != a || b != b)
        return a + b;
    if (a == b)
        return negative == (op == PEAL_MIN) ? a : b;
    return (a < b) == (op == PEAL_MIN) ? a : b;
}

/* NaN is below all other numbers as well as above them: it wins. Else it is one of both, for infinity may not be narrowed. */
template <class H> DEVICE typename H::bits apply_order(uint8_t op, typename H::bits a, typename H::bits b)
{
    float first = H::wide(a), x = apply_real<float, uint32_t>(op, first, H::wide(b));
    return x != x ? H::narrow(x) : bits_as<uint32_t>(x) == bits_as<uint32_t>(first) ? a : b;
}

template <class T, class U> DEVICE uint64_t whole_word(uint8_t op, uint64_t a, uint64_t b)
{
    lanes<T> x = bits_as<lanes<T>>(a), y = bits_as<lanes<T>>(b);
    UNROLL
    for (unsigned i = 0; i < 8 / sizeof(T); i++)
        x.at[i] = apply_whole<T, U>(op, x.at[i], y.at[i]);
    return bits_as<uint64_t>(x);
}

template <class T, class U> DEVICE uint64_t real_word(uint8_t op, uint64_t a, uint64_t b)
{
    lanes<T> x = bits_as<lanes<T>>(a), y = bits_as<lanes<T>>(b);
    UNROLL
    for (unsigned i = 0; i < 8 / sizeof(T); i++)
        x.at[i] = one_nan(apply_real<T, U>(op, x.at[i], y.at[i]));
    return bits_as<uint64_t>(x);
}

template <class H> DEVICE uint64_t order_word(uint8_t op, uint64_t a, uint64_t b)
{
    typedef lanes<typename H::bits> word_lanes;
    word_lanes x = bits_as<word_lanes>(a), y = bits_as<word_lanes>(b);
    UNROLL
    for (unsigned i = 0; i < sizeof x / sizeof x.at[0]; i++)
        x.at[i] = apply_order<H>(op, x.at[i], y.at[i]);
    return bits_as<uint64_t>(x);
}

/* Whatever has no kernel of its own. Called, not compiled into each loop: one copy serves all kernels. */
DEVICE_SLOW uint64_t apply_any(uint8_t type, uint8_t op, uint64_t a, uint64_t b)
{
    switch (type) {
    case PEAL_INT8: return whole_word<int8_t, uint8_t>(op, a, b);
    case PEAL_INT16: return whole_word<int16_t, uint16_t>(op, a, b);
    case PEAL_UINT16: return whole_word<uint16_t, uint16_t>(op, a, b);
    case PEAL_INT32: return whole_word<int32_t, uint32_t>(op, a, b);
    case PEAL_UINT32: return whole_word<uint32_t, uint32_t>(op, a, b);
    case PEAL_INT64: return whole_word<int64_t, uint64_t>(op, a, b);
    case PEAL_UINT64: return whole_word<uint64_t, uint64_t>(op, a, b);
    case PEAL_FLOAT: return real_word<float, uint32_t>(op, a, b);
    case PEAL_DOUBLE: return real_word<double, uint64_t>(op, a, b);
    case PEAL_FP8_E4M3: return order_word<fp8_e4m3>(op, a, b);
    case PEAL_FP8_E5M2: return order_word<fp8_e5m2>(op, a, b);
    case PEAL_FP16: return order_word<fp16>(op, a, b);
    case PEAL_BF16: return order_word<bf16>(op, a, b);
    default: return whole_word<uint8_t, uint8_t>(op, a, b); /* uint8, byte, bool */
    }
}

DEVICE bool is_narrow(uint8_t type)
{
    return type >= PEAL_FP8_E4M3 && type <= PEAL_BF16;
}

/* Products of numbers of few bits, not rounded yet. */
struct products {
    float at[8];
};

template <class H> DEVICE products multiply_narrow(products p, uint64_t word)
{
    typedef lanes<typename H::bits> word_lanes;
    word_lanes x = bits_as<word_lanes>(word);
    UNROLL
    for (unsigned i = 0; i < sizeof x / sizeof x.at[0]; i++)
        p.at[i] *= H::wide(x.at[i]);
    return p;
}

template <class H> DEVICE uint64_t round_narrow(products p)
{
    typedef lanes<typename H::bits> word_lanes;
    word_lanes x;
    UNROLL
    for (unsigned i = 0; i < sizeof x / sizeof x.at[0]; i++)
        x.at[i] = H::narrow(p.at[i]);
    return bits_as<uint64_t>(x);
}

DEVICE_SLOW products multiply_any(uint8_t type, products p, uint64_t word)
{
    switch (type) {
    case PEAL_FP8_E4M3: return multiply_narrow<fp8_e4m3>(p, word);
    case PEAL_FP8_E5M2: return multiply_narrow<fp8_e5m2>(p, word);
    case PEAL_FP16: return multiply_narrow<fp16>(p, word);
    default: return multiply_narrow<bf16>(p, word);
    }
}

DEVICE_SLOW uint64_t round_any(uint8_t type, products p)
{
    switch (type) {
    case PEAL_FP8_E4M3: return round_narrow<fp8_e4m3>(p);
    case PEAL_FP8_E5M2: return round_narrow<fp8_e5m2>(p);
    case PEAL_FP16: return round_narrow<fp16>(p);
    default: return round_narrow<bf16>(p);
    }
}

/* Premultiplied sums: each element of WORD times that of SCALAR. */
DEVICE_SLOW uint64_t scale_any(uint8_t type, uint64_t word, uint64_t scalar)
{
    const products ones = {{1, 1, 1, 1, 1, 1, 1, 1}};
    if (!is_narrow(type))
        return apply_any(type, PEAL_PROD, word, scalar);
    return round_any(type, multiply_any(type, multiply_any(type, ones, word), scalar));
}

struct reduce_any {
    enum { OFTEN = 0 };
    struct state {
        uint64_t word;
        products p; /* instead, where numbers of few bits are multiplied */
    };
    uint8_t type, op;

    explicit DEVICE_MEMBER reduce_any(const peali_cuda_call &c) : type(c.type), op(c.op)
    {
    }
    DEVICE_MEMBER bool narrow_product() const
    {
        return op == PEAL_PROD && is_narrow(type);
    }
    DEVICE_MEMBER state first(uint64_t word) const
    {
        state s = {word, {{1, 1, 1, 1, 1, 1, 1, 1}}};
        if (narrow_product())
            s.p = multiply_any(type, s.p, word);
        return s;
    }
    DEVICE_MEMBER void add(state &s, uint64_t word) const
    {
        if (narrow_product())
            s.p = multiply_any(type, s.p, word);
        else
            s.word = apply_any(type, op, s.word, word);
    }
    DEVICE_MEMBER uint64_t result(state s) const
    {
        return narrow_product() ? round_any(type, s.p) : s.word;
    }
};

template <class T> DEVICE uint64_t divide_whole(uint64_t word, uint32_t n)
{
    lanes<T> x = bits_as<lanes<T>>(word);
    for (unsigned i = 0; i < 8 / sizeof(T); i++)
        x.at[i] = (T)(x.at[i] / (T)n);
    return bits_as<uint64_t>(x);
}

template <class T> DEVICE uint64_t divide_real(uint64_t word, uint32_t n)
{
    lanes<T> x = bits_as<lanes<T>>(word);
    for (unsigned i = 0; i < 8 / sizeof(T); i++)
        x.at[i] = one_nan(x.at[i] / (T)n);
    return bits_as<uint64_t>(x);
}

template <class H> DEVICE uint64_t divide_narrow(uint64_t word, uint32_t n)
{
    typedef lanes<typename H::bits> word_lanes;
    word_lanes x = bits_as<word_lanes>(word);
    for (unsigned i = 0; i < sizeof x / sizeof x.at[0]; i++)
        x.at[i] = H::narrow(H::wide(x.at[i]) / (float)n);
    return bits_as<uint64_t>(x);
}

/* Averages: N, the number of ranks, is less than any type holds. */
DEVICE_SLOW uint64_t divide_any(uint8_t type, uint64_t word, uint32_t n)
{
    switch (type) {
    case PEAL_INT8: return divide_whole<int8_t>(word, n);
    case PEAL_UINT8: return divide_whole<uint8_t>(word, n);
    case PEAL_INT16: return divide_whole<int16_t>(word, n);
    case PEAL_UINT16: return divide_whole<uint16_t>(word, n);
    case PEAL_INT32: return divide_whole<int32_t>(word, n);
    case PEAL_UINT32: return divide_whole<uint32_t>(word, n);
    case PEAL_INT64: return divide_whole<int64_t>(word, n);
    case PEAL_UINT64: return divide_whole<uint64_t>(word, n);
    case PEAL_FLOAT: return divide_real<float>(word, n);
    case PEAL_DOUBLE: return divide_real<double>(word, n);
    case PEAL_FP8_E4M3: return divide_narrow<fp8_e4m3>(word, n);
    case PEAL_FP8_E5M2: return divide_narrow<fp8_e5m2>(word, n);
    case PEAL_FP16: return divide_narrow<fp16>(word, n);
    default: return divide_narrow<bf16>(word, n);
    }
}

#endif
