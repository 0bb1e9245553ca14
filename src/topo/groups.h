/*
 * The levels inside a host, and the groups into which one of them divides its ranks: the nodes of algorithms in levels.
 */
#ifndef PEALI_GROUPS_H
#define PEALI_GROUPS_H

#include <stddef.h>
#include <stdint.h>

/* Outermost first; the last two divide ranks only where a user names them. */
enum { PEALI_SOCKET, PEALI_NUMA, PEALI_L3, PEALI_L2, PEALI_CORE, PEALI_LEVELS };

/* Where a rank is bound inside its host; plain data, exchanged as bytes. */
typedef struct peali_seat {
    int32_t in[PEALI_LEVELS]; /* the number of the object that has all its cores; -1: none */
} peali_seat;

/* "socket", "numa", "l3", "l2" or "core": as PEAL_LEVEL takes them. */
const char *peali_level_name(int level);

/*
 * Numbers the groups of N ranks, from 0 and ascending along the ranks, into GROUP; how many there are. Ranks with equal names are
 * in one group; the names have BYTES each and lie STRIDE apart. Where another group's ranks lie between those of one, all ranks
 * count as one group: algorithms know of no such order. Threads: any.
 */
int peali_groups_number(const void *names, size_t bytes, size_t stride, int n, int *group);

/*
 * The level that divides N ranks of one host into 2 to N/2 groups: the one that WANTED names, else (NULL) the first of socket, NUMA
 * and L3. Numbers them into GROUP. -1 where there is none; then all ranks are in group 0. Threads: any.
 */
int peali_groups_find(const peali_seat *seats, int n, const char *wanted, int *group);

#endif
