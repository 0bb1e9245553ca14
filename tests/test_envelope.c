/*
 * Envelopes: what was sealed comes out, and each kind of damage is refused in its own words. Then damage of all kinds at random:
 * the contents come out as they were sealed, or not at all. Blobs have exactly their size, for the sanitizers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/envelope.h"

enum { HEAD = PEALI_ENVELOPE_HEAD, MOST = 300 };

/* Where the fields of the head lie. */
enum { MAGIC = 0, VERSION = 4, TYPE = 6, LENGTH = 8, CHECKSUM = 16 };

static unsigned char *sealed(peali_envelope_type type, size_t bytes)
{
    unsigned char *blob = malloc(HEAD + bytes);
    for (size_t i = 0; i < bytes; i++)
        blob[HEAD + i] = (unsigned char)(i * 7 + bytes);
    peali_envelope_seal(blob, type, bytes);
    return blob;
}

static void comes_out(void **state)
{
    (void)state;
    char why[PEALI_ENVELOPE_WHY];
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        unsigned char *blob = sealed(PEALI_ENVELOPE_KEY, bytes);
        size_t got = MOST + 1;
        const unsigned char *contents = peali_envelope_open(blob, HEAD + bytes, PEALI_ENVELOPE_KEY, &got, why);
        assert_ptr_equal(contents, blob + HEAD);
        assert_int_equal(got, bytes);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(contents[i], (unsigned char)(i * 7 + bytes));
        free(blob);
    }
}

/* An envelope of 10 bytes with the byte AT turned by TURN, of which ROOM bytes come, is refused as WORDS. */
static void refused(size_t at, unsigned turn, size_t room, const char *words)
{
    char why[PEALI_ENVELOPE_WHY] = "";
    size_t got = MOST + 1;
    unsigned char *blob = sealed(PEALI_ENVELOPE_ADDRESS, 10), *part = malloc(room ? room : 1);
    blob[at] ^= (unsigned char)turn;
    memcpy(part, blob, room);
    assert_null(peali_envelope_open(part, room, PEALI_ENVELOPE_ADDRESS, &got, why));
    assert_string_equal(why, words);
    assert_int_equal(got, MOST + 1);
    free(blob);
    free(part);
}

static void each_damage(void **state)
{
    (void)state;
    static const char checksum[] = "was damaged on its way: its checksum is wrong";
    refused(0, 0, 0, "has 0 bytes, fewer than an envelope's head");
    refused(0, 0, HEAD - 1, "has 23 bytes, fewer than an envelope's head");
    refused(MAGIC, 1, HEAD + 10, "is in no envelope");
    refused(VERSION, 3, HEAD + 10, "is of version 2, this Peal reads 1: run one Peal on all ranks");
    refused(0, 0, HEAD, "should have 10 bytes, of which 0 came");
    refused(0, 0, HEAD + 9, "should have 10 bytes, of which 9 came");
    refused(LENGTH + 7, 0x80, HEAD + 10, "should have 9223372036854775818 bytes, of which 10 came");
    refused(LENGTH, 1 ^ 10 ^ 8, HEAD + 10, checksum); /* shorter */
    refused(TYPE, 3, HEAD + 10, checksum);
    refused(CHECKSUM, 1, HEAD + 10, checksum);
    refused(HEAD, 1, HEAD + 10, checksum);
    refused(HEAD + 9, 0x80, HEAD + 10, checksum);
}

static void other_kinds(void **state)
{
    (void)state;
    char why[PEALI_ENVELOPE_WHY];
    size_t got;
    unsigned char *blob = sealed(PEALI_ENVELOPE_KEY, 10), turned[4];
    assert_null(peali_envelope_open(blob, HEAD + 10, PEALI_ENVELOPE_ADDRESS, &got, why));
    assert_string_equal(why, "is a key, not an address");
    assert_non_null(peali_envelope_open(blob, HEAD + 10, PEALI_ENVELOPE_KEY, &got, why));
    for (int i = 0; i < 4; i++)
        turned[i] = blob[3 - i];
    memcpy(blob, turned, sizeof turned);
    assert_null(peali_envelope_open(blob, HEAD + 10, PEALI_ENVELOPE_KEY, &got, why));
    assert_string_equal(why, "comes from a machine of the other byte order");
    free(blob);
}

static void every_bit(void **state)
{
    (void)state;
    char why[PEALI_ENVELOPE_WHY];
    size_t got;
    unsigned char *blob = sealed(PEALI_ENVELOPE_KEY, 40);
    for (size_t bit = 0; bit < (HEAD + 40) * 8; bit++) {
        blob[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_null(peali_envelope_open(blob, HEAD + 40, PEALI_ENVELOPE_KEY, &got, why));
        blob[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_non_null(peali_envelope_open(blob, HEAD + 40, PEALI_ENVELOPE_KEY, &got, why));
    free(blob);
}

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

/* Turns, copies, cuts and extends BLOB, which has room for MOST bytes more; its new size. */
static size_t damage(unsigned char *blob, size_t bytes, uint64_t *seed)
{
    size_t at = draw(seed) % bytes, other = draw(seed) % bytes;
    size_t count = 1 + draw(seed) % (bytes - (at > other ? at : other));
    switch (draw(seed) % 5) {
    case 0: blob[at] ^= (unsigned char)(1 + draw(seed) % 255); return bytes;
    case 1: memmove(blob + at, blob + other, count); return bytes;
    case 2: memset(blob + at, (int)(draw(seed) % 256), count); return bytes;
    case 3: return 1 + at;
    default: memset(blob + bytes, (int)(draw(seed) % 256), MOST / 8); return bytes + MOST / 8;
    }
}

static void at_random(void **state)
{
    (void)state;
    enum { ROUNDS = 300000 };
    uint64_t seed = 0x9e3779b97f4a7c15u;
    long kept = 0;
    for (long round = 0; round < ROUNDS; round++) {
        char why[PEALI_ENVELOPE_WHY] = "";
        unsigned char copy[HEAD + 2 * MOST];
        size_t bytes = draw(&seed) % 64, room = HEAD + bytes, got;
        unsigned char *blob = sealed(PEALI_ENVELOPE_ADDRESS, bytes);
        memcpy(copy, blob, room);
        for (uint64_t edits = 1 + draw(&seed) % 3; edits > 0; edits--)
            room = damage(copy, room, &seed);
        unsigned char *exact = memcpy(malloc(room), copy, room);
        const void *out = peali_envelope_open(exact, room, PEALI_ENVELOPE_ADDRESS, &got, why);
        assert_true(out ? got == bytes && memcmp(out, blob + HEAD, bytes) == 0 : why[0] != '\0');
        kept += out != NULL;
        free(exact);
        free(blob);
    }
    assert_in_range(kept, 1, ROUNDS / 2); /* edits that change nothing, or what lies behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_out), cmocka_unit_test(each_damage), cmocka_unit_test(other_kinds),
        cmocka_unit_test(every_bit), cmocka_unit_test(at_random),
    };
    return cmocka_run_group_tests_name("envelope", tests, NULL, NULL);
}
