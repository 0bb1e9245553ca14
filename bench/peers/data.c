/* Element i of call c and rank r is entry (i + 7 c + 17 r) mod PERIOD of one table; the table is stored repeatedly, for memcpy. */
#include "data.h"

#include <string.h>

enum { RUN = DATA_PERIOD * DATA_REPEAT };

static double entry(int k)
{
    unsigned h = (unsigned)(k % DATA_PERIOD) * 2654435761u;
    return (h ^ h >> 13) % 61;
}

static double entry_of_all(int k, int nranks, bool max)
{
    double all = entry(k);
    for (int r = 1; r < nranks; r++) {
        double v = entry(k + 17 * r);
        all = !max ? all + v : v > all ? v : all;
    }
    return all;
}

static void put(const data *d, char *table, int k, double v)
{
    float f = (float)v;
    if (d->elem == sizeof v)
        memcpy(table + (size_t)k * d->elem, &v, sizeof v);
    else
        memcpy(table + (size_t)k * d->elem, &f, sizeof f);
}

void data_make(data *d, int nranks, bool max)
{
    d->elem = max ? sizeof(double) : sizeof(float);
    for (int k = 0; k < RUN + DATA_PERIOD; k++) {
        put(d, d->give, k, entry(k));
        put(d, d->all, k, entry_of_all(k, nranks, max));
    }
}

static size_t phase(int rank, long call, size_t first)
{
    return (first + 7 * (size_t)call + (rank < 0 ? 0 : 17 * (size_t)rank)) % DATA_PERIOD;
}

void data_give(const data *d, int rank, long call, void *to, size_t count)
{
    const char *from = d->give + phase(rank, call, 0) * d->elem;
    for (size_t i = 0; i < count; i += RUN)
        memcpy((char *)to + i * d->elem, from, (count - i < RUN ? count - i : RUN) * d->elem);
}

long data_wrong(const data *d, int rank, long call, size_t first, const void *have, size_t count)
{
    const char *want = (rank < 0 ? d->all : d->give) + phase(rank, call, first) * d->elem;
    long wrong = 0;
    for (size_t i = 0; i < count; i += RUN)
        wrong += memcmp((const char *)have + i * d->elem, want, (count - i < RUN ? count - i : RUN) * d->elem) != 0;
    return wrong;
}
