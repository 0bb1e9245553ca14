/* Which ranks share a node, as the map of PEAL_NODES has it. */
#ifndef PEALI_NODES_H
#define PEALI_NODES_H

#include <peal/status.h>

/*
 * The number of the node of process PLACE, one of PLACES, in MAP, the sizes of nodes in the order of the processes: "4+4+3". Every
 * communicator then has its ranks on the nodes of their processes.
 *
 * Returns: PEAL_OK; PEAL_ERR_CONFIG the sizes are not those of PLACES processes (logged). Threads: any.
 */
PEAL_MUST_CHECK peal_status peali_nodes_look_up(const char *map, int place, int places, int *number);

#endif
