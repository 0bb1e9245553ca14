/*
 * Device memory of a program whose MPI knows nothing of it. Each rank stages for itself, so ranks may mix: a buffer that is a
 * device's has a shadow in host memory for the time of the call.
 */
#ifndef PEALI_STAGE_H
#define PEALI_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "pmpi/attach.h"
#include "pmpi/bytes.h"

enum { PEALI_STAGE_READ = 1, PEALI_STAGE_WRITTEN = 2 };

typedef struct peali_shadow {
    char *user, *host;
    size_t bytes;
    int use;
} peali_shadow;

typedef struct peali_stage {
    peal_comm *comm;
    const void *device[2]; /* those of the call's buffers that are a device's */
    int n;
    int error; /* of MPI: a buffer is no memory, a copy failed, or there was no memory */
    peali_shadow shadows[2]; /* N of them are */
} peali_stage;

/*
 * STAGE is that of a call on COMM with these two buffers, each of which is looked at by itself; what is freed memory of a device is
 * an error (logged). Where elements begin in memory is where their type says.
 */
void peali_stage_begin(peali_stage *stage, peal_comm *comm, const void *send, const void *recv);
const void *peali_stage_first(const peali_elements *at);

/* What the call uses for the BYTES at BUF: BUF, or its shadow. The same shadow where BUF is the same. */
void *peali_stage_buffer(peali_stage *stage, const void *buf, size_t bytes, int use);

/* Likewise for COPIES times the elements AT, whatever their type: it gets another buffer. */
void peali_stage_elements(peali_stage *stage, peali_elements *at, int copies, int use);

/* Copies back what was written, where the call went well, and ends all shadows. Returns ERROR, or why that failed. */
int peali_stage_end(peali_stage *stage, int error);

#endif
