/*
 * The thread of this process that looks, ten times a second, at what kernels have found out: nobody else may be there to say it. It
 * reads memory, and calls nothing that could wait for a device. It is there as long as anything is watched.
 */
#ifndef PEALI_WATCH_H
#define PEALI_WATCH_H

#include <peal/status.h>

typedef struct peali_watched {
    void (*look)(struct peali_watched *watched);
    struct peali_watched *next;
} peali_watched;

/* Has WATCHED looked at from here on. PEAL_OK; PEAL_ERR_SYSTEM there can be no thread (logged). Threads: any. */
PEAL_MUST_CHECK peal_status peali_watch_begin(peali_watched *watched);

/* WATCHED, which may not be watched, is not looked at any more. Threads: any but the one that looks. */
void peali_watch_end(peali_watched *watched);

#endif
