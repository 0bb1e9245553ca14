/* Of test_net.c: what messages are made of, by eight bytes, as each access costs TSan and valgrind as much as a byte does. */
#ifndef TEST_NET_WORDS_H
#define TEST_NET_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

/* The word at AT of BYTES, and how much of it there is. */
static size_t word_at(size_t at, size_t bytes, uint32_t seed, uint64_t *word)
{
    *word = (mix(seed) + at) * 0x9e3779b97f4a7c15u;
    return bytes - at < sizeof *word ? bytes - at : sizeof *word;
}

static void fill(unsigned char *data, size_t bytes, uint32_t seed)
{
    uint64_t word;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = word_at(at, bytes, seed, &word);
        memcpy(data + at, &word, n);
    }
}

static bool filled(const unsigned char *data, size_t bytes, uint32_t seed)
{
    uint64_t word;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = word_at(at, bytes, seed, &word);
        if (memcmp(data + at, &word, n) != 0)
            return false;
    }
    return true;
}

#endif
