/*
 * The timeline of this process (PEAL_TIMELINE): calls, the arithmetic in them, and the messages of theirs and of GPUs, each from
 * its begin to its end. A file of Chrome's trace event format, which Perfetto draws. Time is that of the host's clock, so that
 * ranks of other hosts fit as well as their clocks agree. Nothing is recorded, and next to nothing done, where the variable is not
 * set.
 *
 * Source: Trace Event Format, Google, 2016 (phases X, b and e; the closing bracket may lack).
 */
#ifndef PEALI_TIMELINE_H
#define PEALI_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

/* One thing that begins and ends. Those of one rank and KEY follow each other. */
typedef struct peali_moment {
    const char *what, *how; /* constant texts: "send", and "" or of a call its algorithm's name */
    uint64_t key;
    int rank, peer;         /* PEER: -1 where there is none */
    int slice;              /* -1: of all */
    uint64_t bytes;
} peali_moment;

/* Is it recorded? Threads: any. */
bool peali_timeline_on(void);

/* M begins, or ends, now; or did from BEGIN_NS of peali_clock_ns to now. Threads: any. */
void peali_timeline_begin(peali_moment m);
void peali_timeline_end(peali_moment m);
void peali_timeline_did(peali_moment m, int64_t begin_ns);

/* Writes the file, with the entries that were recorded last: at the end of the process, and where calls fail. Threads: any. */
void peali_timeline_save(void);

#endif
