/*
 * Which of two ways, 0 and 1, calls of one plan are quicker by, as the calls themselves tell. Each rank finds out for itself, so
 * the ways must be such that ranks may differ in them.
 */
#ifndef PEALI_TRIAL_H
#define PEALI_TRIAL_H

#include <stdint.h>

/* Begins as {0}. */
typedef struct peali_trial {
    int64_t least_ns[2]; /* of calls since both ways were tried last */
    uint32_t calls;
    uint32_t length; /* calls from when both were tried to when they will be again; 0: before the first time */
} peali_trial;

/* The way of the next call. */
int peali_trial_way(const peali_trial *trial);

/* A call by WAY took NS. One that could not go the way it was to go is counted, but not timed. */
void peali_trial_tell(peali_trial *trial, int way, int64_t ns);

#endif
