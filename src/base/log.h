/*
 * Log lines on stderr or PEAL_LOG_FILE: one line per event, lowercase, `[peal] level rank R: words value ...`.
 *
 * The function that decides an error logs it, once; callers pass the status on. warn shows errors and warnings, and is the default.
 * Exported for libpeal_mpi alone.
 */
#ifndef PEALI_LOG_H
#define PEALI_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include <peal/status.h>

enum peali_log_level { PEALI_LOG_WARN, PEALI_LOG_INFO, PEALI_LOG_DEBUG, PEALI_LOG_TRACE };
enum peali_log_subsys { PEALI_SUB_INIT, PEALI_SUB_COLL, PEALI_SUB_NET, PEALI_SUB_GRAPH, PEALI_SUB_TUNE };

/* True where a line of that level and subsystem would be written; one load and compare. Threads: any. */
PEAL_PUBLIC bool peali_log_on(enum peali_log_level level, enum peali_log_subsys subsys);

/* Writes one line (rank below 0: no rank is named). Warnings pass every filter. Threads: any. */
__attribute__((cold, format(printf, 4, 5))) PEAL_PUBLIC void peali_log(enum peali_log_level level, enum peali_log_subsys subsys,
                                                                       int rank, const char *format, ...);

/* This process' rank as its launcher named it; "x": it did not. */
const char *peali_log_rank(void);

/* Writes PATTERN with its %h (host), %p (process) and %r (rank) filled in to ROOM bytes at PATH. */
enum { PEALI_LOG_PATH = 2048 };
void peali_log_expand(const char *pattern, char *path, size_t room);

#endif
