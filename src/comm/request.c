/*
 * Requests: each communicator has one, so that starting a call allocates nothing. A thread drives all the calls that it started,
 * whichever it waits for: two ranks may wait for two communicators in different orders.
 */
#include "comm/comm_private.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

/* The calls that this thread started and that have not ended. It is the thread that is asked to wait, so it is the thread's. */
static PEALI_THREAD_LOCAL peal_request *started;

/* Since Peal was first used, between the process that did and this one. Of the process, for that is what a fork copies. */
static int forks;

/* The parent drives what it started. */
static void in_child(void)
{
    forks++;
    started = NULL;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child); /* refused: the calls of children are not found out */
}

void peali_request_own(peal_comm *comm)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    comm->forks = forks;
}

bool peali_request_owns(const peal_comm *comm)
{
    return comm->forks == forks;
}

/* Was it this thread's? */
static bool unlink_request(peal_request *request)
{
    peal_request **at = &started;
    while (*at && *at != request)
        at = &(*at)->next;
    const bool mine = *at;
    if (mine)
        *at = request->next;
    return mine;
}

peal_request *peali_request_begin(peal_comm *comm, bool runs, bool at_once)
{
    peal_request *request = &comm->request;
    *request = (peal_request){.comm = comm, .status = runs ? PEAL_IN_PROGRESS : PEAL_OK, .next = started};
    if (runs && at_once)
        request->status = peali_run_step(comm->runner);
    if (request->status == PEAL_IN_PROGRESS)
        started = request;
    return request;
}

/* Else a peer would take its messages from memory that is not there any more. */
bool peali_request_end(peal_comm *comm)
{
    const bool mine = unlink_request(&comm->request);
    if (!comm->request.comm || comm->request.status != PEAL_IN_PROGRESS)
        return true;
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, comm->rank, "peal_comm_destroy: %s number %llu is under way%s; wait for its "
              "request first", peal_kind_name(comm->kind), (unsigned long long)comm->sequence - 1,
              mine ? ", and ends here" : " in another thread: it is aborted, and the communicator's memory is kept");
    peali_runner_abort(comm->runner);
    if (mine)
        comm->request.status = peali_run_step(comm->runner);
    return mine;
}

void peali_request_drive(void)
{
    for (peal_request *at = started, *next; at; at = next) {
        next = at->next;
        at->status = peali_run_step(at->comm->runner);
        if (at->status != PEAL_IN_PROGRESS)
            (void)unlink_request(at);
    }
}

static peal_status take(peal_request **request)
{
    peal_status status = (*request)->status;
    if (status != PEAL_IN_PROGRESS) {
        (*request)->comm = NULL;
        *request = NULL;
    }
    return status;
}

static bool is_mine(const peal_request *request)
{
    const peal_request *at = started;
    while (at && at != request)
        at = at->next;
    return at;
}

static peal_status check(peal_request *const *request, const char *call)
{
    if (!request || !*request || !(*request)->comm) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "%s: request is NULL or was waited for already", call);
        return PEAL_ERR_INVALID;
    }
    if (peali_request_owns((*request)->comm)) {
        if ((*request)->status != PEAL_IN_PROGRESS || is_mine(*request))
            return PEAL_OK;
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, (*request)->comm->rank, "%s: this thread did not start the call; wait in the one "
                  "that did", call);
        return PEAL_ERR_INVALID;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, (*request)->comm->rank, "%s: process %d is a child of the one that started the call; "
              "wait there", call, (int)getpid());
    return PEAL_ERR_UNSUPPORTED;
}

peal_status peal_test(peal_request **request)
{
    peal_status status = check(request, "peal_test");
    if (status != PEAL_OK)
        return status;
    peali_request_drive();
    return take(request);
}

peal_status peali_request_finish(peal_request *request)
{
    peali_request_drive(); /* the thread's other calls too, where this one has ended in its first step, or had none */
    while (request->status == PEAL_IN_PROGRESS) {
        peali_run_rest(request->comm->runner);
        peali_request_drive();
    }
    return take(&request);
}

peal_status peal_wait(peal_request **request)
{
    peal_status status = check(request, "peal_wait");
    if (status != PEAL_OK)
        return status;
    peal_request *own = *request;
    *request = NULL;
    return peali_request_finish(own);
}
