/* Each refusal leaves errno as the kernel set it: it is the reason that people are given. */
#include "exec/memfile.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/streams.h"

/* Growing a file past this limit is not only refused but kills the process by a signal. */
static bool allowed(size_t bytes)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur >= bytes)
        return true;
    errno = EFBIG;
    return false;
}

bool peali_memfile_open(peali_memfile *file, size_t bytes)
{
    struct stat is;
    file->fd = allowed(bytes) ? peali_above_streams(memfd_create("peal", MFD_CLOEXEC | MFD_ALLOW_SEALING)) : -1;
    if (file->fd < 0)
        return false;
    if (ftruncate(file->fd, (off_t)bytes) != 0 || fstat(file->fd, &is) != 0) {
        int reason = errno;
        close(file->fd);
        file->fd = -1;
        errno = reason;
        return false;
    }
    file->dev = is.st_dev;
    file->ino = is.st_ino;
    return true;
}

bool peali_memfile_ours(const peali_memfile *file)
{
    struct stat is;
    return file->fd >= 0 && fstat(file->fd, &is) == 0 && is.st_dev == file->dev && is.st_ino == file->ino;
}

void peali_memfile_close(peali_memfile *file)
{
    if (peali_memfile_ours(file))
        close(file->fd);
    file->fd = -1;
}

/* The room is taken first, larger than needed, so that the file can be put where it is aligned. */
void *peali_memfile_map(int fd, size_t bytes, int protection)
{
    unsigned char *room = mmap(NULL, bytes + PEALI_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)room & (PEALI_HUGE - 1);
    unsigned char *at = mmap(room + before, bytes, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) {
        int reason = errno;
        munmap(room, bytes + PEALI_HUGE);
        errno = reason;
        return NULL;
    }
    if (before)
        munmap(room, before);
    munmap(at + bytes, PEALI_HUGE - before);
    (void)madvise(at, bytes, MADV_DONTDUMP);
    return at;
}
