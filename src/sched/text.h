/*
 * Schedules as text, one operation a line:
 *
 *     schedule rank 0 of 4 blocks 4
 *     0 copy out[0:4) from in
 *     1 send out[0:1) to 1
 *     2 recv tmp0[3:4) from 3
 *     3 reduce out[3:4) with tmp0
 *     end
 *
 * tmp0' is the part of slot 0 after a wrap; " lane 2" ends an operation on another lane than 0. There is one text for each
 * schedule: what is read is printed as the same bytes.
 */
#ifndef PEALI_TEXT_H
#define PEALI_TEXT_H

#include <stdio.h>

#include "base/scan.h"
#include "sched/sched.h"

/* Writes SCHED to TO; errors of the stream stay there (ferror). */
void peali_sched_print(const peal_sched *sched, FILE *to);

/*
 * Reads one schedule, the whole text: *OUT is freed with peali_sched_free. Takes only what an algorithm could have written: ranges
 * within the blocks and not empty, peers among the ranks, no writes to IN. Memory: at most 4 times the text, and 1 KiB.
 *
 * Returns: PEAL_OK; PEAL_ERR_INVALID, and WHY (PEALI_SCAN_WHY bytes) says line and cause, nothing is logged; PEAL_ERR_MEMORY.
 * Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_sched_read(const char *text, size_t length, peal_sched **out, char *why);

/* Names of buffers: in, out, tmp4, tmp4'. Reading wants one to come next; after a failure PEAL_BUF_IN. */
void peali_text_buffer(int buf, FILE *to);
int16_t peali_text_read_buffer(peali_scan *scan);

#endif
