/*
 * What the ranks give, and what must come of it: small whole numbers that differ by rank, call and element, whose sum no order of
 * addition can round.
 */
#ifndef PEERS_DATA_H
#define PEERS_DATA_H

#include <stdbool.h>
#include <stddef.h>

enum { DATA_PERIOD = 251, DATA_REPEAT = 4 }; /* the period is prime: no block size hides a shift */

typedef struct data {
    size_t elem;
    char give[8 * DATA_PERIOD * (DATA_REPEAT + 1)], all[8 * DATA_PERIOD * (DATA_REPEAT + 1)];
} data;

/* The data of NRANKS ranks: their largest double (MAX), or their sum as float. */
void data_make(data *d, int nranks, bool max);

/* Writes COUNT elements that RANK gives to call CALL, from element 0. */
void data_give(const data *d, int rank, long call, void *to, size_t count);

/* How many runs of elements are not what RANK gave, or what all gave together (rank -1), from element FIRST. */
long data_wrong(const data *d, int rank, long call, size_t first, const void *have, size_t count);

#endif
