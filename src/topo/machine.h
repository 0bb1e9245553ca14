/*
 * The machine this rank runs on: which host, which cores, what caches.
 */
#ifndef PEALI_MACHINE_H
#define PEALI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/groups.h"

enum { PEALI_MACHINE_CORES = 1024 }; /* more cores than that are not told apart */

/* What a rank tells the others about where it runs; plain data, exchanged as bytes. */
typedef struct peali_place {
    uint64_t host[2];                           /* equal where ranks can share memory and find each other, different elsewhere */
    uint64_t machine;                           /* equal on one machine, however it is divided into hosts */
    uint64_t cores[PEALI_MACHINE_CORES / 64];   /* cores that this process may run on */
} peali_place;

/* Where the calling process runs. Threads: any. */
void peali_machine_place(peali_place *place);

/* How many cores each of those of N ranks has that run on the machine of rank ME; 0: not one. Places lie STRIDE bytes apart. */
int peali_machine_share(const peali_place *places, size_t stride, int n, int me);

/*
 * Where PLACE, of this host, is among the objects of each level: -1 where its cores lie in more than one, and at all levels
 * without hwloc. The first call in a process takes tens of milliseconds. Threads: any.
 */
void peali_machine_seat(const peali_place *place, peali_seat *seat);

/* How many objects of LEVEL this host has; 0: unknown. Threads: any. */
int peali_machine_objects(int level);

/* Bytes of all last-level caches of this host, SIZE_MAX where that is not known. Its first call costs as peali_machine_seat's. */
size_t peali_machine_cache(void);

/*
 * Is memory that another core has read lately written anew in less time if that core has written to it, too, and so taken it over?
 * Between two cores of EPYC 9004 that share their L3, a copy of 128 KiB to where the other had read took 14.9 us, and 3.2 us where
 * that had written a byte of each line, which took it 2.3 us. On Xeons it only costs time (2 cores of one mesh: 26 us, then 35).
 */
bool peali_machine_takes_over(void);

/* One line for people: processor, cores, packages, NUMA nodes, last-level cache, memory. Returns BUF. */
const char *peali_machine_describe(char *buf, size_t bytes);

#endif
