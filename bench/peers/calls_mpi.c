/*
 * The collectives of the MPI that this is linked with. Open MPI's algorithms are asked for by its control variables, which a
 * communicator reads when it is made: so each algorithm has a communicator of its own.
 */
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include "calls.h"

enum { ALGOS = 16 };

static const char *const variable[KINDS] = {
    [ALLREDUCE] = "coll_tuned_allreduce_algorithm", [ALLGATHER] = "coll_tuned_allgather_algorithm",
    [REDUCE_SCATTER] = "coll_tuned_reduce_scatter_block_algorithm", [BROADCAST] = "coll_tuned_bcast_algorithm",
    [REDUCE] = "coll_tuned_reduce_algorithm", [BARRIER] = "coll_tuned_barrier_algorithm",
};
static MPI_Comm comms[KINDS][ALGOS]; /* made at their first use */

void calls_start(int *argc, char ***argv, int *rank, int *nranks)
{
    int provided;
    MPI_Init(argc, argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, nranks);
    for (int i = 0; i < KINDS * ALGOS; i++)
        comms[i / ALGOS][i % ALGOS] = i % ALGOS ? MPI_COMM_NULL : MPI_COMM_WORLD;
}

void calls_end(void)
{
    MPI_T_finalize();
    MPI_Finalize();
}

const char *calls_library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = 0;
    return text;
}

int calls_algos(enum kind kind)
{
    char name[256], about[16];
    int index, n = sizeof name, m = sizeof about, verbosity, bind, scope, items = 0;
    MPI_Datatype type;
    MPI_T_enum list;
    if (!variable[kind] || MPI_T_cvar_get_index(variable[kind], &index) != MPI_SUCCESS ||
        MPI_T_cvar_get_info(index, name, &n, &verbosity, &type, &list, about, &m, &bind, &scope) != MPI_SUCCESS ||
        list == MPI_T_ENUM_NULL)
        return 0;
    n = sizeof name;
    MPI_T_enum_get_info(list, &items, name, &n);
    return items > ALGOS ? ALGOS - 1 : items - 1; /* the first is the free choice */
}

static void ask_for(enum kind kind, int algo)
{
    MPI_T_cvar_handle handle;
    int index, count;
    MPI_T_cvar_get_index(variable[kind], &index);
    MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
    MPI_T_cvar_write(handle, &algo);
    MPI_T_cvar_handle_free(&handle);
}

static MPI_Comm comm_for(const job *j)
{
    MPI_Comm *comm = &comms[j->kind][j->algo];
    if (*comm == MPI_COMM_NULL) {
        ask_for(j->kind, j->algo);
        MPI_Comm_dup(MPI_COMM_WORLD, comm);
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN); /* some algorithms refuse some numbers of ranks */
        ask_for(j->kind, 0);
    }
    return *comm;
}

bool calls_do(const job *j, const void *in, void *out)
{
    MPI_Comm comm = comm_for(j);
    MPI_Datatype type = j->max ? MPI_DOUBLE : MPI_FLOAT;
    MPI_Op op = j->max ? MPI_MAX : MPI_SUM;
    const void *from = j->inplace ? MPI_IN_PLACE : in;
    int n = (int)j->count;
    switch (j->kind) {
    case ALLREDUCE: return MPI_Allreduce(from, out, n, type, op, comm) == MPI_SUCCESS;
    case ALLGATHER: return MPI_Allgather(from, n, type, out, n, type, comm) == MPI_SUCCESS;
    case REDUCE_SCATTER: return MPI_Reduce_scatter_block(from, out, n, type, op, comm) == MPI_SUCCESS;
    case BROADCAST: return MPI_Bcast(out, n, type, 0, comm) == MPI_SUCCESS;
    case REDUCE: return MPI_Reduce(from, out, n, type, op, 0, comm) == MPI_SUCCESS;
    default: return MPI_Barrier(comm) == MPI_SUCCESS;
    }
}

const char *calls_choice(const job *j)
{
    return "-";
}

void *calls_share(size_t bytes)
{
    void *memory;
    return MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory) == MPI_SUCCESS ? memory : NULL;
}

void calls_unshare(void *memory)
{
    MPI_Free_mem(memory);
}
