/* What decides a call, in words: the row of the tuning table, and what the cost model says of the others. */
#ifndef PEALI_WHY_H
#define PEALI_WHY_H

#include <stddef.h>

#include <peal/algo.h>

/* Prints why BYTES of PROBLEM over TRANSPORT take what they take; the exit code. */
int peali_why(const peal_problem *problem, const char *transport, size_t bytes);

#endif
