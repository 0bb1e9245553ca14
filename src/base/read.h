/* Small files of the kernel. */
#ifndef PEALI_READ_H
#define PEALI_READ_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/*
 * The first BYTES - 1 of the file at PATH, and a 0 behind them. False, and an empty text: there is no such file, or nothing in it.
 * Allocates nothing: malloc itself asks it. Threads: any.
 */
static inline bool peali_read(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, bytes - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

#endif
