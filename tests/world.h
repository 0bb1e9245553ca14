/* The processes that mpirun started as the ranks of communicators with any layout, for tests. */
#ifndef WORLD_H
#define WORLD_H

#include <stdlib.h>

#include <mpi.h>

#include "comm/comm.h"
#include "net/net_mpi.h"

static int world_rank, world_size;

static inline void world_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

static inline peal_status world_gather(void *ctx, const void *mine, void *all, size_t bytes)
{
    int error = MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm *)ctx);
    return error == MPI_SUCCESS ? PEAL_OK : PEAL_ERR_NET;
}

static inline peal_status world_agree(void *ctx, peal_status status)
{
    int mine = status, worst;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MIN, *(MPI_Comm *)ctx);
    return (peal_status)worst;
}

/* A communicator in LAYOUT of the first N processes, in the order of KEY; NULL in *COMM elsewhere. Collective over all. */
static inline peal_status world_comm(const peali_layout *layout, int n, int key, peal_comm **comm)
{
    MPI_Comm shadow;
    peali_net *net = NULL;
    int rank;
    *comm = NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < n ? 0 : MPI_UNDEFINED, key, &shadow);
    if (world_rank >= n)
        return PEAL_OK;
    MPI_Comm_rank(shadow, &rank);
    if (peali_net_mpi_create(shadow, &net) != PEAL_OK)
        exit(2);
    const peali_bootstrap boot = {.rank = rank, .nranks = n, .place = rank, .places = n, .allgather = world_gather,
                                  .agree = world_agree, .ctx = &shadow};
    return peali_comm_create(&boot, net, layout, comm);
}

/* Is it so on all ranks? */
static inline int world_all(int so)
{
    int all;
    MPI_Allreduce(&so, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all;
}

#endif
