/*
 * What an instruction does to messages. Each rank that sends to another in a call sends its signature first, the lead, on a channel
 * of its own; nothing else is received from there before. A call that does not end looks for leads where it expects none, too:
 * their senders may have called something else, and have left.
 */
#include "exec/runner.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"

_Static_assert(PEAL_LANES < 1 << (PEALI_NET_TAG_BITS - PEALI_NET_SLICE_BITS), "a tag has room for each lane, and for leads");

typedef struct mail {
    int32_t peer;
    uint32_t tag;
    bool sends, some; /* some: a shorter message will do */
    void *at;
    size_t bytes;
    peali_net_req *req;
} mail;

static peal_status post(peali_runner *r, const mail *m)
{
    if (peali_log_on(PEALI_LOG_TRACE, PEALI_SUB_NET))
        peali_log(PEALI_LOG_TRACE, PEALI_SUB_NET, r->net->rank, "%s %zu bytes %s rank %d tag %u", m->sends ? "send" : "recv",
                  m->bytes, m->sends ? "to" : "from", (int)m->peer, m->tag);
    if (m->sends)
        return r->net->send(r->net, m->peer, m->tag, m->at, m->bytes, m->req);
    return (m->some ? r->net->recv_some : r->net->recv)(r->net, m->peer, m->tag, m->at, m->bytes, m->req);
}

/* By the number of the call alone, so that leads meet whatever the two ranks called and chose. The last tag is the parley's. */
static uint32_t lead_tag(const peali_runner *r)
{
    return (uint32_t)PEAL_LANES << PEALI_NET_SLICE_BITS | (uint32_t)(r->signature.sequence % ((1u << PEALI_NET_SLICE_BITS) - 1));
}

static uint32_t data_tag(const peali_runner *r, const peali_cursor *c, const peali_instr *i)
{
    uint32_t slice = (uint32_t)peali_run_slice(r, c) & ((1u << PEALI_NET_SLICE_BITS) - 1);
    return (uint32_t)i->lane << PEALI_NET_SLICE_BITS | slice;
}

void peali_run_way(const peali_runner *r, const peali_cursor *c, const peali_instr *i, char *text, size_t bytes)
{
    char way[PEALI_NET_WAY];
    text[0] = '\0';
    if (!r->net->describe)
        return;
    r->net->describe(r->net, i->peer, data_tag(r, c, i), i->kind == PEALI_I_SEND, way, sizeof way);
    snprintf(text, bytes, ", %s", way);
}

static unsigned char *bounce_of(const peali_runner *r, int32_t lead)
{
    return r->bounce + (size_t)lead * r->lead_bytes;
}

static const peali_instr *instr_of(const peali_runner *r, int32_t no)
{
    return &r->plan->program->instrs[no];
}

/* Does the data of instruction NO travel with the lead? */
static bool rides(const peali_runner *r, const peali_cursor *c, int32_t no)
{
    return c->slice == 0 && r->plan->opens[no] && r->leads[r->plan->lead[no]].lane == instr_of(r, no)->lane;
}

static peal_status post_lead(peali_runner *r, int32_t lead, mail *m)
{
    m->tag = lead_tag(r);
    m->some = true;
    m->at = bounce_of(r, lead);
    m->req = &r->leads[lead].req;
    peal_status status = post(r, m);
    if (status == PEAL_OK)
        r->leads[lead].state = PEALI_LEAD_POSTED;
    return status;
}

/* Before a rank's first message to another, or with it. On the way the magic says which lane's data it has. */
static peal_status send_lead(peali_runner *r, const peali_cursor *c, int32_t no)
{
    const peali_instr *i = instr_of(r, no);
    int32_t lead = r->plan->lead[no];
    mail m = {.peer = i->peer, .sends = true, .bytes = sizeof r->signature};
    peali_signature head = r->signature;
    r->leads[lead].lane = i->lane;
    if (rides(r, c, no)) {
        size_t bytes = peali_run_length(r, c, i, 0);
        if (bytes > 0)
            memcpy(bounce_of(r, lead) + m.bytes, peali_run_address(r, c, i, r->plan->program->locs[i->locs], 0), bytes);
        m.bytes += bytes;
    } else {
        r->leads[lead].lane = PEAL_LANES;
    }
    head.magic = (uint8_t)(PEALI_SIGNATURE_LANE + r->leads[lead].lane);
    memcpy(bounce_of(r, lead), &head, sizeof head);
    return post_lead(r, lead, &m);
}

/* Whatever comes has room. */
static peal_status recv_lead(peali_runner *r, int32_t lead)
{
    mail m = {.peer = instr_of(r, r->plan->first[lead])->peer, .bytes = r->lead_bytes};
    return post_lead(r, lead, &m);
}

static peal_status post_units(peali_runner *r, peali_cursor *c, int32_t no)
{
    const peali_instr *i = instr_of(r, no);
    mail m = {.peer = i->peer, .tag = data_tag(r, c, i), .sends = i->kind == PEALI_I_SEND};
    int32_t req = peali_run_first_req(r->plan, no), units = peali_plan_units(r->plan, i);
    peal_status status = PEAL_OK;
    for (int32_t u = rides(r, c, no); u < units && status == PEAL_OK; u++) {
        m.at = peali_run_address(r, c, i, r->plan->program->locs[i->locs], u);
        m.bytes = peali_run_length(r, c, i, u);
        m.req = &c->reqs[req + u];
        status = post(r, &m);
        c->over[req + u] = status != PEAL_OK;
    }
    return status;
}

/* Right: the rank at its other end has called the same as this one. */
static bool right(const peali_runner *r, int32_t lead)
{
    return r->leads[lead].state >= PEALI_LEAD_OVER;
}

/*
 * Receives wait until the lead was right: a longer message than the receive is an error at best, and over Open MPI it spoils
 * what lies behind.
 */
peal_status peali_run_message(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    int32_t lead = r->plan->lead[c->pc];
    bool first = r->leads[lead].state == PEALI_LEAD_TO_COME;
    peal_status status = PEAL_OK;
    if (first)
        status = i->kind == PEALI_I_SEND ? send_lead(r, c, c->pc) : recv_lead(r, lead);
    if (status != PEAL_OK || (i->kind == PEALI_I_RECV && !right(r, lead)))
        return status;
    return post_units(r, c, c->pc);
}

/* Those of LEAD that were waiting for it. */
static peal_status post_waiting(peali_runner *r, int32_t lead)
{
    peal_status status = PEAL_OK;
    for (int32_t w = 0; w < r->plan->job.window; w++)
        for (int32_t no = 0; no < r->cursors[w].pc && status == PEAL_OK; no++)
            if (r->plan->lead[no] == lead)
                status = post_units(r, &r->cursors[w], no);
    return status;
}

/* Holds a signature that rank PEER sent against this rank's own. */
static peal_status compare(peali_runner *r, int32_t peer, const unsigned char *lead, uint8_t *lane)
{
    memcpy(&r->theirs, lead, sizeof r->theirs);
    *lane = (uint8_t)(r->theirs.magic - PEALI_SIGNATURE_LANE);
    r->theirs.magic = PEALI_SIGNATURE_MAGIC;
    if (peali_signature_equal(&r->theirs, &r->signature))
        return PEAL_OK;
    r->dissenter = peer;
    return PEAL_ERR_MISMATCH;
}

/* PEAL_OK once a lead is over, and right if it was received. */
static peal_status lead_over(peali_runner *r, int32_t lead)
{
    peali_lead *l = &r->leads[lead];
    const peali_instr *i = instr_of(r, r->plan->first[lead]);
    if (l->state != PEALI_LEAD_POSTED)
        return l->state == PEALI_LEAD_TO_COME ? PEAL_IN_PROGRESS : PEAL_OK;
    peal_status status = r->net->test(r->net, &l->req);
    if (status == PEAL_IN_PROGRESS)
        return status;
    l->state = PEALI_LEAD_OVER;
    if (status != PEAL_OK || i->kind == PEALI_I_SEND)
        return status;
    status = compare(r, i->peer, bounce_of(r, lead), &l->lane);
    return status == PEAL_OK ? post_waiting(r, lead) : status;
}

/* The data that came with a lead goes where it belongs, once. */
static void take(peali_runner *r, const peali_cursor *c, int32_t no)
{
    const peali_instr *i = instr_of(r, no);
    int32_t lead = r->plan->lead[no];
    if (i->kind == PEALI_I_SEND || r->leads[lead].state == PEALI_LEAD_TAKEN || !rides(r, c, no))
        return;
    size_t bytes = peali_run_length(r, c, i, 0);
    r->leads[lead].state = PEALI_LEAD_TAKEN;
    if (bytes > 0)
        memcpy(peali_run_address(r, c, i, r->plan->program->locs[i->locs], 0), bounce_of(r, lead) + sizeof r->signature, bytes);
}

peal_status peali_run_over(peali_runner *r, peali_cursor *c, int32_t no)
{
    int32_t req = peali_run_first_req(r->plan, no), units = peali_plan_units(r->plan, instr_of(r, no));
    peal_status status = lead_over(r, r->plan->lead[no]);
    for (int32_t u = req; u < req + units && status == PEAL_OK; u++)
        if (!c->over[u]) {
            status = r->net->test(r->net, &c->reqs[u]);
            c->over[u] = status != PEAL_IN_PROGRESS;
        }
    if (status == PEAL_OK)
        take(r, c, no);
    return status;
}

bool peali_run_pending(const peali_runner *r, const peali_cursor *c, int32_t no)
{
    return !c->over[peali_run_first_req(r->plan, no)] || !right(r, r->plan->lead[no]);
}

static void cancel_data(peali_runner *r, peali_cursor *c, int kind)
{
    for (int32_t no = 0; no < r->plan->program->ninstrs; no++) {
        const peali_instr *i = instr_of(r, no);
        int32_t req = peali_run_first_req(r->plan, no);
        for (int32_t u = req; i->kind == kind && u < req + peali_plan_units(r->plan, i); u++) {
            if (!c->over[u])
                r->remains |= !r->net->cancel(r->net, &c->reqs[u]);
            c->over[u] = true;
        }
    }
}

void peali_run_hands_off(peali_runner *r)
{
    for (int32_t w = 0; w < r->plan->job.window; w++)
        cancel_data(r, &r->cursors[w], PEALI_I_RECV);
}

void peali_run_cancel(peali_runner *r)
{
    peali_run_hands_off(r);
    for (int32_t w = 0; w < r->plan->job.window; w++)
        cancel_data(r, &r->cursors[w], PEALI_I_SEND);
    for (int32_t lead = 0; lead < r->plan->nleads; lead++)
        if (r->leads[lead].state == PEALI_LEAD_POSTED)
            r->remains |= !r->net->cancel(r->net, &r->leads[lead].req);
}

static bool received(const peali_runner *r, int32_t lead)
{
    return instr_of(r, r->plan->first[lead])->kind == PEALI_I_RECV;
}

peal_status peali_run_hear(peali_runner *r)
{
    peal_status status = PEAL_OK;
    for (int32_t lead = 0; lead < r->plan->nleads && status >= 0; lead++)
        if (received(r, lead))
            status = lead_over(r, lead);
    return status < 0 ? status : PEAL_IN_PROGRESS;
}

static size_t stray_size(const peali_runner *r)
{
    return sizeof(peali_stray) + r->lead_bytes;
}

static peali_stray *stray_of(const peali_runner *r, int rank)
{
    return (peali_stray *)((unsigned char *)r->strays + (size_t)rank * stray_size(r));
}

static void listen(peali_runner *r)
{
    if (!r->strays)
        r->strays = peali_alloc((size_t)r->net->nranks, stray_size(r));
    if (!r->strays)
        return; /* without memory this rank hears what it expects */
    r->astray = true;
    for (int rank = 0; rank < r->net->nranks; rank++)
        stray_of(r, rank)->posted = rank != r->net->rank;
    for (int32_t lead = 0; lead < r->plan->nleads; lead++)
        if (received(r, lead))
            stray_of(r, instr_of(r, r->plan->first[lead])->peer)->posted = false; /* the call has a lead from there */
    for (int rank = 0; rank < r->net->nranks; rank++) {
        peali_stray *s = stray_of(r, rank);
        mail m = {rank, lead_tag(r), false, true, s->at, r->lead_bytes, &s->req};
        s->posted = s->posted && post(r, &m) == PEAL_OK;
    }
}

static peal_status hear_stray(peali_runner *r, int rank)
{
    peali_stray *s = stray_of(r, rank);
    peal_status status = s->posted ? r->net->test(r->net, &s->req) : PEAL_IN_PROGRESS;
    if (status == PEAL_IN_PROGRESS)
        return status;
    uint8_t lane;
    s->posted = false;
    return status == PEAL_OK ? compare(r, rank, s->at, &lane) : status;
}

peal_status peali_run_overhear(peali_runner *r)
{
    peal_status status = PEAL_OK;
    if (!r->astray)
        listen(r);
    for (int32_t lead = 0; lead < r->plan->nleads && status >= 0; lead++)
        if (received(r, lead))
            status = r->leads[lead].state == PEALI_LEAD_TO_COME ? recv_lead(r, lead) : lead_over(r, lead);
    for (int rank = 0; r->astray && rank < r->net->nranks && status >= 0; rank++)
        status = hear_stray(r, rank);
    return status < 0 ? status : PEAL_IN_PROGRESS;
}

void peali_run_deafen(peali_runner *r)
{
    bool forgotten = true;
    for (int rank = 0; r->astray && rank < r->net->nranks; rank++)
        if (stray_of(r, rank)->posted)
            forgotten &= r->net->cancel(r->net, &stray_of(r, rank)->req);
    r->strays = forgotten ? r->strays : NULL;
    r->astray = false;
}
