/*
 * Clerks: the few threads of this process that serve what nobody can wake them for. Each is there as long as it has an errand, and
 * rests where nothing moves.
 */
#ifndef PEALI_CLERK_H
#define PEALI_CLERK_H

#include <stdbool.h>

#include "base/config.h"

enum { PEALI_CLERKS = PEALI_MOST_PROXY_THREADS };

/* What a clerk has to look at, again and again; the struct is the giver's. */
typedef struct peali_errand {
    unsigned clerk; /* below PEALI_CLERKS */
    bool (*pass)(struct peali_errand *errand, bool rested); /* under the lock: did anything move? RESTED: nothing has for long */
    bool busy; /* something was under way in the last pass, which sets this */
    bool called; /* whoever has something for it wakes its clerk, so that nobody need look for it */
    struct peali_errand *next;
} peali_errand;

/* Gives ERRAND to its clerk; 0, or an error of the system: there can be no thread. Threads: any. */
int peali_clerk_give(peali_errand *errand);

/* From here on ERRAND is the caller's alone. Threads: any, but for clerks. */
void peali_clerk_take_back(peali_errand *errand);

/* ERRAND's clerk does no pass in between. Threads: any. */
void peali_clerk_lock(const peali_errand *errand);
void peali_clerk_unlock(const peali_errand *errand);

/* There will be something to do for the FIRST clerks: they need not rest. Threads: any. */
void peali_clerk_wake(unsigned first);

#endif
