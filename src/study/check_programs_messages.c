/*
 * Messages: each rank has those operations of its schedule whose peer is out of reach, per peer and lane in the same order and
 * with the same blocks, so that programs that were lowered apart agree. And each is over before the slice is left.
 */
#include "study/check_programs_parts.h"

#include <string.h>

typedef struct mail {
    int32_t *next;   /* per direction, peer and lane: the operation of the schedule to look at next */
    int32_t *instr;  /* of each operation of the schedules: the number of the instruction that performs it */
    size_t channels;
} mail;

static bool same_channel(const peali_op *op, const peali_instr *i)
{
    return op->verb == (i->kind == PEALI_I_SEND ? PEALI_SEND : PEALI_RECV) && op->peer == i->peer && op->lane == i->lane;
}

static peal_status pair(peali_proving *p, mail *m, int r, int no)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    const peal_sched *s = p->truth->what.sched[r];
    size_t channel = ((size_t)i->peer * 2 + (i->kind == PEALI_I_SEND)) * PEAL_LANES + i->lane;
    int32_t k = m->next[channel];
    while (k < s->nops && !same_channel(&s->ops[k], i))
        k++;
    if (k == s->nops)
        return peali_proving_refute(p, r, no, "the schedule has no such message, or not so many");
    if (s->ops[k].first != q->cuts[i->first] || s->ops[k].end != q->cuts[i->end])
        return peali_proving_refute(p, r, no, "operation %d of the schedule, whose place it has, has blocks %d to %d", (int)k,
                                    (int)s->ops[k].first, (int)s->ops[k].end - 1);
    m->next[channel] = k + 1;
    p->op[p->base[r] + no] = p->truth->c.base[r] + k;
    m->instr[p->truth->c.base[r] + k] = p->base[r] + no;
    if (p->waiter[p->base[r] + no] < 0)
        return peali_proving_refute(p, r, no, "nothing waits for its end");
    return PEAL_OK;
}

/* Every message of the schedule has its instruction by now, or there are too few. */
static peal_status complete(peali_proving *p, const mail *m, int r)
{
    const peal_sched *s = p->truth->what.sched[r];
    for (int k = 0; k < s->nops; k++) {
        const peali_op *op = &s->ops[k];
        bool message = op->verb == PEALI_SEND || op->verb == PEALI_RECV;
        if (message && p->domain[op->peer] != p->domain[r] && m->instr[p->truth->c.base[r] + k] < 0)
            return peali_proving_refute(p, r, -1, "no instruction performs operation %d of the schedule, a message %s rank %d", k,
                                        op->verb == PEALI_SEND ? "to" : "from", (int)op->peer);
    }
    return PEAL_OK;
}

static peal_status pair_rank(peali_proving *p, mail *m, int r)
{
    peal_status status = PEAL_OK;
    memset(m->next, 0, m->channels * sizeof *m->next);
    for (int no = 0; no < p->program[r]->ninstrs && status == PEAL_OK; no++)
        if (peali_proving_async(&p->program[r]->instrs[no]))
            status = pair(p, m, r, no);
    return status == PEAL_OK ? complete(p, m, r) : status;
}

peal_status peali_programs_messages(peali_proving *p)
{
    size_t nops = (size_t)p->truth->c.base[p->n];
    mail m = {.channels = (size_t)p->n * 2 * PEAL_LANES};
    bool any = false;
    for (int r = 0; r < p->n; r++)
        any |= p->domain[r] != p->domain[0];
    if (!any)
        return PEAL_OK;
    m.next = peali_arena_get(&p->arena, m.channels, sizeof *m.next);
    m.instr = peali_arena_get(&p->arena, nops, sizeof *m.instr);
    if (!m.next || !m.instr)
        return PEAL_ERR_MEMORY;
    memset(m.instr, -1, nops * sizeof *m.instr);
    for (int r = 0; r < p->n; r++) {
        peal_status status = pair_rank(p, &m, r);
        if (status != PEAL_OK)
            return status;
    }
    for (int32_t i = 0; i < p->base[p->n]; i++)
        if (p->op[i] >= 0)
            p->match[i] = m.instr[p->truth->c.match[p->op[i]]];
    return PEAL_OK;
}
