/*
 * The signature of a call: what must be equal on all ranks, all calls before it included. It travels with the first message between
 * two ranks in a call, whatever the algorithm; ranks within reach look at each other's.
 */
#ifndef PEALI_SIGNATURE_H
#define PEALI_SIGNATURE_H

#include <string.h>

#include "base/atomics.h"
#include "exec/plan.h"

typedef struct peali_signature {
    uint64_t sequence; /* calls on the communicator before this one */
    uint64_t history;  /* hash of the one before this, and so of all */
    uint64_t count;
    uint64_t forced;   /* hash of algorithms and slices that the communicator forces; 0: as it was made */
    int32_t root;
    uint8_t kind, type, op, magic;
} peali_signature;

enum {
    PEALI_SIGNATURE_MAGIC = 0x9e,
    PEALI_SIGNATURE_LANE = 0x40, /* and more, instead: on the way of a message */
    PEALI_SIGNATURE_DEVICE = 0x80, /* in kind: the call is on device memory */
    PEALI_SIGNATURE_REGISTER = 0x7f, /* in kind, for no collective: a registration of buffers, or (root 1) the end of one */
    PEALI_SIGNATURE_REFUSED = 0x7e,  /* in kind, for no collective, and nothing else: a call that was refused */
    PEALI_SIGNATURE_TEXT = 160,
    PEALI_SIGNATURE_PAST = 8, /* calls that a rank lets others see: one that only sends may be a few ahead of those that receive */
};
#define PEALI_SIGNATURE_ANY UINT64_MAX /* for sequence: whenever it is made */

/* Its history is the caller's to fill in. */
peali_signature peali_signature_of(const peali_job *job, uint64_t sequence);
/* Differs where signatures do, but for one pair in 2^64. */
uint64_t peali_signature_hash(const peali_signature *s);
int peali_signature_equal(const peali_signature *a, const peali_signature *b);
/* But for their histories. */
int peali_signature_alike(const peali_signature *a, const peali_signature *b);

/* A signature where others may look at any time: word by word, and a hash that tells the words of one call from those of two. */
enum { PEALI_SIGNATURE_SIZE = sizeof(peali_signature) / sizeof(uint64_t) };
typedef struct peali_signature_shown {
    uint64_t words[PEALI_SIGNATURE_SIZE], hash;
} peali_signature_shown;

static inline void peali_signature_show(peali_signature_shown *at, const peali_signature *s, uint64_t hash)
{
    for (int k = 0; k < PEALI_SIGNATURE_SIZE; k++) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)s + (size_t)k * sizeof word, sizeof word);
        peali_store_relaxed(&at->words[k], word);
    }
    peali_store_relaxed(&at->hash, hash);
}

/* False: there is none, or it is just being written. */
static inline bool peali_signature_look(const peali_signature_shown *at, peali_signature *s)
{
    uint64_t words[PEALI_SIGNATURE_SIZE];
    for (int k = 0; k < PEALI_SIGNATURE_SIZE; k++)
        words[k] = peali_load_relaxed(&at->words[k]);
    memcpy(s, words, sizeof words);
    return s->magic && peali_signature_hash(s) == peali_load_relaxed(&at->hash);
}

/* "allreduce number 7: count 1000, type float, op sum, on device memory". Returns BUF of PEALI_SIGNATURE_TEXT bytes. */
const char *peali_signature_words(const peali_signature *s, char *buf);

#endif
