/*
 * Steal: what the host of a virtual machine keeps back of its cores' time, as it serves others with them. Ranks that wait for each
 * other wait for each core that is away: with 0.5 % for much more than that, and with 2 to 9 % calls took 2 to 6 times as long
 * (bench/results/cluster-namespaces).
 */
#ifndef PEALI_STEAL_H
#define PEALI_STEAL_H

/* Ticks since the machine began, of all its cores together. */
typedef struct peali_steal {
    double all, stolen;
} peali_steal;

/* As FILE has them: /proc/stat; all 0 where it has none. */
peali_steal peali_steal_read(const char *file);

/* The part of all time between the two that was stolen, 0 to 1; 0 where nobody knows. */
double peali_steal_share(peali_steal before, peali_steal after);

/* The same until now. */
double peali_steal_since(peali_steal before);

#endif
