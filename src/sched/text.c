/* Printing and reading stand side by side, verb by verb, so that a change of one is seen to need the other. */
#include "sched/text.h"

#include "base/arena.h"

/* As printed, then what stands before the peer or the source. */
static const struct verb {
    const char *name, *link;
} verbs[] = {
    [PEALI_SEND] = {"send ", " to "},
    [PEALI_RECV] = {"recv ", " from "},
    [PEALI_COPY] = {"copy ", " from "},
    [PEALI_REDUCE] = {"reduce ", " with "},
};
enum { NVERBS = sizeof verbs / sizeof verbs[0], SLOTS = (INT16_MAX - PEAL_BUF_TMP + 1) / 2 };

void peali_text_buffer(int buf, FILE *to)
{
    if (buf < PEAL_BUF_TMP)
        fputs(buf == PEAL_BUF_IN ? "in" : "out", to);
    else
        fprintf(to, "tmp%d%s", (buf - PEAL_BUF_TMP) / 2, (buf - PEAL_BUF_TMP) % 2 ? "'" : "");
}

int16_t peali_text_read_buffer(peali_scan *scan)
{
    if (peali_scan_try(scan, "in"))
        return PEAL_BUF_IN;
    if (peali_scan_try(scan, "out"))
        return PEAL_BUF_OUT;
    if (!peali_scan_try(scan, "tmp")) {
        peali_scan_fail(scan, "a buffer is in, out, tmp0, tmp0', tmp1 and so on");
        return PEAL_BUF_IN;
    }
    int buf = PEAL_BUF_TMP + 2 * peali_scan_number(scan, "the slot", 0, SLOTS - 1);
    return (int16_t)(buf + peali_scan_try(scan, "'"));
}

static bool message(const peali_op *op)
{
    return op->verb == PEALI_SEND || op->verb == PEALI_RECV;
}

void peali_sched_print(const peal_sched *s, FILE *to)
{
    fprintf(to, "schedule rank %d of %d blocks %d\n", (int)s->rank, (int)s->nranks, (int)s->nblocks);
    for (int32_t i = 0; i < s->nops; i++) {
        const peali_op *op = &s->ops[i];
        fprintf(to, "%d %s", (int)i, verbs[op->verb].name);
        peali_text_buffer(op->verb == PEALI_SEND ? op->src : op->dst, to);
        fprintf(to, "[%d:%d)%s", (int)op->first, (int)op->end, verbs[op->verb].link);
        if (message(op))
            fprintf(to, "%d", (int)op->peer);
        else
            peali_text_buffer(op->src, to);
        if (op->lane > 0)
            fprintf(to, " lane %d", op->lane);
        fputc('\n', to);
    }
    fputs("end\n", to);
}

static void read_head(peali_scan *scan, peal_sched *s)
{
    peali_scan_want(scan, "schedule rank ");
    s->rank = peali_scan_number(scan, "the rank", 0, INT32_MAX - 1);
    peali_scan_want(scan, " of ");
    s->nranks = peali_scan_number(scan, "the number of ranks", s->rank + 1, INT32_MAX);
    peali_scan_want(scan, " blocks ");
    s->nblocks = peali_scan_number(scan, "the number of blocks", 1, INT32_MAX);
    peali_scan_want(scan, "\n");
    s->nbufs = PEAL_BUF_TMP;
    s->nlanes = 1;
    s->view = (struct peali_view){.nranks = s->nranks, .rank = s->rank};
}

static uint8_t read_verb(peali_scan *scan)
{
    for (int v = 0; v < NVERBS; v++)
        if (peali_scan_try(scan, verbs[v].name))
            return (uint8_t)v;
    peali_scan_fail(scan, "a verb is send, recv, copy or reduce");
    return PEALI_SEND;
}

/* The peer of a message, the source of a local operation. */
static void read_other(peali_scan *scan, const peal_sched *s, peali_op *op)
{
    peali_scan_want(scan, verbs[op->verb].link);
    if (message(op)) {
        op->peer = peali_scan_number(scan, "the peer", 0, s->nranks - 1);
        if (op->peer == s->rank)
            peali_scan_fail(scan, "rank %d is the peer of itself", (int)s->rank);
        return;
    }
    op->peer = -1;
    op->src = peali_text_read_buffer(scan);
    if (op->src == op->dst)
        peali_scan_fail(scan, "a buffer is its own source");
}

static peali_op read_op(peali_scan *scan, const peal_sched *s)
{
    peali_op op = {.dst = -1, .src = -1};
    if (peali_scan_number(scan, "the operation", 0, INT32_MAX) != s->nops)
        peali_scan_fail(scan, "operation %d comes here", (int)s->nops);
    peali_scan_want(scan, " ");
    op.verb = read_verb(scan);
    int16_t buf = peali_text_read_buffer(scan);
    *(op.verb == PEALI_SEND ? &op.src : &op.dst) = buf;
    if (op.dst == PEAL_BUF_IN)
        peali_scan_fail(scan, "IN is written");
    peali_scan_want(scan, "[");
    op.first = peali_scan_number(scan, "the first block", 0, s->nblocks - 1);
    peali_scan_want(scan, ":");
    op.end = peali_scan_number(scan, "the end of the blocks", op.first + 1, s->nblocks);
    peali_scan_want(scan, ")");
    read_other(scan, s, &op);
    if (peali_scan_try(scan, " lane "))
        op.lane = (uint8_t)peali_scan_number(scan, "the lane", 1, PEAL_LANES - 1);
    peali_scan_want(scan, "\n");
    return op;
}

peal_status peali_sched_read(const char *text, size_t length, peal_sched **out, char *why)
{
    peali_scan scan;
    peali_scan_begin(&scan, text, length, why);
    peal_sched *s = peali_alloc(1, sizeof *s);
    if (!s)
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    read_head(&scan, s);
    while (!peali_scan_failed(&scan) && !peali_scan_try(&scan, "end\n")) {
        peali_op op = read_op(&scan, s);
        if (!peali_scan_failed(&scan))
            status = peali_sched_add(s, op);
        if (status != PEAL_OK)
            peali_scan_fail(&scan, "no memory");
    }
    peali_scan_end(&scan);
    if (status == PEAL_OK && peali_scan_failed(&scan))
        status = PEAL_ERR_INVALID;
    if (status == PEAL_OK)
        *out = s;
    else
        peali_sched_free(&s);
    return status;
}
