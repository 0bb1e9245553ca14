/*
 * What an instruction does to messages. The first one between two ranks in a call leads: it carries the call's signature, before a
 * receiver trusts what it got.
 */
#include "exec/runner.h"

#include <string.h>

#include "base/log.h"

enum { SLICE_BITS = 16 }; /* of the tag; with 6 bits of lane this is PEALI_NET_TAG_BITS */

typedef struct mail {
    int32_t peer;
    uint32_t tag;
    bool sends;
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
    return r->net->recv(r->net, m->peer, m->tag, m->at, m->bytes, m->req);
}

/* A small message is one with its signature; a large one follows it. */
static peal_status post_lead(peali_runner *r, mail *m, int32_t lead)
{
    unsigned char *bounce = r->bounce + (size_t)lead * PEALI_RUN_BOUNCE;
    mail signature = *m;
    memcpy(bounce, &r->signature, sizeof r->signature);
    signature.at = bounce;
    signature.bytes = sizeof r->signature;
    if (m->bytes <= PEALI_RUN_EAGER) {
        if (m->sends && m->bytes > 0)
            memcpy(bounce + sizeof r->signature, m->at, m->bytes);
        signature.bytes += m->bytes;
        return post(r, &signature);
    }
    signature.req = &r->lead_reqs[lead];
    peal_status status = post(r, &signature);
    r->lead_over[lead] = status != PEAL_OK;
    return status == PEAL_OK ? post(r, m) : status;
}

static int32_t lead_of(const peali_runner *r, const peali_cursor *c, int32_t no)
{
    return c->slice == 0 ? r->plan->lead[no] : -1;
}

peal_status peali_run_message(peali_runner *r, peali_cursor *c, const peali_instr *i)
{
    uint32_t slice = (uint32_t)peali_run_slice(r, c) & ((1u << SLICE_BITS) - 1);
    mail m = {.peer = i->peer, .tag = (uint32_t)i->lane << SLICE_BITS | slice, .sends = i->kind == PEALI_I_SEND};
    peali_loc loc = r->plan->program->locs[i->locs];
    int32_t req = peali_run_first_req(r->plan, c->pc), units = peali_plan_units(r->plan, i), lead = lead_of(r, c, c->pc);
    peal_status status = PEAL_OK;
    for (int32_t u = 0; u < units && status == PEAL_OK; u++) {
        m.at = peali_run_address(r, c, i, loc, u);
        m.bytes = peali_run_length(r, c, i, u);
        m.req = &c->reqs[req + u];
        status = u == 0 && lead >= 0 ? post_lead(r, &m, lead) : post(r, &m);
        c->over[req + u] = status != PEAL_OK;
    }
    return status;
}

static peal_status test(peali_runner *r, bool *over, peali_net_req *req)
{
    if (*over)
        return PEAL_OK;
    peal_status status = r->net->test(r->net, req);
    *over = status != PEAL_IN_PROGRESS;
    return status;
}

/* A received signature is held against this rank's own; then the data that came with it goes where it belongs. */
static peal_status open_lead(peali_runner *r, const peali_cursor *c, int32_t no, int32_t lead)
{
    const peali_instr *i = &r->plan->program->instrs[no];
    const unsigned char *bounce = r->bounce + (size_t)lead * PEALI_RUN_BOUNCE;
    peali_signature theirs;
    memcpy(&theirs, bounce, sizeof theirs);
    r->lead_seen[lead] = true;
    if (!peali_signature_equal(&theirs, &r->signature)) {
        r->theirs = theirs;
        r->dissenter = i->peer;
        return PEAL_ERR_MISMATCH;
    }
    size_t bytes = peali_run_length(r, c, i, 0);
    if (bytes > 0 && bytes <= PEALI_RUN_EAGER)
        memcpy(peali_run_address(r, c, i, r->plan->program->locs[i->locs], 0), bounce + sizeof theirs, bytes);
    return PEAL_OK;
}

peal_status peali_run_over(peali_runner *r, peali_cursor *c, int32_t no)
{
    const peali_instr *i = &r->plan->program->instrs[no];
    int32_t req = peali_run_first_req(r->plan, no), units = peali_plan_units(r->plan, i), lead = lead_of(r, c, no);
    peal_status status = lead < 0 ? PEAL_OK : test(r, &r->lead_over[lead], &r->lead_reqs[lead]);
    for (int32_t u = req; u < req + units && status == PEAL_OK; u++)
        status = test(r, &c->over[u], &c->reqs[u]);
    if (status == PEAL_OK && lead >= 0 && i->kind == PEALI_I_RECV && !r->lead_seen[lead])
        status = open_lead(r, c, no, lead);
    return status;
}

peal_status peali_run_look_ahead(peali_runner *r)
{
    const peali_program *p = r->plan->program;
    peali_cursor *c = &r->cursors[0];
    peal_status status = PEAL_OK;
    for (int32_t no = 0; no < p->ninstrs && c->slice == 0 && status >= 0; no++) {
        int32_t lead = r->plan->lead[no];
        bool posted = lead >= 0 && (!c->over[peali_run_first_req(r->plan, no)] || !r->lead_over[lead]);
        if (posted && p->instrs[no].kind == PEALI_I_RECV)
            status = peali_run_over(r, c, no);
    }
    return status < 0 ? status : PEAL_OK;
}

void peali_run_cancel(peali_runner *r)
{
    for (int32_t w = 0; w < r->plan->job.window; w++)
        for (int32_t q = 0; q < r->plan->nreqs; q++)
            if (!r->cursors[w].over[q])
                r->net->cancel(r->net, &r->cursors[w].reqs[q]);
    for (int32_t lead = 0; lead < r->plan->nleads; lead++)
        if (!r->lead_over[lead])
            r->net->cancel(r->net, &r->lead_reqs[lead]);
}
