/*
 * How far sums are from exact ones: data that rounds, and the error of results in units in the last place of the exact result.
 */
#ifndef PEALI_ULP_H
#define PEALI_ULP_H

#include <stdbool.h>
#include <stddef.h>

#include <peal/peal.h>

enum { PEALI_ULP_PERIOD = 65521 }; /* elements of a table, which repeats: a prime, so that no block or slice size hides a shift */

typedef struct peali_ulp {
    peal_type type;
    char *mine;         /* what this rank gives */
    long double *exact; /* what all should get */
} peali_ulp;

/* Sums and averages of floating-point types, but for complex and long double. */
bool peali_ulp_takes(peal_type type, peal_op op);

/* False where there is no memory. */
bool peali_ulp_create(peali_ulp *ulp, int rank, int nranks, peal_type type, peal_op op);
void peali_ulp_destroy(peali_ulp *ulp);

/* The largest error of COUNT results at HAVE, the first of which is element FIRST of all; infinite where one is no number. */
double peali_ulp_error(const peali_ulp *ulp, size_t first, const void *have, size_t count);

#endif
