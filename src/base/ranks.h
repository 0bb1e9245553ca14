/*
 * Ranks in ascending order, as people list them: "1, 4-7 and 12 more"; where they have other numbers among all that were started
 * together, with these: "1 (world 3), 4-7 (world 8-11)".
 */
#ifndef PEALI_RANKS_H
#define PEALI_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include <peal/peal.h>

enum { PEALI_RANKS_RANGES = 8, PEALI_RANKS_BYTES = PEALI_RANKS_RANGES * 56 + 24 };

typedef struct peali_ranks {
    const int32_t *world; /* of each rank of the communicator; NULL: the same. It stays the caller's */
    int n;                /* ranks that were put */
    int ranges, first, last, more;
    size_t at;
    char text[PEALI_RANKS_BYTES];
} peali_ranks;

/* Adds RANK, which is above those before. */
PEAL_PUBLIC void peali_ranks_put(peali_ranks *list, int rank);

/* The text of those that were put, one at least; none is put any more. */
PEAL_PUBLIC const char *peali_ranks_end(peali_ranks *list);

#endif
