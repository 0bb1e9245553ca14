/*
 * Rank 0 looks at every rank's line and writes the time to start into one line that all read: that takes microseconds with many
 * ranks, but nobody is timed meanwhile. The start lies far enough ahead that all have read it.
 */
#include "meet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"

enum { PATIENCE = 4096 }; /* looks before a rank lets others have its core: ranks may outnumber cores */

struct place {
    _Alignas(64) long round; /* arrive (release, acquire): what a rank noted is there when rank 0 has seen it */
    long wrong;
    _Alignas(64) double us[MEET_CALLS];
};

struct page {
    _Alignas(64) int64_t start; /* negative: enough. leave (release, acquire): what any rank noted is there when this has changed */
    struct place places[];
};

struct meet {
    struct page *page;
    int rank, nranks;
    int64_t start; /* the last one, as it stood in the page */
};

meet *meet_open(const char *path, int rank, int nranks)
{
    size_t bytes = sizeof(struct page) + (size_t)nranks * sizeof(struct place);
    struct stat is;
    meet *m = malloc(sizeof *m);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (!m || fd < 0 || fstat(fd, &is) != 0 || (size_t)is.st_size < bytes)
        return NULL;
    *m = (meet){mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), rank, nranks, 0};
    close(fd);
    return m->page == MAP_FAILED ? NULL : m;
}

static void rest(int *looks)
{
    peali_clock_pause();
    if (++*looks > PATIENCE)
        peali_clock_yield();
}

static void lead(meet *m, long round, bool enough)
{
    int looks = 0;
    for (int r = 1; r < m->nranks; r++)
        while (peali_load_acquire(&m->page->places[r].round) != round) /* arrive */
            rest(&looks);
    int64_t start = peali_clock_ns() + 1000 + 100 * m->nranks;
    peali_store_release(&m->page->start, enough ? -start : start); /* leave */
}

int64_t meet_start(meet *m, bool enough)
{
    struct place *mine = &m->page->places[m->rank];
    int looks = 0;
    int64_t start;
    peali_store_release(&mine->round, mine->round + 1); /* arrive */
    if (m->rank == 0)
        lead(m, mine->round, enough);
    while ((start = peali_load_acquire(&m->page->start)) == m->start) /* leave */
        rest(&looks);
    m->start = start;
    while (peali_clock_ns() < start)
        ;
    return start < 0 ? 0 : start;
}

void meet_note(meet *m, int call, double us, long wrong)
{
    m->page->places[m->rank].us[call] = us;
    m->page->places[m->rank].wrong += wrong;
}

double meet_slowest(const meet *m, int call)
{
    double most = 0;
    for (int r = 0; r < m->nranks; r++)
        most = m->page->places[r].us[call] > most ? m->page->places[r].us[call] : most;
    return most;
}

long meet_wrong(const meet *m)
{
    long all = 0;
    for (int r = 0; r < m->nranks; r++)
        all += m->page->places[r].wrong;
    return all;
}
