/*
 * What a broadcast or an allgather moves, as bytes.
 *
 * These calls want the same type signature on all ranks, not the same type: ten integers here may be one derived type there
 * (MPI 4.1, sections 6.4 and 6.7). So a type must decide nothing but how many bytes travel; what does not lie in memory as it
 * travels is packed, by each rank for itself.
 */
#ifndef PEALI_BYTES_H
#define PEALI_BYTES_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* Elements in a program's memory. */
typedef struct peali_elements {
    void *buf; /* only read where they are packed */
    long long count; /* 1 or more */
    MPI_Datatype type;
    MPI_Comm comm; /* hears of errors, such as a type that was not committed */
} peali_elements;

/* Bytes that COUNT elements of TYPE travel as, LLONG_MAX at most: equal where signatures are. Threads: any. */
long long peali_bytes_of(long long count, MPI_Datatype type);

/* True where the elements AT are known to lie in memory as they travel. Threads: any. */
bool peali_bytes_plain(const peali_elements *at);

/* The elements AT in the BYTES at PACKED (to INT_MAX), and back. MPI_SUCCESS, or an error that the handler of comm has heard of. */
int peali_bytes_pack(const peali_elements *at, void *packed, size_t bytes);
int peali_bytes_unpack(const peali_elements *at, void *packed, size_t bytes);

#endif
