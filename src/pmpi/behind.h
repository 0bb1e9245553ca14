/*
 * MPI's own calls, behind those that this library exports. On Open MPI a call of PMPI_Allreduce by name would come back here.
 */
#ifndef PEALI_BEHIND_H
#define PEALI_BEHIND_H

#include <mpi.h>

struct peali_behind {
    int (*init)(int *, char ***), (*pinit)(int *, char ***);
    int (*init_thread)(int *, char ***, int, int *), (*pinit_thread)(int *, char ***, int, int *);
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*allgather)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    int (*reduce_scatter_block)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*reduce_scatter)(const void *, void *, const int[], MPI_Datatype, MPI_Op, MPI_Comm);
    int (*bcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    int (*barrier)(MPI_Comm);
    int (*comm_idup)(MPI_Comm, MPI_Comm *, MPI_Request *);
    int (*comm_free)(MPI_Comm *), (*comm_disconnect)(MPI_Comm *);
    int (*alloc_mem)(MPI_Aint, MPI_Info, void *);
    int (*free_mem)(void *);
#if MPI_VERSION >= 4
    int (*comm_idup_with_info)(MPI_Comm, MPI_Info, MPI_Comm *, MPI_Request *);
    int (*type_get_envelope_c)(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *, int *);
    int (*allreduce_c)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*allgather_c)(const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype, MPI_Comm);
    int (*reduce_scatter_block_c)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*reduce_scatter_c)(const void *, void *, const MPI_Count[], MPI_Datatype, MPI_Op, MPI_Comm);
    int (*bcast_c)(void *, MPI_Count, MPI_Datatype, int, MPI_Comm);
    int (*reduce_c)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm);
#endif
};

/* Written before main. */
extern struct peali_behind peali_behind;

#endif
