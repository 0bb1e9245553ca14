/* What people are told at PEAL_LOG=info about how a communicator's ranks reach each other. */
#ifndef PEALI_ROUTES_H
#define PEALI_ROUTES_H

#include "comm/comm_private.h"

/*
 * Logs one line for this rank of COMM, and one for each kind of its peers, however many they are: those within reach, those on its
 * node that are not, and those on other nodes. Threads: one per COMM.
 */
void peali_routes_log(const peal_comm *comm);

#endif
