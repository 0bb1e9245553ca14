/* proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests' time behind them is in the first two. */
#include "steal.h"

#include <stdio.h>

peali_steal peali_steal_read(const char *file)
{
    enum { KINDS = 8 };
    double t[KINDS];
    peali_steal ticks = {0};
    FILE *from = fopen(file, "r");
    if (from && fscanf(from, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, t + 7) == KINDS) {
        for (int i = 0; i < KINDS; i++)
            ticks.all += t[i];
        ticks.stolen = t[KINDS - 1];
    }
    if (from)
        fclose(from);
    return ticks;
}

double peali_steal_share(peali_steal before, peali_steal after)
{
    const double all = after.all - before.all;
    return all > 0 ? (after.stolen - before.stolen) / all : 0;
}

double peali_steal_since(peali_steal before)
{
    return peali_steal_share(before, peali_steal_read("/proc/stat"));
}
