/*
 * Requests: each communicator has one, so that starting a call allocates nothing. A thread drives all the calls that it started,
 * whichever it waits for: two ranks may wait for two communicators in different orders.
 */
#include "comm/comm_private.h"

#include "base/log.h"

/* The calls that this thread started and that have not ended. It is the thread that is asked to wait, so it is the thread's. */
static _Thread_local peal_request *started;

static void unlink_request(peal_request *request)
{
    peal_request **at = &started;
    while (*at && *at != request)
        at = &(*at)->next;
    if (*at)
        *at = request->next;
}

peal_request *peali_request_begin(peal_comm *comm, bool runs)
{
    peal_request *request = &comm->request;
    *request = (peal_request){.comm = comm, .status = runs ? PEAL_IN_PROGRESS : PEAL_OK, .next = started};
    if (runs)
        started = request;
    return request;
}

void peali_request_drop(peal_comm *comm)
{
    unlink_request(&comm->request);
}

static void drive(void)
{
    for (peal_request *at = started, *next; at; at = next) {
        next = at->next;
        at->status = peali_run_step(at->comm->runner);
        if (at->status != PEAL_IN_PROGRESS)
            unlink_request(at);
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

static peal_status refuse(const char *call)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "%s: request is NULL or was waited for already", call);
    return PEAL_ERR_INVALID;
}

peal_status peal_test(peal_request **request)
{
    if (!request || !*request || !(*request)->comm)
        return refuse("peal_test");
    drive();
    return take(request);
}

peal_status peal_wait(peal_request **request)
{
    if (!request || !*request || !(*request)->comm)
        return refuse("peal_wait");
    while ((*request)->status == PEAL_IN_PROGRESS) {
        drive();
        if ((*request)->status == PEAL_IN_PROGRESS)
            peali_run_rest((*request)->comm->runner);
    }
    return take(request);
}
