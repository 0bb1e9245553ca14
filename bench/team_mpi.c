/* Ranks as MPI processes. The one file of the bench that includes mpi.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <peal/mpi.h>

#include "base/clock.h"
#include "team.h"

static void barrier(peali_team *team)
{
    PMPI_Barrier(MPI_COMM_WORLD);
}

static void max(peali_team *team, double *values, int n)
{
    PMPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

/*
 * Rank 0 tells its clock; in the quickest round trip its answer is taken to be of the middle (Cristian, "Probabilistic clock
 * synchronization", 1989). Clocks that may be one are one: those of hosts that are far apart differ by how long they have run.
 */
enum { TRIPS = 20 };

static int64_t ahead(peali_team *team)
{
    int64_t there, quickest = INT64_MAX, found = 0;
    for (int i = 0; team->rank == 0 && i < TRIPS * (team->nranks - 1); i++) {
        PMPI_Recv(NULL, 0, MPI_BYTE, 1 + i / TRIPS, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        there = peali_clock_ns();
        PMPI_Send(&there, 1, MPI_INT64_T, 1 + i / TRIPS, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; team->rank > 0 && i < TRIPS; i++) {
        int64_t start = peali_clock_ns();
        PMPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        PMPI_Recv(&there, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int64_t trip = peali_clock_ns() - start;
        if (trip < quickest) {
            quickest = trip;
            found = there - start - trip / 2;
        }
    }
    return found > quickest / 2 + 1 || -found > quickest / 2 + 1 ? found : 0;
}

static void quit(peali_team *team)
{
    fflush(NULL);
    PMPI_Abort(MPI_COMM_WORLD, 1);
}

static peal_comm *pair(peali_team *team)
{
    MPI_Comm two;
    peal_comm *comm = NULL;
    int nranks;
    PMPI_Comm_split(MPI_COMM_WORLD, team->rank / 2, team->rank, &two);
    PMPI_Comm_size(two, &nranks);
    if (nranks == 2 && peal_comm_create_mpi(two, &comm) != PEAL_OK)
        quit(team);
    PMPI_Comm_free(&two);
    return comm;
}

static MPI_Datatype mpi_type(peal_type type)
{
    const MPI_Datatype types[PEAL_TYPE_COUNT] = {
        [PEAL_INT8] = MPI_INT8_T, [PEAL_UINT8] = MPI_UINT8_T, [PEAL_INT16] = MPI_INT16_T, [PEAL_UINT16] = MPI_UINT16_T,
        [PEAL_INT32] = MPI_INT32_T, [PEAL_UINT32] = MPI_UINT32_T, [PEAL_INT64] = MPI_INT64_T, [PEAL_UINT64] = MPI_UINT64_T,
        [PEAL_BYTE] = MPI_BYTE, [PEAL_BOOL] = MPI_C_BOOL, [PEAL_FP8_E4M3] = MPI_DATATYPE_NULL,
        [PEAL_FP8_E5M2] = MPI_DATATYPE_NULL, [PEAL_FP16] = MPI_DATATYPE_NULL, [PEAL_BF16] = MPI_DATATYPE_NULL,
        [PEAL_FLOAT] = MPI_FLOAT, [PEAL_DOUBLE] = MPI_DOUBLE, [PEAL_LONG_DOUBLE] = MPI_LONG_DOUBLE,
        [PEAL_COMPLEX_FLOAT] = MPI_C_FLOAT_COMPLEX, [PEAL_COMPLEX_DOUBLE] = MPI_C_DOUBLE_COMPLEX,
        [PEAL_COMPLEX_LONG_DOUBLE] = MPI_C_LONG_DOUBLE_COMPLEX,
    };
    return types[type];
}

static MPI_Op mpi_op(peal_op op)
{
    const MPI_Op ops[PEAL_OP_COUNT] = {
        [PEAL_SUM] = MPI_SUM, [PEAL_PROD] = MPI_PROD, [PEAL_MIN] = MPI_MIN, [PEAL_MAX] = MPI_MAX, [PEAL_LAND] = MPI_LAND,
        [PEAL_LOR] = MPI_LOR, [PEAL_LXOR] = MPI_LXOR, [PEAL_BAND] = MPI_BAND, [PEAL_BOR] = MPI_BOR, [PEAL_BXOR] = MPI_BXOR,
    };
    return ops[op];
}

static bool own(peal_kind kind, const void *in, void *out, size_t count, peal_type t, peal_op o)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = mpi_type(t);
    const void *from = in ? in : MPI_IN_PLACE;
    int n = (int)count, rank;
    if (count > INT_MAX || type == MPI_DATATYPE_NULL) /* MPI has no floating-point types of 8 and 16 bits */
        return false;
    PMPI_Comm_rank(comm, &rank);
    switch (kind) {
    case PEAL_ALLREDUCE: return MPI_Allreduce(from, out, n, type, mpi_op(o), comm) == MPI_SUCCESS;
    case PEAL_ALLGATHER: return MPI_Allgather(from, n, type, out, n, type, comm) == MPI_SUCCESS;
    case PEAL_REDUCE_SCATTER: return MPI_Reduce_scatter_block(from, out, n, type, mpi_op(o), comm) == MPI_SUCCESS;
    case PEAL_BROADCAST: return MPI_Bcast(out, n, type, 0, comm) == MPI_SUCCESS;
    default: return MPI_Reduce(in || rank == 0 ? from : out, out, n, type, mpi_op(o), 0, comm) == MPI_SUCCESS;
    }
}

static const char *peer(const char *library)
{
    static const char *const known[][2] = {{"Open MPI", "openmpi"}, {"Intel", "intel"}, {"MPICH", "mpich"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(library, known[i][0]))
            return known[i][1];
    return "mpi";
}

/* The first line of what MPI says of itself. */
static const char *library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* A process that a launcher made one of many, or that nobody launched, races nobody. */
static bool alone(const char *command, int nranks, const char *version)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};
    const char *name = NULL, *meant = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !meant; i++)
        meant = getenv(name = names[i]);
    if (nranks > 1 || (meant && atoi(meant) == 1))
        return false;
    if (meant)
        fprintf(stderr, "peal %s: this process is rank 0 of 1, but its launcher meant %s (%s): that launcher belongs to another "
                        "MPI. Use the mpirun of %s.\n", command, meant, name, version);
    else
        fprintf(stderr, "peal %s: one process alone has nobody to race with. Start it by `mpirun -n 4 peal %s ...`, "
                        "or give `--threads 4` for ranks that are threads.\n", command, command);
    return true;
}

static int run(const char *command, int (*body)(peali_team *team, void *arg), void *arg)
{
    peali_team team = {.library = library(), .barrier = barrier, .max = max, .ahead = ahead,
                       .own = own, .pair = pair, .quit = quit};
    team.peer = peer(team.library);
    PMPI_Comm_rank(MPI_COMM_WORLD, &team.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &team.nranks);
    if (alone(command, team.nranks, team.library))
        return 2;
    if (peal_comm_create_mpi(MPI_COMM_WORLD, &team.comm) != PEAL_OK)
        return 1;
    int result = body(&team, arg);
    peal_comm_destroy(&team.comm);
    return result;
}

static bool any_refused(const char *command, const char *refused)
{
    int rank, first;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Allreduce(&(int){refused ? rank : INT_MAX}, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == first && *refused)
        fprintf(stderr, "peal %s: rank %d: %s\n", command, rank, refused);
    return first < INT_MAX;
}

int peali_team_mpi(const char *command, const char *refused, int (*body)(peali_team *team, void *arg), void *arg)
{
    PMPI_Init(NULL, NULL);
    int result = any_refused(command, refused) ? 2 : run(command, body, arg);
    PMPI_Finalize();
    return result;
}
