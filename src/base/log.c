/*
 * A line is put together here and leaves in one write, so that the lines of many ranks never mix on one pipe or file.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/streams.h"

enum { LINE = 2048 }; /* below PIPE_BUF: one write to a pipe stays whole */

/* Opened at the first line and never closed: a line may come from any thread up to the end of the process. */
static int file = STDERR_FILENO;
static struct stat file_is; /* written with FILE, before any line */
static pthread_once_t opened = PTHREAD_ONCE_INIT;

bool peali_log_on(enum peali_log_level level, enum peali_log_subsys subsys)
{
    const peali_config *c = peali_config_get();
    return level == PEALI_LOG_WARN || (level <= (enum peali_log_level)c->log_level && (c->log_subsys >> subsys & 1));
}

/* The file is opened before any communicator exists, and serves all of them. */
const char *peali_log_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return getenv(names[i]);
    return "x";
}

void peali_log_expand(const char *pattern, char *path, size_t room)
{
    char host[256] = "", pid[24];
    gethostname(host, sizeof(host) - 1);
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    size_t len = 0;
    for (const char *p = pattern; *p && len < room; p++) {
        const char *text = p[0] != '%' ? NULL : p[1] == 'h' ? host : p[1] == 'p' ? pid : p[1] == 'r' ? peali_log_rank() : NULL;
        len += (size_t)(text ? snprintf(path + len, room - len, "%s", text) : snprintf(path + len, room - len, "%c", *p));
        p += text != NULL;
    }
}

static bool put(int fd, const char *line, size_t len)
{
    ssize_t took;
    while ((took = write(fd, line, len)) < 0 && errno == EINTR)
        continue;
    return took == (ssize_t)len;
}

static void open_file(void)
{
    const char *pattern = peali_config_get()->log_file;
    if (!pattern)
        return;
    char path[PEALI_LOG_PATH] = "", line[2 * LINE];
    peali_log_expand(pattern, path, sizeof(path));
    int fd = peali_above_streams(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (fd >= 0 && fstat(fd, &file_is) == 0) {
        file = fd;
        return;
    }
    int len = snprintf(line, sizeof(line), "[peal] warn: cannot open PEAL_LOG_FILE %s: %s; logging to stderr\n", path,
                       strerror(errno));
    (void)put(STDERR_FILENO, line, (size_t)len);
}

/* Programs close descriptors that are not theirs, and the number is then that of a file of their own. */
static int where(void)
{
    struct stat is;
    bool ours = fstat(file, &is) == 0 && is.st_dev == file_is.st_dev && is.st_ino == file_is.st_ino;
    return file == STDERR_FILENO || ours ? file : STDERR_FILENO;
}

/* Room left at LEN of a line: its end is kept for the newline. */
static size_t room(size_t len)
{
    return len < LINE - 1 ? LINE - 1 - len : 0;
}

void peali_log(enum peali_log_level level, enum peali_log_subsys subsys, int rank, const char *format, ...)
{
    static const char *const names[] = {"warn", "info", "debug", "trace"};
    if (!peali_log_on(level, subsys))
        return;
    int kept = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* whoever logs may hold a lock */
    pthread_once(&opened, open_file);
    char line[LINE];
    size_t len = (size_t)snprintf(line, LINE, "[peal] %s", names[level]);
    if (rank >= 0)
        len += (size_t)snprintf(line + len, room(len), " rank %d", rank);
    len += (size_t)snprintf(line + len, room(len), ": ");
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + len, room(len), format, args);
    va_end(args);
    if (more > 0)
        len += (size_t)more;
    if (len > LINE - 2) {
        len = LINE - 2;
        memcpy(line + len - 3, "...", 3);
    }
    for (size_t i = 0; i < len; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[len++] = '\n';
    int fd = where();
    if (!put(fd, line, len) && fd != STDERR_FILENO) /* a full disk */
        (void)put(STDERR_FILENO, line, len);
    pthread_setcancelstate(cancel, &(int){0});
    errno = kept;
}
