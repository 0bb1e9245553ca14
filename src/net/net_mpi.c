/*
 * Messages over MPI point-to-point. Only PMPI_ names: libpeal_mpi itself exports some of the others, and a tool may too.
 */
#include "net/net_mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"

enum { NOBODYS_TAG = (1 << PEALI_NET_TAG_BITS) + 1 }; /* behind those of messages, and the one of comm_mpi.c */

static const int64_t CANCEL_NS = 300000000;   /* for how long, all in all, receives that MPI does not take back are waited for, */
static const int64_t RELEASE_NS = 5000000000; /* and again in the end, when their memory is given up */

struct mpi_net {
    peali_net net;
    MPI_Comm comm;
    char host[PEALI_NET_HOST];
    char (*hosts)[PEALI_NET_HOST]; /* by rank, for people */
    int64_t cancel_ns;        /* what is left of CANCEL_NS */
    MPI_Request *stuck;       /* receives that were not taken back */
    int nstuck;
    bool settled;             /* this rank has left it, and MPI writes to no memory of the caller */
    MPI_Request all_left;     /* then, in the chain of those */
    struct mpi_net *next;
};

/* A peali_net_req, as this transport fills it. */
struct __attribute__((may_alias)) request {
    MPI_Request mpi;
    uint32_t tag : 30, receives : 1, some : 1; /* some: a receive that a shorter message will do for */
    int peer;
    size_t bytes;
};
_Static_assert(sizeof(struct request) <= sizeof(((peali_net_req *)0)->word), "a request fits");

static peal_status fail(const struct mpi_net *m, const char *call, const struct request *r, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;
    PMPI_Error_string(error, text, &len);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, m->net.rank, "%s of %zu bytes %s rank %d tag %u failed: %s", call, r->bytes,
              r->receives ? "from" : "to", r->peer, r->tag, text);
    return PEAL_ERR_NET;
}

/*
 * MPI counts are int. A longer message is one element of a type made for it (one message still, so that both sides agree whatever
 * their order of progress), and lives for its call only: MPI keeps what a pending request needs.
 */
static int type_make(size_t bytes, MPI_Datatype *type)
{
    enum { PIECE = 1 << 30 };
    MPI_Datatype piece;
    int error = PMPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    if (error != MPI_SUCCESS)
        return error;
    int lens[2] = {(int)(bytes / PIECE), (int)(bytes % PIECE)};
    MPI_Aint at[2] = {0, (MPI_Aint)(bytes - bytes % PIECE)};
    MPI_Datatype of[2] = {piece, MPI_BYTE};
    error = PMPI_Type_create_struct(2, lens, at, of, type);
    PMPI_Type_free(&piece);
    return error == MPI_SUCCESS ? PMPI_Type_commit(type) : error;
}

static int post(struct mpi_net *m, void *data, struct request *r)
{
    MPI_Datatype type = MPI_BYTE;
    bool large = r->bytes > INT_MAX;
    int error = large ? type_make(r->bytes, &type) : MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        return error;
    int count = large ? 1 : (int)r->bytes;
    if (r->receives)
        error = PMPI_Irecv(data, count, type, r->peer, (int)r->tag, m->comm, &r->mpi);
    else
        error = PMPI_Isend(data, count, type, r->peer, (int)r->tag, m->comm, &r->mpi);
    if (large)
        PMPI_Type_free(&type);
    return error;
}

static peal_status mpi_send(peali_net *net, int peer, uint32_t tag, const void *data, size_t bytes, peali_net_req *req)
{
    struct mpi_net *m = (struct mpi_net *)net;
    struct request *r = (struct request *)req;
    *r = (struct request){.tag = tag, .peer = peer, .bytes = bytes};
    int error = post(m, (void *)data, r);
    return error == MPI_SUCCESS ? PEAL_OK : fail(m, "send", r, error);
}

static peal_status receive(peali_net *net, const struct request *like, void *data, peali_net_req *req)
{
    struct mpi_net *m = (struct mpi_net *)net;
    struct request *r = (struct request *)req;
    *r = *like;
    int error = post(m, data, r);
    return error == MPI_SUCCESS ? PEAL_OK : fail(m, "receive", r, error);
}

static peal_status mpi_recv(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return receive(net, &(struct request){.tag = tag, .receives = 1, .peer = peer, .bytes = bytes}, data, req);
}

static peal_status mpi_recv_some(peali_net *net, int peer, uint32_t tag, void *data, size_t bytes, peali_net_req *req)
{
    return receive(net, &(struct request){.tag = tag, .receives = 1, .some = 1, .peer = peer, .bytes = bytes}, data, req);
}

static peal_status wrong_length(const struct mpi_net *m, const struct request *r, MPI_Count got)
{
    char text[32] = "more";
    if (got >= 0)
        snprintf(text, sizeof(text), "%lld", (long long)got);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, m->net.rank,
              "message from rank %d tag %u has %s bytes, its receive %zu: make the same call with the same count on all ranks",
              r->peer, r->tag, text, r->bytes);
    return PEAL_ERR_NET;
}

/* MPI is about to end. Any thread. */
static bool ends;

/* Has it ended? Then nothing of it may be called, and its requests are gone. */
static bool is_over(void)
{
    int finalized = 0;
    if (__atomic_load_n(&ends, __ATOMIC_RELAXED))
        PMPI_Finalized(&finalized);
    return finalized;
}

static peal_status mpi_test(peali_net *net, peali_net_req *req)
{
    struct mpi_net *m = (struct mpi_net *)net;
    struct request *r = (struct request *)req;
    MPI_Status status;
    int ended, class;
    if (is_over())
        return PEAL_IN_PROGRESS;
    int error = PMPI_Test(&r->mpi, &ended, &status);
    if (error != MPI_SUCCESS) {
        PMPI_Error_class(error, &class);
        return class == MPI_ERR_TRUNCATE ? wrong_length(m, r, -1) : fail(m, r->receives ? "receive" : "send", r, error);
    }
    if (!ended)
        return PEAL_IN_PROGRESS;
    MPI_Count got;
    if (!r->receives || r->some)
        return PEAL_OK;
    error = PMPI_Get_elements_x(&status, MPI_BYTE, &got);
    if (error != MPI_SUCCESS)
        return fail(m, "receive", r, error);
    return got == (MPI_Count)r->bytes ? PEAL_OK : wrong_length(m, r, got);
}

/*
 * What does not end at once takes the time for it from *LEFT_NS; where none is left it is asked once all the same: what was taken
 * back in time has ended. MPI's own clock may be the date.
 */
static bool ends_within(MPI_Request *request, int64_t *left_ns)
{
    int ended = 0;
    PMPI_Test(request, &ended, MPI_STATUS_IGNORE);
    if (ended)
        return true;
    int64_t began_ns = peali_clock_ns();
    while (!ended && peali_clock_ns() - began_ns < *left_ns)
        PMPI_Test(request, &ended, MPI_STATUS_IGNORE);
    *left_ns -= peali_clock_ns() - began_ns;
    return ended;
}

/*
 * MPI can take back a receive, unless its message has begun to come: that ends by itself, but not over a link that is down. A send
 * it cannot: a receive of the same tag that is posted later would still meet it, and read memory that is the caller's again. So
 * the shadow of a failed call is of no more use, as net.h says.
 */
static bool mpi_cancel(peali_net *net, peali_net_req *req)
{
    struct mpi_net *m = (struct mpi_net *)net;
    struct request *r = (struct request *)req;
    int ended = 0;
    if (is_over())
        return true;
    if (!r->receives) {
        PMPI_Test(&r->mpi, &ended, MPI_STATUS_IGNORE);
        if (r->mpi != MPI_REQUEST_NULL)
            PMPI_Request_free(&r->mpi);
        return ended;
    }
    if (PMPI_Cancel(&r->mpi) != MPI_SUCCESS)
        return false;
    if (ends_within(&r->mpi, &m->cancel_ns))
        return true;
    MPI_Request *stuck = peali_realloc(m->stuck, (size_t)m->nstuck + 1, sizeof(*stuck));
    if (!stuck)
        return false; /* MPI keeps what it needs of it */
    stuck[m->nstuck++] = r->mpi;
    m->stuck = stuck;
    return false;
}

/* False where MPI may still write to memory of the caller. */
static bool release_stuck(struct mpi_net *m)
{
    int64_t left_ns = RELEASE_NS;
    int over = 0;
    while (over < m->nstuck && ends_within(&m->stuck[over], &left_ns))
        over++;
    if (over < m->nstuck)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, m->net.rank, "%d messages of a call that failed are still on their way, and MPI "
                  "writes them to its buffers when they come; end the program", m->nstuck - over);
    return over == m->nstuck;
}

static peal_status mpi_meet(peali_net *net, const void *cards, size_t stride)
{
    struct mpi_net *m = (struct mpi_net *)net;
    for (int r = 0; r < net->nranks; r++)
        memcpy(m->hosts[r], (const char *)cards + (size_t)r * stride, PEALI_NET_HOST);
    return PEAL_OK;
}

static void mpi_describe(peali_net *net, int peer, uint32_t tag, bool sends, char *text, size_t bytes)
{
    const struct mpi_net *m = (const struct mpi_net *)net;
    snprintf(text, bytes, "mpi, host %s to host %s", m->hosts[sends ? net->rank : peer], m->hosts[sends ? peer : net->rank]);
}

/*
 * A program's own messages must move while Peal waits (its peer may need them to get here), also where Peal waits for memory and
 * not for a message. Not over MPI_COMM_SELF, and not over a communicator of one rank: MPICH drives nothing but itself there. And a
 * probe that finds something drives nothing at all: where a message of a peer that is further lay there, or a question that nobody
 * receives any more, the program's stood still until ranks asked each other.
 */
static peal_status mpi_progress(peali_net *net)
{
    struct mpi_net *m = (struct mpi_net *)net;
    int found;
    if (net->nranks > 1)
        PMPI_Iprobe(MPI_ANY_SOURCE, NOBODYS_TAG, m->comm, &found, MPI_STATUS_IGNORE);
    return PEAL_OK;
}

/*
 * MPI has no flush: a send that it calls complete was handed to the network, or (where a queue was full) is held until this rank
 * calls MPI again, which it does in MPI_Finalize at the latest. So a rank that computes for long may hold up a receiver for that
 * long, but no message is lost. That is what MPI's own collectives give, whose last sends end alike. The cure, synchronous sends,
 * costs every small message a second trip; a call into MPI from here would only guess whether its queues are empty.
 */
static peal_status mpi_flush(peali_net *net)
{
    return PEAL_OK;
}

/*
 * Takes in, to throw away, what came and nobody will receive: questions of a rank that waited long for this one, the rest of a call
 * that failed. MPICH to 4.0 hands such messages to a later communicator, and from 4.1 on it does not free this one, which ends the
 * program in MPI_Finalize. False where a large one is left: its sender's memory may be gone.
 */
static bool forget_strays(struct mpi_net *m)
{
    enum { EMPTY = 2 /* probes that find nothing: the first drives MPI, the second sees what came of it */, SMALL = 2048 };
    char stray[SMALL];
    MPI_Status status;
    for (int empty = 0, found; empty < EMPTY; empty = found ? 0 : empty + 1) {
        if (PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &found, &status) != MPI_SUCCESS)
            return false;
        MPI_Count bytes = 0;
        if (found)
            PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
        if (bytes > SMALL)
            return false;
        if (found)
            PMPI_Recv(stray, SMALL, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, m->comm, MPI_STATUS_IGNORE);
    }
    return true;
}

static void net_free(struct mpi_net *m)
{
    peali_free(m->stuck);
    peali_free(m->hosts);
    peali_free(m);
}

static void comm_free(struct mpi_net *m)
{
    if (m->settled && forget_strays(m))
        PMPI_Comm_free(&m->comm);
    net_free(m);
}

/* Those that this rank has left and others perhaps not. */
static struct mpi_net *leaving;
static pthread_mutex_t leaving_lock = PTHREAD_MUTEX_INITIALIZER; /* of it; not held across a call of MPI, which may call back */

static void lasts(struct mpi_net *m)
{
    pthread_mutex_lock(&leaving_lock);
    m->next = leaving;
    leaving = m;
    pthread_mutex_unlock(&leaving_lock);
}

/* Frees what all ranks have left; those of the others that do so in *LEFT_NS, too. */
static void free_left(int64_t *left_ns)
{
    pthread_mutex_lock(&leaving_lock);
    struct mpi_net *m = leaving;
    leaving = NULL;
    pthread_mutex_unlock(&leaving_lock);
    for (struct mpi_net *next; m; m = next) {
        int over = 0;
        next = m->next;
        PMPI_Test(&m->all_left, &over, MPI_STATUS_IGNORE);
        if (over || ends_within(&m->all_left, left_ns))
            comm_free(m);
        else
            lasts(m);
    }
}

/* MPI deletes what MPI_COMM_SELF has first of all in MPI_Finalize, and still works. */
static int end(MPI_Comm comm, int key, void *value, void *extra)
{
    int64_t left_ns = RELEASE_NS;
    __atomic_store_n(&ends, true, __ATOMIC_RELAXED);
    free_left(&left_ns);
    return MPI_SUCCESS;
}

static void hear_of_end(void)
{
    int key = MPI_KEYVAL_INVALID;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &key, NULL);
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    PMPI_Comm_free_keyval(&key);
}

/*
 * A rank that is still in a call may ask those who are done with it where they are. Where such a message comes after its
 * communicator is gone, Open MPI takes it for the next one's, and loses one of that. So a communicator lasts until all ranks have
 * left it, also one that failed, which may be news to some; nobody waits for that before the end.
 */
static void mpi_destroy(peali_net *net)
{
    struct mpi_net *m = (struct mpi_net *)net;
    int64_t none_ns = 0;
    if (is_over()) {
        net_free(m);
        return;
    }
    bool told = !__atomic_load_n(&ends, __ATOMIC_RELAXED) && PMPI_Ibarrier(m->comm, &m->all_left) == MPI_SUCCESS;
    m->settled = release_stuck(m);
    if (told)
        lasts(m);
    else
        comm_free(m);
    free_left(&none_ns);
}

/* They leave theirs at once, too, and there is no memory to keep this one until they have. */
void peali_net_mpi_decline(MPI_Comm shadow)
{
    MPI_Request all_left;
    int64_t left_ns = RELEASE_NS;
    if (PMPI_Ibarrier(shadow, &all_left) == MPI_SUCCESS && ends_within(&all_left, &left_ns))
        PMPI_Comm_free(&shadow);
}

/* Not every MPI has it, Open MPI declares it in a header of its own, and a tool may answer in its place. */
static bool takes_device_memory(void)
{
    int (*query)(void);
    *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    return query && query() == 1;
}

/* The program's own calls are under no lock of Peal's. */
static bool takes_any_thread(void)
{
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    return level == MPI_THREAD_MULTIPLE;
}

peal_status peali_net_mpi_create(MPI_Comm shadow, peali_net **net)
{
    int rank, nranks;
    if (PMPI_Comm_set_errhandler(shadow, MPI_ERRORS_RETURN) != MPI_SUCCESS || PMPI_Comm_rank(shadow, &rank) != MPI_SUCCESS ||
        PMPI_Comm_size(shadow, &nranks) != MPI_SUCCESS) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, -1, "MPI refuses the communicator of Peal's messages");
        return PEAL_ERR_NET;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hear_of_end);
    struct mpi_net *m = peali_alloc(1, sizeof(*m));
    if (m)
        m->hosts = peali_alloc((size_t)nranks, sizeof(*m->hosts));
    if (!m || !m->hosts) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_NET, rank, "no memory for a transport over MPI");
        peali_free(m);
        return PEAL_ERR_MEMORY;
    }
    m->comm = shadow;
    m->cancel_ns = CANCEL_NS;
    gethostname(m->host, PEALI_NET_HOST - 1);
    m->net = (peali_net){.name = "mpi", .rank = rank, .nranks = nranks, .device_memory = takes_device_memory(), .card = m->host,
                         .card_bytes = sizeof m->host, .meet = mpi_meet, .describe = mpi_describe, .send = mpi_send,
                         .recv = mpi_recv, .recv_some = mpi_recv_some, .test = mpi_test, .cancel = mpi_cancel,
                         .progress = mpi_progress, .flush = mpi_flush, .destroy = mpi_destroy, .any_thread = takes_any_thread()};
    *net = &m->net;
    return PEAL_OK;
}
