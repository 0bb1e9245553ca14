/* peal_comm_create_mpi with a layout, for the interposer. */
#ifndef PEALI_COMM_MPI_H
#define PEALI_COMM_MPI_H

#include <peal/mpi.h>

#include "comm/comm.h"

PEAL_MUST_CHECK peal_status peali_comm_create_mpi(MPI_Comm mpi_comm, const peali_layout *layout, peal_comm **comm);

#endif
