/* A ring under a lock: who wants a timeline bears 30 ns for each of its entries. */
#include "exec/timeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

enum { ENTRIES = 1 << 16 }; /* of 80 bytes */

typedef struct entry {
    peali_moment moment;
    int64_t begin_ns, took_ns;
    char phase; /* of the format: b begin, e end, X both */
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static entry *ring; /* NULL: nothing is recorded */
static uint64_t count;
static int64_t ahead_ns; /* of the host's clock before peali_clock_ns */
static pid_t owner;      /* a child that ends writes none over its parent's */

static void start(void)
{
    struct timespec now;
    if (!peali_config_get()->timeline)
        return;
    ring = peali_alloc(ENTRIES, sizeof *ring);
    clock_gettime(CLOCK_REALTIME, &now);
    owner = getpid();
    ahead_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - peali_clock_ns();
    if (ring)
        (void)atexit(peali_timeline_save);
}

bool peali_timeline_on(void)
{
    if (!peali_config_get()->timeline)
        return false;
    pthread_once(&once, start);
    return ring;
}

static void add(peali_moment m, char phase, int64_t begin_ns, int64_t took_ns)
{
    pthread_mutex_lock(&lock);
    ring[count++ % ENTRIES] = (entry){m, begin_ns, took_ns, phase};
    pthread_mutex_unlock(&lock);
}

void peali_timeline_begin(peali_moment m)
{
    if (peali_timeline_on())
        add(m, 'b', peali_clock_ns(), 0);
}

void peali_timeline_end(peali_moment m)
{
    if (peali_timeline_on())
        add(m, 'e', peali_clock_ns(), 0);
}

void peali_timeline_did(peali_moment m, int64_t begin_ns)
{
    if (peali_timeline_on())
        add(m, 'X', begin_ns, peali_clock_ns() - begin_ns);
}

static void print(const entry *e, FILE *to)
{
    const peali_moment *m = &e->moment;
    const int64_t at = e->begin_ns + ahead_ns;
    fprintf(to, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":0,\"ts\":%lld.%03d,\"cat\":\"%s\",\"name\":\"%s%s%s\"", e->phase, m->rank,
            (long long)(at / 1000), (int)(at % 1000), m->what, m->what, m->how[0] ? " " : "", m->how);
    if (e->phase == 'X')
        fprintf(to, ",\"dur\":%lld.%03d", (long long)(e->took_ns / 1000), (int)(e->took_ns % 1000));
    else
        fprintf(to, ",\"id\":\"%llx\"", (unsigned long long)m->key);
    fprintf(to, ",\"args\":{\"bytes\":%llu", (unsigned long long)m->bytes);
    if (m->peer >= 0)
        fprintf(to, ",\"peer\":%d", m->peer);
    if (m->slice >= 0)
        fprintf(to, ",\"slice\":%d", m->slice);
    fprintf(to, "}},\n");
}

/* The bracket is in the file of rank 0, so that all of them, one behind the other, are one list. */
static bool save(FILE *to)
{
    const char *rank = peali_log_rank();
    if (strcmp(rank, "0") == 0 || strcmp(rank, "x") == 0)
        fprintf(to, "[\n");
    for (uint64_t i = count > ENTRIES ? count - ENTRIES : 0; i < count; i++)
        print(&ring[i % ENTRIES], to);
    return fclose(to) == 0;
}

void peali_timeline_save(void)
{
    char path[PEALI_LOG_PATH] = "";
    if (!peali_timeline_on() || getpid() != owner)
        return;
    peali_log_expand(peali_config_get()->timeline, path, sizeof path);
    pthread_mutex_lock(&lock);
    FILE *to = fopen(path, "w");
    if (!to || !save(to))
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "cannot write PEAL_TIMELINE %s: %s", path, strerror(errno));
    pthread_mutex_unlock(&lock);
}
