/*
 * Who is missing where Peal has no communicator yet can be asked only on one that all have made before: the lobby. Who waits for
 * long asks all ranks of the roll there, and hears of those that wait in it, too, or in another one. Words are messages of no
 * bytes, whose tags say all: no buffer waits for a rank that listens late, or never.
 */
#include "comm/roll_mpi.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/ranks.h"
#include "net/net.h"

/* A tag: what is said, and of which roll. All MPIs have as many bits, as the transport needs them. */
typedef enum word { NOTHING, ASKS, IS_HERE, IS_ELSEWHERE, WORDS } word;
enum { KEYS = (1 << PEALI_NET_TAG_BITS) / WORDS };

/* Between two times; who waits for less than the first has nothing to do with all this. The second: for answers. */
static const int64_t LISTEN_NS = 50 * 1000000, HEAR_NS = 5 * 1000000;

/* A roll that this process waits in. */
typedef struct mpi_roll {
    MPI_Comm comm;
    const char *name;
    int n, nworld;
    MPI_Request *request;
    int *error;
    int64_t listened_ns;
    bool asked;
    bool shut;            /* it cannot be heard of: of ranks that did not start together, or there is no memory */
    int32_t *world;       /* of each rank; NULL: it has not waited for long */
    unsigned char *heard; /* of each rank that was started, the last answer, or NOTHING */
    int key;
    struct mpi_roll *next;
} mpi_roll;

static MPI_Comm lobby = MPI_COMM_NULL; /* written at MPI's start */
static mpi_roll *rolls;                /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void peali_roll_mpi_meet(MPI_Comm made)
{
    lobby = made;
}

const char *peali_roll_mpi_name(const char *name)
{
    return name[0] ? name : "a communicator without a name";
}

bool peali_roll_mpi_world(MPI_Comm comm, int nranks, int32_t *world)
{
    enum { AT_ONCE = 256 };
    int here[AT_ONCE], there[AT_ONCE];
    bool all = true;
    MPI_Group group, started;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &started);
    for (int r = 0, n; r < nranks && all; r += n) {
        for (n = 0; n < AT_ONCE && r + n < nranks; n++)
            here[n] = r + n;
        PMPI_Group_translate_ranks(group, n, here, started, there);
        for (int i = 0; i < n; i++)
            all &= there[i] != MPI_UNDEFINED;
        if (world)
            memcpy(world + r, there, (size_t)n * sizeof *world);
    }
    PMPI_Group_free(&group);
    PMPI_Group_free(&started);
    return all;
}

/* FNV-1a: the same where ranks and name are. */
static int key_of(const mpi_roll *r)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < r->n; i++)
        h = (h ^ (uint64_t)r->world[i]) * 0x100000001b3u;
    for (const char *c = r->name; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    return (int)((h ^ h >> 32) % KEYS);
}

static void enter(mpi_roll *r)
{
    PMPI_Comm_size(MPI_COMM_WORLD, &r->nworld);
    r->world = peali_alloc((size_t)r->n, sizeof *r->world);
    r->heard = peali_alloc((size_t)r->nworld, 1);
    r->shut = !r->world || !r->heard || !peali_roll_mpi_world(r->comm, r->n, r->world);
    if (r->shut)
        return;
    r->key = key_of(r);
    pthread_mutex_lock(&lock);
    r->next = rolls;
    rolls = r;
    pthread_mutex_unlock(&lock);
}

static void leave(mpi_roll *r)
{
    pthread_mutex_lock(&lock);
    mpi_roll **at = &rolls;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    pthread_mutex_unlock(&lock);
    peali_free(r->world);
    peali_free(r->heard);
}

/* To a rank that no message has gone to before this may take until it listens to MPI at all: nobody waits for it. */
static void tell(int rank, word w, int key)
{
    MPI_Request request;
    if (PMPI_Isend(NULL, 0, MPI_BYTE, rank, key * WORDS + (int)w, lobby, &request) == MPI_SUCCESS)
        PMPI_Request_free(&request);
}

/* Who asked may be gone, when that is heard. */
static void hear(int rank, word w, int key)
{
    bool here = false;
    pthread_mutex_lock(&lock);
    const bool waits = rolls != NULL;
    for (mpi_roll *r = rolls; r; r = r->next) {
        if (r->key != key)
            continue;
        here = true;
        if (w != ASKS)
            r->heard[rank] = (unsigned char)w;
    }
    pthread_mutex_unlock(&lock);
    if (w == ASKS && waits)
        tell(rank, here ? IS_HERE : IS_ELSEWHERE, key);
}

static void listen(void)
{
    enum { EMPTY = 2 }; /* the first look drives MPI, the second sees what came of it */
    for (int empty = 0, found = 0; empty < EMPTY; empty = found ? 0 : empty + 1) {
        MPI_Message message;
        MPI_Status status;
        int error = PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, lobby, &found, &message, &status);
        if (error != MPI_SUCCESS)
            return;
        if (!found)
            continue;
        PMPI_Mrecv(NULL, 0, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        hear(status.MPI_SOURCE, (word)(status.MPI_TAG % WORDS), status.MPI_TAG / WORDS);
    }
}

static bool over(void *ctx)
{
    mpi_roll *r = ctx;
    int over = 0;
    *r->error = PMPI_Test(r->request, &over, MPI_STATUS_IGNORE);
    if (over || *r->error != MPI_SUCCESS)
        return true;
    if (lobby == MPI_COMM_NULL || r->shut || peali_clock_ns() - r->listened_ns < (r->asked ? HEAR_NS : LISTEN_NS))
        return false;
    if (!r->world)
        enter(r);
    if (!r->shut)
        listen();
    r->listened_ns = peali_clock_ns();
    return false;
}

static void ask(void *ctx)
{
    mpi_roll *r = ctx;
    int me;
    PMPI_Comm_rank(MPI_COMM_WORLD, &me);
    r->asked = r->world && !r->shut;
    pthread_mutex_lock(&lock);
    if (r->asked)
        memset(r->heard, NOTHING, (size_t)r->nworld); /* they may have gone on */
    pthread_mutex_unlock(&lock);
    for (int i = 0; r->asked && i < r->n; i++)
        if (r->world[i] != me)
            tell(r->world[i], ASKS, r->key);
}

/* Those whose last answer is W, this rank apart. */
static peali_ranks those(const mpi_roll *r, word w)
{
    int me;
    bool same = true;
    PMPI_Comm_rank(r->comm, &me);
    for (int i = 0; i < r->n; i++)
        same &= r->world[i] == i;
    peali_ranks found = {.world = same ? NULL : r->world};
    for (int i = 0; i < r->n; i++)
        if (i != me && r->heard[r->world[i]] == w)
            peali_ranks_put(&found, i);
    return found;
}

static bool missing(void *ctx, char text[PEALI_ROLL_BYTES])
{
    const mpi_roll *r = ctx;
    if (!r->asked)
        return false;
    pthread_mutex_lock(&lock);
    peali_ranks silent = those(r, NOTHING), elsewhere = those(r, IS_ELSEWHERE);
    pthread_mutex_unlock(&lock);
    size_t at = 0;
    if (silent.n > 0)
        at = (size_t)snprintf(text, PEALI_ROLL_BYTES, "no word from rank%s %s; not called there yet, or gave up?",
                              silent.n > 1 ? "s" : "", peali_ranks_end(&silent));
    if (elsewhere.n > 0)
        snprintf(text + at, PEALI_ROLL_BYTES - at, "%srank%s %s: in the first call on a communicator of other ranks or name",
                 at > 0 ? " " : "", elsewhere.n > 1 ? "s" : "", peali_ranks_end(&elsewhere));
    if (silent.n + elsewhere.n == 0)
        snprintf(text, PEALI_ROLL_BYTES, "all of them are in the first call on one of these ranks and name, but not on the same");
    return true;
}

peal_status peali_roll_mpi(MPI_Comm comm, const peali_occasion *o, MPI_Request *request, int *error)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len;
    mpi_roll m = {.comm = comm, .name = name, .request = request, .error = error, .listened_ns = peali_clock_ns()};
    peali_roll roll = {.call = o->call, .patient = o->patient, .endless = o->endless, .over = over, .ask = ask,
                       .missing = missing, .ctx = &m};
    PMPI_Comm_rank(comm, &roll.rank);
    PMPI_Comm_size(comm, &roll.nranks);
    PMPI_Comm_get_name(comm, name, &len);
    roll.name = peali_roll_mpi_name(name);
    m.n = roll.nranks;
    peal_status status = peali_comm_roll(&roll);
    leave(&m);
    return status;
}

void peali_roll_mpi_leave(void)
{
    if (lobby != MPI_COMM_NULL)
        listen();
    lobby = MPI_COMM_NULL;
}
