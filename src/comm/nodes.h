/* Which ranks share a node: as the map of PEAL_NODES has it, else by their hosts. */
#ifndef PEALI_NODES_H
#define PEALI_NODES_H

#include <stddef.h>

#include <peal/status.h>

/*
 * The number of the node of process PLACE, one of PLACES, in MAP, the sizes of nodes in the order of the processes: "4+4+3". Every
 * communicator then has its ranks on the nodes of their processes.
 *
 * Returns: PEAL_OK; PEAL_ERR_CONFIG the sizes are not those of PLACES processes (logged). Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_nodes_look_up(const char *map, int place, int places, int *number);

/*
 * Numbers the nodes of N ranks, from 0 and ascending along the ranks, into NODE; how many there are. Ranks with equal names are on
 * one node; the names have BYTES each and lie STRIDE apart. Where another node's ranks lie between those of one, all ranks count as
 * one node: algorithms know of no such order. Threads: any.
 */
int peali_nodes_count(const void *names, size_t bytes, size_t stride, int n, int *node);

#endif
