/*
 * A communicator of Peal on one of MPI's: the checks, the shadow, and the bootstrap.
 *
 * Nothing here calls a collective of MPI but the split, and before it a barrier that does not block, for a rank that does not come
 * has to be told of: libpeal_mpi may be the one that answers PMPI_Allreduce and its like, and messages of Peal's own on the user's
 * communicator could meet a wildcard receive. So all that the ranks must agree on travels point to point on the shadow, with a tag
 * that no transport uses.
 */
#include <peal/mpi.h>

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/roll_mpi.h"
#include "net/net_mpi.h"

enum { TAG = 1 << PEALI_NET_TAG_BITS };

static const int64_t TAKE_BACK_NS = 100 * 1000000;

static peal_status invalid(const char *what)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "peal_comm_create_mpi: %s", what);
    return PEAL_ERR_INVALID;
}

static peal_status validate(MPI_Comm mpi_comm, peal_comm **comm)
{
    int begun, ended, inter;
    if (!comm)
        return invalid("comm is NULL: give the address of a peal_comm *");
    PMPI_Initialized(&begun);
    PMPI_Finalized(&ended);
    if (!begun || ended)
        return invalid("MPI is not running: call between MPI_Init and MPI_Finalize");
    if (mpi_comm == MPI_COMM_NULL)
        return invalid("mpi_comm is MPI_COMM_NULL: give an intracommunicator");
    if (PMPI_Comm_test_inter(mpi_comm, &inter) != MPI_SUCCESS || inter)
        return invalid("mpi_comm is not an intracommunicator: merge it first (MPI_Intercomm_merge)");
    return PEAL_OK;
}

static peal_status muster_all(MPI_Comm mpi_comm, const peali_occasion *o)
{
    char name[MPI_MAX_OBJECT_NAME] = "", text[MPI_MAX_ERROR_STRING] = "";
    int len, rank;
    MPI_Request request;
    int error = PMPI_Ibarrier(mpi_comm, &request);
    peal_status status = error == MPI_SUCCESS ? peali_roll_mpi(mpi_comm, o, &request, &error) : PEAL_OK;
    if (error == MPI_SUCCESS)
        return status;
    PMPI_Comm_rank(mpi_comm, &rank);
    PMPI_Comm_get_name(mpi_comm, name, &len);
    PMPI_Error_string(error, text, &len);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "%s on %s: a barrier of MPI's failed (%s)", o->call,
              peali_roll_mpi_name(name), text);
    return PEAL_ERR_NET;
}

/* Who comes after others gave up finds them in the first round, but not in the second. */
static peal_status call_roll(MPI_Comm mpi_comm, const peali_occasion *o, bool counted)
{
    peal_status status = PEAL_OK;
    for (int round = counted || o->endless; round < 2 && status == PEAL_OK; round++)
        status = muster_all(mpi_comm, o);
    return status;
}

/*
 * Splits, not duplicates: that would run the attribute callbacks of the program. Nor MPI_Comm_create, which takes fewer rounds: in
 * Open MPI 4.1 it hangs where several threads make communicators at once. The program's error handler is taken off meanwhile, as by
 * default it ends the program where MPI has no communicator left. MPI agrees on that among the ranks.
 */
static peal_status shadow_make(MPI_Comm mpi_comm, const peali_occasion *o, bool counted, MPI_Comm *shadow)
{
    MPI_Errhandler theirs;
    int rank, error = MPI_SUCCESS;
    PMPI_Comm_rank(mpi_comm, &rank);
    PMPI_Comm_get_errhandler(mpi_comm, &theirs);
    PMPI_Comm_set_errhandler(mpi_comm, MPI_ERRORS_RETURN);
    peal_status status = call_roll(mpi_comm, o, counted);
    if (status == PEAL_OK)
        error = PMPI_Comm_split(mpi_comm, 0, rank, shadow);
    PMPI_Comm_set_errhandler(mpi_comm, theirs);
    PMPI_Errhandler_free(&theirs);
    if (error == MPI_SUCCESS)
        return status;
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;
    PMPI_Error_string(error, text, &len);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, rank, "%s: MPI gives no communicator (%s): free some first", o->call, text);
    return PEAL_ERR_UNSUPPORTED;
}

/* What the bootstrap goes by. Once it has FAILED nothing more goes that way, as the ranks are out of step. */
typedef struct path {
    MPI_Comm shadow;
    const peali_occasion *occasion;
    const char *name;
    int rank, n;
    peal_status failed;
    bool held; /* MPI may still touch what it was given */
} path;

/* A message to a rank and one from another, in this order. */
typedef struct shifted {
    int ranks[2], error;
    MPI_Request requests[2];
} shifted;

static bool have_shifted(void *ctx)
{
    shifted *s = ctx;
    int over = 0;
    s->error = PMPI_Testall(2, s->requests, &over, MPI_STATUSES_IGNORE);
    return over || s->error != MPI_SUCCESS;
}

static void ask_nobody(void *ctx)
{
    (void)ctx; /* all have come: who is silent now would not answer */
}

static bool say_shifted(void *ctx, char text[PEALI_ROLL_BYTES])
{
    const shifted *s = ctx;
    int come = 0;
    PMPI_Request_get_status(s->requests[1], &come, MPI_STATUS_IGNORE);
    snprintf(text, PEALI_ROLL_BYTES, "all have called, but rank %d, or one that it waits for, has stopped, ended, or given up "
             "since", s->ranks[!come]);
    return true;
}

/* A message that has begun to arrive is not taken back, and who sends it may be gone. */
static bool take_back(shifted *s)
{
    int over = 0;
    if (s->requests[1] != MPI_REQUEST_NULL)
        PMPI_Cancel(&s->requests[1]);
    const int64_t begin_ns = peali_clock_ns();
    while (!over && peali_clock_ns() - begin_ns < TAKE_BACK_NS)
        if (PMPI_Testall(2, s->requests, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
    for (int i = 0; i < 2; i++)
        if (s->requests[i] != MPI_REQUEST_NULL)
            PMPI_Request_free(&s->requests[i]);
    return over;
}

/* Sends the GIVEN bytes at GIVE to the rank FAR above, and receives TAKEN at TAKE from the rank FAR below; none: no message. */
static peal_status shift(path *p, long far, const void *give, int given, void *take, int taken)
{
    shifted s = {.ranks = {given ? (int)((p->rank + far) % p->n) : MPI_PROC_NULL,
                           taken ? (int)((p->rank - far + p->n) % p->n) : MPI_PROC_NULL},
                 .requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}};
    const peali_roll roll = {.call = p->occasion->call, .name = p->name, .rank = p->rank, .nranks = p->n,
                             .patient = p->occasion->patient, .over = have_shifted, .ask = ask_nobody,
                             .missing = say_shifted, .ctx = &s};
    if (p->failed != PEAL_OK)
        return p->failed;
    s.error = PMPI_Irecv(take, taken, MPI_BYTE, s.ranks[1], TAG, p->shadow, &s.requests[1]);
    if (s.error == MPI_SUCCESS)
        s.error = PMPI_Isend(give, given, MPI_BYTE, s.ranks[0], TAG, p->shadow, &s.requests[0]);
    if (s.error == MPI_SUCCESS)
        p->failed = peali_comm_roll(&roll);
    if (s.error != MPI_SUCCESS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, p->rank, "%s: MPI could not reach rank %d or rank %d", p->occasion->call,
                  s.ranks[0], s.ranks[1]);
        p->failed = PEAL_ERR_NET;
    }
    if (p->failed != PEAL_OK)
        p->held = !take_back(&s);
    return p->failed;
}

/* The worst STATUS of any rank, which all ranks learn in log2(n) rounds; it needs no memory, which may be what is short. */
static peal_status agree(void *ctx, peal_status status)
{
    path *p = ctx;
    int worst = status, theirs;
    for (long far = 1; far < p->n; far *= 2) {
        if (shift(p, far, &worst, sizeof worst, &theirs, sizeof theirs) != PEAL_OK)
            return p->failed;
        worst = theirs < worst ? theirs : worst;
    }
    return worst;
}

/* Blocks FIRST to FIRST + BLOCKS, counted modulo the N at ALL: up to two runs of BYTES, the second one perhaps empty. */
typedef struct runs {
    char *at[2];
    int bytes[2];
} runs;

static runs runs_of(char *all, int n, int first, int blocks, size_t bytes)
{
    int begin = (first + n) % n, before = blocks < n - begin ? blocks : n - begin;
    return (runs){{all + (size_t)begin * bytes, all}, {(int)((size_t)before * bytes), (int)((size_t)(blocks - before) * bytes)}};
}

/*
 * By dissemination: in each of log2(n) rounds a rank sends the blocks that it has, which end with its own, to a rank above, and
 * those that it receives come before them.
 *
 * Source: Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997.
 */
static peal_status gather(path *p, char *all, size_t bytes)
{
    peal_status status = PEAL_OK;
    for (int have = 1, more; status == PEAL_OK && have < p->n; have += more) {
        more = have < p->n - have ? have : p->n - have;
        runs give = runs_of(all, p->n, p->rank - more + 1, more, bytes);
        runs take = runs_of(all, p->n, p->rank - have - more + 1, more, bytes);
        for (int i = 0; status == PEAL_OK && i < 2; i++)
            status = shift(p, have, give.at[i], give.bytes[i], take.at[i], take.bytes[i]);
    }
    return status;
}

/* In memory that may stay behind, as long as there is some. */
static peal_status allgather(void *ctx, const void *mine, void *all, size_t bytes)
{
    path *p = ctx;
    char *own = peali_alloc((size_t)p->n, bytes), *at = own ? own : all;
    if (bytes > 0)
        memcpy(at + (size_t)p->rank * bytes, mine, bytes);
    peal_status status = gather(p, at, bytes);
    if (own && bytes > 0)
        memcpy(all, own, (size_t)p->n * bytes);
    if (!p->held)
        peali_free(own);
    return status;
}

static peal_status create(MPI_Comm mpi_comm, const peali_occasion *o, bool counted, peal_comm **comm)
{
    path p = {.occasion = o};
    peali_net *net = NULL;
    peal_status status = validate(mpi_comm, comm);
    if (status == PEAL_OK)
        status = shadow_make(mpi_comm, o, counted, &p.shadow);
    if (status != PEAL_OK)
        return status;
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len;
    PMPI_Comm_get_name(mpi_comm, name, &len);
    PMPI_Comm_rank(p.shadow, &p.rank);
    PMPI_Comm_size(p.shadow, &p.n);
    p.name = peali_roll_mpi_name(name);
    bool have = peali_net_mpi_create(p.shadow, &net) == PEAL_OK;
    peali_bootstrap boot = {.rank = p.rank, .nranks = p.n, .threads = false, .allgather = allgather, .agree = agree, .name = name,
                            .ctx = &p};
    PMPI_Comm_rank(MPI_COMM_WORLD, &boot.place);
    PMPI_Comm_size(MPI_COMM_WORLD, &boot.places);
    status = peali_comm_create(&boot, have ? net : NULL, NULL, comm); /* which tells the other ranks */
    if (!have)
        peali_net_mpi_decline(p.shadow);
    return status;
}

peal_status peal_comm_create_mpi(MPI_Comm mpi_comm, peal_comm **comm)
{
    return create(mpi_comm, &(peali_occasion){"peal_comm_create_mpi", false, false}, false, comm);
}

peal_status peali_comm_create_counted(const void *mpi_comm, peal_comm **comm)
{
    return create(*(const MPI_Comm *)mpi_comm, &(peali_occasion){"the first collective", true, false}, true, comm);
}

void peali_comm_meet(void)
{
    MPI_Comm lobby;
    int n;
    PMPI_Comm_size(MPI_COMM_WORLD, &n);
    if (n > 1 && shadow_make(MPI_COMM_WORLD, &(peali_occasion){"MPI_Init", true, true}, false, &lobby) == PEAL_OK)
        peali_roll_mpi_meet(lobby);
}
