/*
 * A file without a name, in memory. Programs close descriptors that are not theirs, and the number is then another file's: so it is
 * asked for its identity before anything is done by it.
 */
#ifndef PEALI_MEMFILE_H
#define PEALI_MEMFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct peali_memfile {
    int fd; /* -1: none */
    dev_t dev;
    ino_t ino;
} peali_memfile;

/* Makes one of BYTES zeros, which takes memory where it is written; false, with errno, where the kernel or a limit refuses it. */
bool peali_memfile_open(peali_memfile *file, size_t bytes);

/* Is its descriptor still its own? */
bool peali_memfile_ours(const peali_memfile *file);

void peali_memfile_close(peali_memfile *file);

/*
 * Maps the first BYTES of FD, shared and with PROT_* PROTECTION, where huge pages can hold it; NULL, with errno, where that is
 * refused. No memory is set aside for it, and it is not dumped.
 */
void *peali_memfile_map(int fd, size_t bytes, int protection);

enum { PEALI_HUGE = 2 << 20 }; /* bytes of a huge page: where pages of another size are used, alignment to it is harmless */

#endif
