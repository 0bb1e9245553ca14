/*
 * Strict reading of Peal's own text forms: what is expected comes next, or reading has failed.
 *
 * The first failure stays, with its line; after it every call finds nothing, so that a reader is a plain list of what it expects
 * and looks at the failure once.
 */
#ifndef PEALI_SCAN_H
#define PEALI_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEALI_SCAN_WHY = 200, PEALI_SCAN_NAME = 64 };

typedef struct peali_scan {
    const char *at, *end;
    int32_t line; /* of AT, from 1 */
    char *why;    /* "" before a failure */
} peali_scan;

/* Reads the LENGTH bytes at TEXT, which need no 0 at their end; 2 GiB and more fail. WHY has room for PEALI_SCAN_WHY bytes. */
void peali_scan_begin(peali_scan *scan, const char *text, size_t length, char *why);

/* Keeps the failure "line N: ..." unless there is one. */
__attribute__((format(printf, 2, 3))) void peali_scan_fail(peali_scan *scan, const char *format, ...);

/* Takes WORD if it comes next. */
bool peali_scan_try(peali_scan *scan, const char *word);

/* Takes WORD, which must come next. */
void peali_scan_want(peali_scan *scan, const char *word);

/* Takes a decimal number from LEAST to MOST without sign or leading zeros; after a failure LEAST. WHAT names it in the message. */
int32_t peali_scan_number(peali_scan *scan, const char *what, int32_t least, int32_t most);

/* Takes a name of lower-case letters, digits and underscores; after a failure "". */
void peali_scan_name(peali_scan *scan, const char *what, char name[PEALI_SCAN_NAME]);

/* Nothing may follow. */
void peali_scan_end(peali_scan *scan);

static inline bool peali_scan_failed(const peali_scan *scan)
{
    return scan->why[0] != '\0';
}

#endif
