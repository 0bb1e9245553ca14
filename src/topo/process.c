/*
 * What the kernel says in /proc. Who hides the processes of others there says of none that it has ended: the identifier is asked
 * for, too; and as identifiers are used again, so is the time at which the process began.
 */
#include "topo/process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/read.h"

/* Reads the line of process ID: its state, and since when it is there. */
static bool look(uint64_t id, char *state, uint64_t *began)
{
    enum { BEGAN = 20 }; /* words from the state on, which comes behind a name in parentheses (proc(5)) */
    char path[48], line[1024];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)id);
    (void)peali_read(path, line, sizeof line);
    const char *at = strrchr(line, ')');
    for (int word = 1; at && word <= BEGAN; word++) {
        at = strchr(at, ' ');
        at += at != NULL;
        if (at && word == 1)
            *state = *at;
    }
    if (at)
        *began = strtoull(at, NULL, 10);
    return at;
}

static uint64_t space(void)
{
    struct stat is;
    return stat("/proc/self/ns/pid", &is) == 0 ? (uint64_t)is.st_ino : 0;
}

void peali_process_self(peali_process *p)
{
    char state;
    *p = (peali_process){space(), (uint64_t)getpid(), 0};
    if (!look(p->id, &state, &p->began))
        *p = (peali_process){0, 0, 0};
}

const char *peali_process_fate(const peali_process *p)
{
    char state = 'X';
    uint64_t began = p->began;
    if (p->id == 0 || p->space == 0 || p->space != space())
        return NULL;
    if (!look(p->id, &state, &began) && (kill((pid_t)p->id, 0) == 0 || errno != ESRCH))
        return NULL;
    if (began != p->began)
        return "has ended";
    switch (state) {
    case 'R': return "runs";
    case 'S':
    case 'D': return "sleeps";
    case 'T':
    case 't': return "is stopped";
    case 'Z':
    case 'X': return "has ended";
    default: return NULL;
    }
}
