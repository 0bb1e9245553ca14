/*
 * The data of a race, chosen so that the exact result is known: small integers that differ by rank, call and element, whose sum no
 * order of addition can round, and whose average is one of them. A second kind, rough, does round: there all ranks must have the
 * same bits.
 */
#ifndef PEALI_PATTERN_H
#define PEALI_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <peal/peal.h>

enum { PEALI_PATTERN_PERIOD = 251, PEALI_PATTERN_REPEAT = 16 }; /* elements; and how many times the tables have them, once more */

typedef struct peali_pattern {
    size_t elem;  /* bytes of one */
    char *mine;   /* what this rank gives */
    char *rough;  /* likewise, rounding */
    char *result; /* what all get for `mine` */
} peali_pattern;

/* False where there is no memory. */
bool peali_pattern_create(peali_pattern *pattern, int rank, int nranks, peal_type type, peal_op op);
void peali_pattern_destroy(peali_pattern *pattern);

/* Writes the COUNT elements that this rank gives to call CALL: no two calls within 251 give the same element. */
void peali_pattern_give(const peali_pattern *pattern, bool rough, long call, void *buffer, size_t count);

/* How many of the COUNT elements are not the result of call CALL, bit for bit. */
size_t peali_pattern_wrong(const peali_pattern *pattern, long call, const void *buffer, size_t count);

/* A hash of BYTES bytes that a double holds exactly. */
double peali_pattern_hash(const void *buffer, size_t bytes);

#endif
