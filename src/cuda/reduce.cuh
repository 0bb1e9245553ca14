/*
 * The arithmetic of the kernels, on 8 bytes of elements at a time, as they lie in memory. A class of arithmetic has a state of
 * the sum so far, in which 16-bit numbers are float, so that they are rounded once for each result; it gives the same bits as the
 * CPU does (exec/reduce.h).
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

/* What a 16-bit number is as a float, which holds every one of them exactly, and a float as the nearest of them, NaN as one. */
struct fp16 {
    static DEVICE_MEMBER float wide(uint16_t h)
    {
        return fp16_to_float(h);
    }
    static DEVICE_MEMBER uint16_t narrow(float x)
    {
        return x != x ? 0x7e00 : fp16_of_float(x);
    }
};

struct bf16 {
    static DEVICE_MEMBER float wide(uint16_t h)
    {
        return bits_as<float>((uint32_t)h << 16);
    }
    /* The high half, and one more where the low half is above 0x8000, or is just that and the high half is odd. */
    static DEVICE_MEMBER uint16_t narrow(float x)
    {
        uint32_t u = bits_as<uint32_t>(x);
        return x != x ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
};

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

/* Sums, or products, of 16-bit numbers. */
template <class H, bool PRODUCT = false> struct sum_half {
    struct state {
        float at[4];
    };
    explicit DEVICE_MEMBER sum_half(const peali_cuda_call &)
    {
    }
    DEVICE_MEMBER state first(uint64_t word) const
    {
        lanes<uint16_t> x = bits_as<lanes<uint16_t>>(word);
        state s;
        UNROLL
        for (int i = 0; i < 4; i++)
            s.at[i] = H::wide(x.at[i]);
        return s;
    }
    DEVICE_MEMBER void add(state &s, uint64_t word) const
    {
        lanes<uint16_t> x = bits_as<lanes<uint16_t>>(word);
        UNROLL
        for (int i = 0; i < 4; i++)
            s.at[i] = PRODUCT ? s.at[i] * H::wide(x.at[i]) : s.at[i] + H::wide(x.at[i]);
    }
    DEVICE_MEMBER uint64_t result(state s) const
    {
        lanes<uint16_t> x;
        UNROLL
        for (int i = 0; i < 4; i++)
            x.at[i] = H::narrow(s.at[i]);
        return bits_as<uint64_t>(x);
    }
};

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

/* NaN is below all other numbers as well as above them: it wins. */
template <class H> DEVICE uint16_t apply_order(uint8_t op, uint16_t a, uint16_t b)
{
    float x = apply_real<float, uint32_t>(op, H::wide(a), H::wide(b));
    return H::narrow(x);
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
    lanes<uint16_t> x = bits_as<lanes<uint16_t>>(a), y = bits_as<lanes<uint16_t>>(b);
    UNROLL
    for (int i = 0; i < 4; i++)
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
    case PEAL_FP16: return order_word<fp16>(op, a, b);
    case PEAL_BF16: return order_word<bf16>(op, a, b);
    default: return whole_word<uint8_t, uint8_t>(op, a, b); /* uint8, byte, bool */
    }
}

struct reduce_any {
    struct state {
        uint64_t word;
        float at[4]; /* products of 16-bit numbers */
    };
    uint8_t type, op;

    explicit DEVICE_MEMBER reduce_any(const peali_cuda_call &c) : type(c.type), op(c.op)
    {
    }
    DEVICE_MEMBER bool half_product() const
    {
        return op == PEAL_PROD && (type == PEAL_FP16 || type == PEAL_BF16);
    }
    DEVICE_MEMBER float wide(uint16_t h) const
    {
        return type == PEAL_FP16 ? fp16::wide(h) : bf16::wide(h);
    }
    DEVICE_MEMBER state first(uint64_t word) const
    {
        state s = {word, {0}};
        lanes<uint16_t> x = bits_as<lanes<uint16_t>>(word);
        for (int i = 0; half_product() && i < 4; i++)
            s.at[i] = wide(x.at[i]);
        return s;
    }
    DEVICE_MEMBER void add(state &s, uint64_t word) const
    {
        lanes<uint16_t> x = bits_as<lanes<uint16_t>>(word);
        if (!half_product())
            s.word = apply_any(type, op, s.word, word);
        for (int i = 0; half_product() && i < 4; i++)
            s.at[i] *= wide(x.at[i]);
    }
    DEVICE_MEMBER uint64_t result(state s) const
    {
        lanes<uint16_t> x;
        if (!half_product())
            return s.word;
        for (int i = 0; i < 4; i++)
            x.at[i] = type == PEAL_FP16 ? fp16::narrow(s.at[i]) : bf16::narrow(s.at[i]);
        return bits_as<uint64_t>(x);
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

template <class H> DEVICE uint64_t divide_half(uint64_t word, uint32_t n)
{
    lanes<uint16_t> x = bits_as<lanes<uint16_t>>(word);
    for (int i = 0; i < 4; i++)
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
    case PEAL_FP16: return divide_half<fp16>(word, n);
    default: return divide_half<bf16>(word, n);
    }
}

#endif
