/* Where Peal's descriptors may be. */
#ifndef PEALI_STREAMS_H
#define PEALI_STREAMS_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * FD, a new descriptor of this process, above those of the standard streams: a program that closed these goes on to write there,
 * which is not to go to memory, to a socket or to a file of Peal's. -1, with errno, where FD is or where there is no higher one.
 * Threads: any.
 */
static inline int peali_above_streams(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), reason = errno;
    close(fd);
    errno = reason;
    return higher;
}

#endif
