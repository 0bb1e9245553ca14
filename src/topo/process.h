/* A process, and what has become of it, as another one of its machine sees it. */
#ifndef PEALI_PROCESS_H
#define PEALI_PROCESS_H

#include <stdint.h>

/* Plain data. All zeros: unknown. */
typedef struct peali_process {
    uint64_t space; /* of process identifiers: those of another one mean nothing */
    uint64_t id, began;
} peali_process;

/* The calling one. Threads: any. */
void peali_process_self(peali_process *process);

/* "runs", "sleeps", "is stopped", "has ended"; NULL where that cannot be known. Threads: any. */
const char *peali_process_fate(const peali_process *process);

#endif
