/* Messages over MPI point-to-point, on a shadow communicator. Built once per MPI, into libpeal_mpi. */
#ifndef PEALI_NET_MPI_H
#define PEALI_NET_MPI_H

#include <mpi.h>

#include "net/net.h"

/*
 * The net of the calling rank over SHADOW, which the net owns from here on and frees in destroy (unless MPI is already finalized);
 * on failure SHADOW stays the caller's. Errors of SHADOW return (MPI_ERRORS_RETURN is set here).
 *
 * Returns: PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_NET MPI refuses SHADOW.
 */
PEAL_MUST_CHECK peal_status peali_net_mpi_create(MPI_Comm shadow, peali_net **net);

/* Frees SHADOW where this rank got no net, and the others, which hear of that, destroy theirs: it waits for them 5 s at most. */
void peali_net_mpi_decline(MPI_Comm shadow);

#endif
