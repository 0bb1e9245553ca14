/* What people are told about how a communicator's ranks reach each other. */
#ifndef PEALI_ROUTES_H
#define PEALI_ROUTES_H

#include "comm/comm_private.h"

/*
 * At PEAL_LOG=info, logs one line for this rank of COMM, and one for each kind of its peers, however many they are: those within
 * reach, those on its node that are not, and those on other nodes. Threads: one per COMM.
 */
void peali_routes_log(const peal_comm *comm);

/* Warns of slow links of this host, where COMM's messages take them: one rank of a host does, once. Threads: one per COMM. */
void peali_routes_warn(const peal_comm *comm);

#endif
