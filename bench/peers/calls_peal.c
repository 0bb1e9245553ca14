/* The collectives of Peal's C API, on MPI_COMM_WORLD. */
#include <stdio.h>
#include <stdlib.h>

#include <peal/mpi.h>

#include "calls.h"

static peal_comm *comm;

void calls_start(int *argc, char ***argv, int *rank, int *nranks)
{
    MPI_Init(argc, argv);
    if (peal_comm_create_mpi(MPI_COMM_WORLD, &comm) != PEAL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    *rank = peal_comm_rank(comm);
    *nranks = peal_comm_size(comm);
}

void calls_end(void)
{
    peal_comm_destroy(&comm);
    MPI_Finalize();
}

const char *calls_library(void)
{
    return "Peal " PEAL_VERSION;
}

int calls_algos(enum kind kind)
{
    return 0;
}

bool calls_do(const job *j, const void *in, void *out)
{
    peal_type type = j->max ? PEAL_DOUBLE : PEAL_FLOAT;
    peal_op op = j->max ? PEAL_MAX : PEAL_SUM;
    const void *from = j->inplace ? out : in;
    switch (j->kind) {
    case ALLREDUCE: return peal_allreduce(from, out, j->count, type, op, comm, NULL) == PEAL_OK;
    case ALLGATHER: return peal_allgather(from, out, j->count, type, comm, NULL) == PEAL_OK;
    case REDUCE_SCATTER: return peal_reduce_scatter(from, out, j->count, type, op, comm, NULL) == PEAL_OK;
    case BROADCAST: return peal_broadcast(out, j->count, type, 0, comm, NULL) == PEAL_OK;
    case REDUCE: return peal_reduce(from, out, j->count, type, op, 0, comm, NULL) == PEAL_OK;
    case BARRIER: return peal_barrier(comm, NULL) == PEAL_OK;
    default: return false;
    }
}

const char *calls_choice(const job *j)
{
    static const peal_kind kinds[] = {[ALLREDUCE] = PEAL_ALLREDUCE, [ALLGATHER] = PEAL_ALLGATHER,
        [REDUCE_SCATTER] = PEAL_REDUCE_SCATTER, [BROADCAST] = PEAL_BROADCAST, [REDUCE] = PEAL_REDUCE, [BARRIER] = PEAL_BARRIER};
    const char *name = j->kind > BARRIER ? NULL : peal_comm_choice(comm, kinds[j->kind], j->count,
                                                                  j->max ? PEAL_DOUBLE : PEAL_FLOAT, j->max ? PEAL_MAX : PEAL_SUM);
    return name ? name : "-";
}

void *calls_share(size_t bytes)
{
    return peal_mem_alloc(bytes);
}

void calls_unshare(void *memory)
{
    peal_mem_free(memory);
}
