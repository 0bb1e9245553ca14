/*
 * The frame of check: builds, calls the proofs one after another, compares the bill, and says a counterexample in words.
 */
#include "study/check.h"

#include <stdarg.h>
#include <string.h>

#include "study/check_parts.h"

const char *peali_check_buffer(char text[24], int buf)
{
    if (buf < PEAL_BUF_TMP)
        return buf == PEAL_BUF_IN ? "IN" : "OUT";
    snprintf(text, 24, "tmp %d%s", (buf - PEAL_BUF_TMP) / 2, (buf - PEAL_BUF_TMP) % 2 ? "'" : "");
    return text;
}

const char *peali_check_blocks(char text[48], int32_t first, int32_t end)
{
    if (end - first == 1)
        snprintf(text, 48, "block %d", (int)first);
    else
        snprintf(text, 48, "blocks %d..%d", (int)first, (int)end - 1);
    return text;
}

void peali_check_words(char *text, size_t size, const peali_op *op)
{
    char blocks[48], d[24], s[24];
    peali_check_blocks(blocks, op->first, op->end);
    const char *dst = peali_check_buffer(d, op->dst), *src = peali_check_buffer(s, op->src);
    if (op->verb == PEALI_SEND)
        snprintf(text, size, "send %s %s to rank %d lane %d", src, blocks, (int)op->peer, op->lane);
    else if (op->verb == PEALI_RECV)
        snprintf(text, size, "recv %s %s from rank %d lane %d", dst, blocks, (int)op->peer, op->lane);
    else
        snprintf(text, size, "%s %s %s from %s", op->verb == PEALI_COPY ? "copy" : "reduce", dst, blocks, src);
}

int peali_check_say_case(char *text, size_t size, const peali_check_case *what)
{
    const peal_problem *p = what->problem;
    int at = snprintf(text, size, "%s %s, n %d", peal_kind_name(p->kind), what->algo->name, p->nranks);
    if (p->kind == PEAL_BROADCAST || p->kind == PEAL_REDUCE)
        at += snprintf(text + at, size - (size_t)at, ", root %d", p->root);
    if (!p->node)
        return at;
    at += snprintf(text + at, size - (size_t)at, ", nodes ");
    for (int r = 0, count = 0; r < p->nranks && at < (int)size / 3; r++) {
        count++;
        if (r + 1 == p->nranks || p->node[r + 1] != p->node[r]) {
            at += snprintf(text + at, size - (size_t)at, "%s%d", count == r + 1 ? "" : "+", count);
            count = 0;
        }
    }
    return at;
}

peal_status peali_check_refute(peali_checking *c, int rank, int op, const char *format, ...)
{
    char *text = c->report->why;
    size_t size = sizeof c->report->why;
    int at = peali_check_say_case(text, size, c->what);
    at += snprintf(text + at, size - (size_t)at, ", rank %d", rank);
    if (op >= 0) {
        char words[128];
        peali_check_words(words, sizeof words, peali_check_op(c, rank, op));
        at += snprintf(text + at, size - (size_t)at, ", operation %d (%s)", op, words);
    }
    at += snprintf(text + at, size - (size_t)at, ": ");
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - (size_t)at, format, args);
    va_end(args);
    return PEAL_ERR_INVALID;
}

/* The scratch slots of one rank, and the blocks it sends. */
static void count_rank(const peal_sched *s, int *slots, int64_t *sent)
{
    int top = PEAL_BUF_TMP - 1;
    *sent = 0;
    for (int i = 0; i < s->nops; i++) {
        const peali_op *op = &s->ops[i];
        if (op->verb == PEALI_SEND)
            *sent += op->end - op->first;
        if (op->dst > top)
            top = op->dst;
        if (op->src > top)
            top = op->src;
    }
    *slots = (top - PEAL_BUF_TMP) / 2 + (top >= PEAL_BUF_TMP);
}

static peal_status check_bill(peali_checking *c)
{
    peal_bill *found = &c->report->found, claimed = c->what->algo->bill(c->what->problem);
    int busiest = 0, widest = 0;
    found->blocks = c->nblocks;
    for (int r = 0; r < c->n; r++) {
        int slots;
        int64_t sent;
        count_rank(c->what->sched[r], &slots, &sent);
        if (sent > found->sent)
            found->sent = sent, busiest = r;
        if (slots > found->slots)
            found->slots = slots, widest = r;
    }
    if (found->blocks != claimed.blocks)
        return peali_check_refute(c, 0, -1, "the bill says %d blocks, the schedule has %d", claimed.blocks, found->blocks);
    if (found->rounds != claimed.rounds)
        return peali_check_refute(c, 0, -1, "the bill says %d rounds, the schedules take %d", claimed.rounds, found->rounds);
    if (found->sent != claimed.sent)
        return peali_check_refute(c, busiest, -1, "the bill says %lld blocks sent, this rank sends most, %lld",
                                  (long long)claimed.sent, (long long)found->sent);
    if (found->slots != claimed.slots)
        return peali_check_refute(c, widest, -1, "the bill says %d slots, this rank uses most, %d", claimed.slots, found->slots);
    return PEAL_OK;
}

/* Each proof relies on those before it: a run needs matches, and may read what a sender sent only where races are excluded. */
static peal_status prove(peali_checking *c)
{
    peal_status (*const proofs[])(peali_checking *) = {peali_check_form, peali_check_match, peali_check_races, peali_check_run,
                                                       check_bill};
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
        peal_status status = proofs[i](c);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

peal_status peali_check_built(const peali_check_case *what, peali_check_report *report)
{
    memset(report, 0, sizeof *report);
    peali_checking c = {.what = what, .report = report, .n = what->problem->nranks, .nblocks = what->sched[0]->nblocks};
    peal_status status = prove(&c);
    peali_arena_free(&c.arena);
    return status;
}

static peal_status build(const peali_check_case *what, peal_sched **sched, peali_order *order, peali_check_report *report)
{
    for (int r = 0; r < what->problem->nranks; r++) {
        peal_status status = peali_sched_build(what->algo, what->problem, r, &sched[r]);
        if (status == PEAL_ERR_INVALID) {
            int at = peali_check_say_case(report->why, sizeof report->why, what);
            snprintf(report->why + at, sizeof report->why - (size_t)at, ", rank %d: a bad argument, see the log", r);
        }
        if (status == PEAL_OK)
            status = peali_order_infer(sched[r], &order[r]);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

peal_status peali_check(const peal_algo *algo, const peal_problem *problem, peali_check_report *report)
{
    peali_arena arena = {NULL};
    size_t n = (size_t)problem->nranks;
    peal_sched **sched = peali_arena_get(&arena, n, sizeof(peal_sched *));
    peali_order *order = peali_arena_get(&arena, n, sizeof(peali_order));
    peali_check_case what = {algo, problem, (const peal_sched *const *)sched, order};
    memset(report, 0, sizeof *report);
    peal_status status = PEAL_ERR_MEMORY;
    if (sched && order) {
        status = build(&what, sched, order, report);
        if (status == PEAL_OK)
            status = peali_check_built(&what, report);
        for (size_t r = 0; r < n; r++) {
            peali_order_free(&order[r]);
            peali_sched_free(&sched[r]);
        }
    }
    peali_arena_free(&arena);
    return status;
}
