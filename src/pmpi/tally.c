/*
 * Counters of the interposer. They are per process, since a program's calls are: communicators come and go, and a call that is
 * passed on may have none.
 */
#include "pmpi/tally.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/atomics.h"
#include "base/log.h"
#include "comm/comm.h"

enum { ROWS = 256 }; /* algorithms of all collectives; src/algos names far fewer */

struct row {
    peal_kind kind;
    const char *algo;
    long calls;
};

static long passed[PEAL_KIND_COUNT][PEALI_PASS_COUNT_OF]; /* relaxed: read when all calls have ended */
static struct row taken[ROWS];                                  /* under lock */
static int nrows;                                               /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const reason[PEALI_PASS_COUNT_OF] = {
    [PEALI_PASS_MPI] = "MPI not initialized or finalized",
    [PEALI_PASS_HANDLE] = "null handle",
    [PEALI_PASS_FREED] = "communicator being freed",
    [PEALI_PASS_COUNT] = "count zero or negative",
    [PEALI_PASS_OP] = "op not supported",
    [PEALI_PASS_USER_OP] = "user-defined op",
    [PEALI_PASS_TYPE] = "type not supported",
    [PEALI_PASS_PAIR] = "pair type",
    [PEALI_PASS_DERIVED] = "derived type",
    [PEALI_PASS_OP_TYPE] = "op not defined for the type",
    [PEALI_PASS_INTER] = "intercommunicator",
    [PEALI_PASS_ALONE] = "one rank",
    [PEALI_PASS_WORLDS] = "ranks that started apart",
    [PEALI_PASS_SHADOW] = "no communicator left",
    [PEALI_PASS_IDUP] = "MPI_Comm_idup before its first collective",
    [PEALI_PASS_ROOT] = "root is no rank",
    [PEALI_PASS_UNEQUAL] = "counts not all equal",
    [PEALI_PASS_LARGE] = "over 2 GiB that may need packing",
};

void peali_tally_pass(peal_kind kind, enum peali_pass why)
{
    peali_add_relaxed(&passed[kind][why], 1);
}

static struct row *find(peal_kind kind, const char *algo)
{
    for (int i = 0; i < nrows; i++)
        if (taken[i].kind == kind && strcmp(taken[i].algo, algo) == 0)
            return &taken[i];
    assert(nrows < ROWS);
    taken[nrows] = (struct row){kind, algo, 0};
    return &taken[nrows++];
}

void peali_tally_taken(const peal_comm *comm)
{
    peal_kind kind;
    const char *algo;
    long calls;
    pthread_mutex_lock(&lock);
    for (int i = 0; peali_comm_tally(comm, i, &kind, &algo, &calls); i++)
        if (calls > 0)
            find(kind, algo)->calls += calls;
    pthread_mutex_unlock(&lock);
}

static void line(int rank, peal_kind kind, const char *what, const char *detail, long calls)
{
    peali_log(PEALI_LOG_INFO, PEALI_SUB_COLL, rank, "%-15s %-9s %-33s %12ld", peal_kind_name(kind), what, detail, calls);
}

void peali_tally_report(int rank)
{
    peali_log(PEALI_LOG_INFO, PEALI_SUB_COLL, rank, "%-15s %-9s %-33s %12s", "collective", "call", "algorithm or reason", "calls");
    for (int i = 0; i < nrows; i++)
        line(rank, taken[i].kind, "taken", taken[i].algo, taken[i].calls);
    for (int kind = 0; kind < PEAL_KIND_COUNT; kind++)
        for (int why = 1; why < PEALI_PASS_COUNT_OF; why++) {
            long calls = peali_load_relaxed(&passed[kind][why]);
            if (calls > 0)
                line(rank, kind, "passed on", reason[why], calls);
        }
}
