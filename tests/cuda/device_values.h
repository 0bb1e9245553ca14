/* Elements whose results do not depend on the order of sums: what GPUs and CPUs make of them has the same bits. */
#ifndef DEVICE_VALUES_H
#define DEVICE_VALUES_H

#include <stdint.h>
#include <string.h>

#include <peal/peal.h>

static inline uint32_t value_random(uint32_t seed)
{
    seed ^= seed >> 16;
    seed *= 0x7feb352du;
    seed ^= seed >> 15;
    seed *= 0x846ca68bu;
    return seed ^ seed >> 16;
}

/* A number of few bits, whose sums have few bits too; of a product, one that does not grow. */
static inline float value_small(peal_type type, peal_op op, uint32_t random)
{
    static const float factors[] = {1, -1, 2, 0.5f};
    int most = type == PEAL_FP8_E4M3 || type == PEAL_FP8_E5M2 ? 1 : 8;
    return op == PEAL_PROD ? factors[random % 4] : (float)((int)(random % (2 * (uint32_t)most + 1)) - most);
}

/* X, which has few bits, as a half. */
static inline uint16_t value_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == 0)
        return 0;
    int exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

static inline void value_store(unsigned char *at, peal_type type, float x)
{
    uint32_t bits;
    uint16_t half = value_half(x), brain;
    double wide = x;
    long double wider = x;
    memcpy(&bits, &x, sizeof bits);
    brain = (uint16_t)(bits >> 16);
    switch (type) {
    case PEAL_FP8_E4M3: *at = (unsigned char)((half >> 8 & 0x80) | (x == 0 ? 0 : (half & 0x7fff) - (8 << 10)) >> 7); break;
    case PEAL_FP8_E5M2: *at = (unsigned char)(half >> 8); break;
    case PEAL_FP16: memcpy(at, &half, sizeof half); break;
    case PEAL_BF16: memcpy(at, &brain, sizeof brain); break;
    case PEAL_FLOAT: memcpy(at, &x, sizeof x); break;
    case PEAL_DOUBLE: memcpy(at, &wide, sizeof wide); break;
    default: memcpy(at, &wider, 10); /* x86: the rest is padding, of any value */
    }
}

/* Fills COUNT elements with any bits, numbers or not. */
static inline void value_fill_any(unsigned char *at, size_t count, peal_type type, uint32_t seed)
{
    for (size_t i = 0; i < count * peal_type_bytes(type); i++)
        at[i] = (unsigned char)value_random(seed + (uint32_t)i * 2654435761u);
}

/* Fills COUNT elements with the share of RANK in call CALL. */
static inline void value_fill(unsigned char *at, size_t count, peal_type type, peal_op op, uint32_t seed)
{
    size_t bytes = peal_type_bytes(type);
    memset(at, 0, bytes * count);
    for (size_t i = 0; i < count; i++) {
        uint32_t random = value_random(seed + (uint32_t)i * 2654435761u);
        uint64_t bits = random % 3 == 0 ? 0 : (uint64_t)random << 32 | value_random(random);
        float re = value_small(type, op, random), im = value_small(type, op, random >> 8);
        float one[2] = {re, im};
        double two[2] = {re, im};
        unsigned char *e = at + i * bytes, truth = random & 1;
        if (type == PEAL_BOOL)
            *e = truth;
        else if (type <= PEAL_BYTE)
            memcpy(e, &bits, bytes);
        else if (type == PEAL_COMPLEX_FLOAT)
            memcpy(e, one, sizeof one);
        else if (type == PEAL_COMPLEX_DOUBLE)
            memcpy(e, two, sizeof two);
        else
            value_store(e, type, re);
    }
}

#endif
