/* What went wrong with calls on device memory: a kernel's numbers become words, once, and a status that stays. */
#include "comm/device.h"

#include <stdio.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"

static const int64_t PATIENT_NS = 60 * INT64_C(1000000000);

/* From here on calls fail with STATUS, and kernels that wait leave. The lock is held. */
static void fail(peali_device *d, peal_status status)
{
    peali_net_failed(d->comm->net, status); /* who sees the failure may make the next communicator at once */
    for (int i = 1; i < d->nnets; i++)
        peali_net_failed(d->nets[i], status);
    peali_store_release(&d->failure, (int)status); /* pairs with peali_device_ask */
    peali_team_abort(d->team);
}

/* Nobody is late who came and calls alike: then what was lost is between GPUs. */
static bool names_one(const peali_device *d, const peali_cuda_report *r)
{
    return r->rank < (uint32_t)d->comm->reach.nranks;
}

static void say_quarrel(peali_device *d, const peali_quarrel *q)
{
    peali_run_say_quarrel(d->comm->runner, q);
    fail(d, peali_quarrel_status(q));
}

/* Ranks of other nodes, too. Another one may have left its call, and hears of it now. */
static void tell_all(const peali_device *d, const peali_quarrel *q)
{
    peali_runner_tell(d->comm->runner, q);
    if (d->proxy)
        peali_proxy_tell(d->proxy, &(peali_proxy_word){peali_quarrel_status(q), *q});
}

/* That this rank's call failed, which is all it knows, and has been said here. */
static void fail_alone(peali_device *d, peal_status status, const peali_signature *mine)
{
    tell_all(d, &(peali_quarrel){.one = *mine, .one_rank = d->comm->rank, .other_rank = status});
    fail(d, status);
}

/* As a call on host memory did, or by an abort. Who waits for a GPU elsewhere was not there to be told. */
static void fail_as_host(peali_device *d, peal_status status)
{
    peali_quarrel q;
    if (d->proxy && peali_runner_quarrel(d->comm->runner, &q))
        peali_proxy_tell(d->proxy, &(peali_proxy_word){peali_quarrel_status(&q), q});
    fail(d, status);
}

/* Found by this rank. */
static void begin_quarrel(peali_device *d, const peali_quarrel *q)
{
    tell_all(d, q);
    say_quarrel(d, q);
}

/* The same calls are done in different ways where ranks were told so. */
static void say_differs(peali_device *d, const peali_cuda_report *r)
{
    peali_ledger_call mine = {.how = ""}, its;
    bool known = peali_ledger_read(d->mine, r->mine, &mine) & peali_ledger_read(d->ledgers[r->rank], r->its, &its);
    if (known && !peali_signature_alike(&mine.call, &its.call)) {
        begin_quarrel(d, &(peali_quarrel){mine.call, its.call, d->comm->rank, d->comm->near[r->rank]});
        return;
    }
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, d->comm->rank,
              "calls on device memory differ: rank %d made one with signature %08x (%s), rank %d one with %08x (%s); make the same "
              "calls, forced algorithms and limits of CTAs alike, in the same order on all ranks", d->comm->rank, r->mine,
              known ? mine.how : "forgotten", d->comm->near[r->rank], r->its, known ? its.how : "forgotten");
    fail_alone(d, PEAL_ERR_MISMATCH, &mine.call);
}

/* What rank X called last, as far as it shows. */
static const char *last_call(const peali_device *d, uint32_t x, char *buf)
{
    peali_signature call;
    if (!peali_runner_shown(d->comm->runner, (int32_t)x, &call))
        return "none";
    return peali_signature_words(&call, buf);
}

/* Into WHO: for whom the kernel of R waits, or for what. */
static void find_late(const peali_device *d, const peali_cuda_report *r, char *who, size_t bytes)
{
    char theirs[PEALI_SIGNATURE_TEXT], way[256];
    int32_t peer = d->proxy && !names_one(d, r) ? peali_proxy_waits(d->proxy, way, sizeof way) : -1;
    if (names_one(d, r))
        snprintf(who, bytes, "rank %d, which has not come; its last call: %s", d->comm->near[r->rank],
                 last_call(d, r->rank, theirs));
    else if (peer >= 0)
        snprintf(who, bytes, "a message from rank %d%s%s", peer, way[0] ? " by " : "", way);
    else
        snprintf(who, bytes, "data, though all ranks have come");
}

static void say_late(const peali_device *d, const peali_cuda_report *r)
{
    char mine[PEALI_SIGNATURE_TEXT] = "a call", who[512];
    peali_ledger_call call = {.how = "forgotten"};
    if (peali_ledger_read(d->mine, r->mine, &call))
        peali_signature_words(&call.call, mine);
    find_late(d, r, who, sizeof who);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, d->comm->rank, "%s (%s) waits in slice %u of lane %u, operation %u, slot %u for %s",
              mine, call.how, r->epoch, r->lane, r->op, r->slot, who);
}

/* A kernel waits, and goes on waiting: who keeps it is named now, and again after a while. */
static void hear_waiting(peali_device *d)
{
    const peali_cuda_report *r = peali_team_notice(d->team);
    int64_t now_ns = peali_clock_ns();
    if (!r)
        return;
    if (!d->complained_ns || now_ns - d->complained_ns > PATIENT_NS) {
        say_late(d, r);
        d->complained_ns = now_ns;
    }
    peali_team_heed(d->team);
}

static void hear_kernel(peali_device *d, const peali_cuda_report *r)
{
    if (r->kind == PEALI_CUDA_DIFFERS && names_one(d, r)) {
        say_differs(d, r);
    } else if (r->kind == PEALI_CUDA_LATE) {
        say_late(d, r);
        fail(d, PEAL_ERR_TIMEOUT);
    } else {
        fail(d, PEAL_ERR_ABORTED);
    }
}

/* This rank's call of number SEQUENCE, if it was one on device memory and is remembered. */
static bool remember(const peali_device *d, uint64_t sequence, peali_signature *call)
{
    return peali_signature_look(&d->past[sequence % PEALI_DEVICE_PAST], call) && call->sequence == sequence;
}

/* What ranks show against what this one enqueued under the same number: one that has host memory in hand waits in vain. */
static void compare(peali_device *d)
{
    peali_quarrel q = {.one_rank = d->comm->rank};
    for (int32_t x = 0; x < d->comm->reach.nranks; x++) {
        if (d->comm->near[x] == d->comm->rank || !peali_runner_shown(d->comm->runner, x, &q.other) ||
            !remember(d, q.other.sequence, &q.one) || peali_signature_alike(&q.one, &q.other))
            continue;
        q.other_rank = d->comm->near[x];
        begin_quarrel(d, &q);
        return;
    }
}

/* The transport has said what it lacks. */
static void hear_proxy(peali_device *d, const peali_proxy_news *n)
{
    peali_ledger_call mine = {.how = "forgotten"};
    char words[PEALI_SIGNATURE_TEXT] = "a call";
    if (peali_ledger_read(d->mine, n->mine, &mine))
        peali_signature_words(&mine.call, words);
    if (n->status == PEAL_ERR_MISMATCH)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, d->comm->rank,
                  "calls on device memory differ: this rank made %s (%s, signature %08x), rank %d of another node one with "
                  "signature %08x; make the same calls in the same order on all ranks", words, mine.how, n->mine, n->peer, n->its);
    else
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, d->comm->rank, "%s (%s) failed: its message with rank %d: %s", words, mine.how,
                  n->peer, peal_status_text(n->status));
    fail_alone(d, n->status, &mine.call);
}

/* What another rank found; and what it called, that this one knew by its signature alone. */
static void hear_word(peali_device *d, int32_t from, const peali_proxy_word *w)
{
    const bool known = w->quarrel.other_rank >= 0;
    const bool awaited = d->failure == PEAL_ERR_MISMATCH && peali_proxy_ask(d->proxy).peer == from && !known;
    if (d->failure != PEAL_OK && !awaited)
        return;
    peali_run_say_quarrel(d->comm->runner, &w->quarrel);
    if (d->failure == PEAL_OK)
        fail(d, (peal_status)w->status);
}

void peali_device_look(peali_device *d)
{
    peali_quarrel told;
    peali_proxy_word word;
    int32_t from;
    pthread_mutex_lock(&d->lock);
    const peali_proxy_news news = d->proxy ? peali_proxy_ask(d->proxy) : (peali_proxy_news){.status = PEAL_OK};
    const peali_cuda_report *r = peali_team_report(d->team);
    const bool heard = d->proxy && peali_proxy_heard(d->proxy, &from, &word);
    const peal_status of_host = peali_runner_failure(d->comm->runner); /* or an abort */
    if (d->failure != PEAL_OK)
        ; /* that was said */
    else if (of_host != PEAL_OK)
        fail_as_host(d, of_host);
    else if (news.status != PEAL_OK)
        hear_proxy(d, &news);
    else if (r)
        hear_kernel(d, r);
    else if (peali_runner_told(d->comm->runner, &told))
        say_quarrel(d, &told);
    else if (!heard)
        compare(d);
    if (heard)
        hear_word(d, from, &word);
    if (d->failure == PEAL_OK)
        hear_waiting(d);
    pthread_mutex_unlock(&d->lock);
}

void peali_device_lose(peali_device *d, peal_status status, const peali_signature *mine)
{
    pthread_mutex_lock(&d->lock);
    if (d->failure == PEAL_OK)
        fail_alone(d, status, mine);
    pthread_mutex_unlock(&d->lock);
}

peal_status peali_device_ask(const peal_comm *comm)
{
    peali_device *d = peali_load_acquire(&comm->device);
    if (!d)
        return PEAL_OK;
    if (peali_load_acquire(&d->failure) == PEAL_OK && peali_team_report(d->team))
        peali_device_look(d);
    return (peal_status)peali_load_acquire(&d->failure);
}
