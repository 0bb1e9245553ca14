/*
 * All lists are run in list order, as in check, but only to number the messages: a send's level is that of the longest chain of
 * messages that ends before it. A receive whose data the receiver's next use adds to something is drawn as an addition.
 */
#include "study/draw.h"

#include <string.h>

#include "base/log.h"
#include "study/check_parts.h"

enum { LABEL = 10 }; /* "round 29", and two blanks */

typedef struct picture {
    peali_checking c;
    peali_check_case what;
    peali_check_report report;
    peal_sched **sched;
    peali_order *order;
    int32_t *level;  /* of each operation: messages in the longest chain that ends in it; -1: not run yet */
    int32_t *cursor; /* of each rank, for the run, then for the drawing of a round */
    int32_t nrounds;
} picture;

static peal_status build(picture *p, const peal_algo *algo, const peal_problem *problem)
{
    size_t n = (size_t)problem->nranks;
    p->sched = peali_arena_get(&p->c.arena, n, sizeof(peal_sched *));
    p->order = peali_arena_get(&p->c.arena, n, sizeof(peali_order));
    p->cursor = peali_arena_get(&p->c.arena, n, sizeof *p->cursor);
    if (!p->sched || !p->order || !p->cursor)
        return PEAL_ERR_MEMORY;
    for (int r = 0; r < problem->nranks; r++) {
        peal_status status = peali_sched_build(algo, problem, r, &p->sched[r]);
        if (status == PEAL_OK)
            status = peali_order_infer(p->sched[r], &p->order[r]);
        if (status != PEAL_OK)
            return status;
    }
    p->what = (peali_check_case){algo, problem, (const peal_sched *const *)p->sched, p->order};
    p->c.what = &p->what;
    p->c.report = &p->report;
    p->c.n = problem->nranks;
    p->c.nblocks = p->sched[0]->nblocks;
    peal_status status = peali_check_form(&p->c);
    if (status == PEAL_OK)
        status = peali_check_match(&p->c);
    if (status == PEAL_ERR_INVALID)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, -1, "%s", p->report.why);
    return status;
}

/* Levels of rank R's list as far as it can be run; true where it moved. */
static bool advance(picture *p, int r)
{
    const peali_order *o = &p->order[r];
    int32_t start = p->cursor[r], base = p->c.base[r];
    for (int32_t *i = &p->cursor[r]; *i < p->sched[r]->nops; (*i)++) {
        int32_t level = 0;
        if (p->sched[r]->ops[*i].verb == PEALI_RECV) {
            int32_t send = p->level[p->c.match[base + *i]];
            if (send < 0)
                break;
            level = send + 1;
        }
        for (int32_t e = o->start[*i]; e < o->start[*i + 1]; e++)
            if (p->level[base + o->from[e]] > level)
                level = p->level[base + o->from[e]];
        p->level[base + *i] = level;
        if (level > p->nrounds)
            p->nrounds = level;
    }
    return p->cursor[r] > start;
}

static peal_status run(picture *p)
{
    int32_t nops = p->c.base[p->c.n];
    p->level = peali_arena_get(&p->c.arena, (size_t)nops, sizeof *p->level);
    if (!p->level)
        return PEAL_ERR_MEMORY;
    memset(p->level, -1, (size_t)nops * sizeof *p->level);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < p->c.n; r++)
            moved |= advance(p, r);
    }
    for (int r = 0; r < p->c.n; r++)
        if (p->cursor[r] < p->sched[r]->nops) {
            peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, r, "%s: operation %d waits for ever", p->what.algo->name, (int)p->cursor[r]);
            return PEAL_ERR_INVALID;
        }
    return PEAL_OK;
}

static bool meets(const peali_op *a, int buf, const peali_op *b, int other)
{
    return buf == other && (buf >= PEAL_BUF_TMP || (a->first < b->end && b->first < a->end));
}

/* Is what receive I of rank R brings added to something, or something to it, before it is overwritten or copied? */
static bool adds(const picture *p, int r, int32_t i)
{
    const peali_op *recv = peali_check_op(&p->c, r, i);
    for (int32_t k = i + 1; k < p->sched[r]->nops; k++) {
        const peali_op *op = peali_check_op(&p->c, r, k);
        bool into = op->verb != PEALI_SEND && meets(recv, recv->dst, op, op->dst);
        bool from = op->verb >= PEALI_COPY && meets(recv, recv->dst, op, op->src);
        if (into || from)
            return op->verb == PEALI_REDUCE;
    }
    return false;
}

/* "3+>1": send I of rank R. */
static void word(const picture *p, int r, int32_t i, char text[48])
{
    const peali_op *op = peali_check_op(&p->c, r, i);
    bool sum = adds(p, op->peer, p->c.match[p->c.base[r] + i] - p->c.base[op->peer]);
    int at;
    if (op->end - op->first == p->c.nblocks)
        at = snprintf(text, 48, "*");
    else if (op->end - op->first == 1)
        at = snprintf(text, 48, "%d", (int)op->first);
    else
        at = snprintf(text, 48, "%d-%d", (int)op->first, (int)op->end - 1);
    snprintf(text + at, 48 - (size_t)at, "%s>%d", sum ? "+" : "", (int)op->peer);
}

static bool sends(const picture *p, int r, int32_t i, int32_t round)
{
    return p->sched[r]->ops[i].verb == PEALI_SEND && p->level[p->c.base[r] + i] == round;
}

/* The width of the longest word or rank, and a blank. */
static int column(const picture *p)
{
    char text[48];
    int widest = snprintf(text, sizeof text, "%d", p->c.n - 1);
    for (int r = 0; r < p->c.n; r++)
        for (int32_t i = 0; i < p->sched[r]->nops; i++) {
            if (p->sched[r]->ops[i].verb != PEALI_SEND)
                continue;
            word(p, r, i, text);
            int length = (int)strlen(text);
            widest = length > widest ? length : widest;
        }
    return widest + 1;
}

/* Ranks FIRST to END-1 in columns of WIDTH. */
typedef struct panel {
    picture *p;
    int first, end, width;
    int pad; /* blanks before the next word of the line */
    FILE *to;
} panel;

static void put(panel *q, const char *text, int width)
{
    if (text[0]) {
        fprintf(q->to, "%*s%s", q->pad, "", text);
        q->pad = 0;
    }
    q->pad += width - (int)strlen(text);
}

static void end_line(panel *q)
{
    fputc('\n', q->to);
    q->pad = 0;
}

/* The most messages that a rank of the panel sends in ROUND. */
static int count(const panel *q, int32_t round)
{
    int most = 0;
    for (int r = q->first; r < q->end; r++) {
        int n = 0;
        for (int32_t i = 0; i < q->p->sched[r]->nops; i++)
            n += sends(q->p, r, i, round);
        most = n > most ? n : most;
    }
    return most;
}

/* The next message of each rank in ROUND; in the first line of a round "." where a rank has none. */
static void put_messages(panel *q, int32_t round, bool first)
{
    picture *p = q->p;
    for (int r = q->first; r < q->end; r++) {
        char text[48];
        int32_t *i = &p->cursor[r];
        while (*i < p->sched[r]->nops && !sends(p, r, *i, round))
            (*i)++;
        strcpy(text, first ? "." : "");
        if (*i < p->sched[r]->nops)
            word(p, r, (*i)++, text);
        put(q, text, q->width);
    }
}

static void put_panel(panel *q)
{
    char text[24];
    put(q, "rank", LABEL);
    for (int r = q->first; r < q->end; r++) {
        snprintf(text, sizeof text, "%d", r);
        put(q, text, q->width);
    }
    end_line(q);
    for (int32_t round = 0; round < q->p->nrounds; round++) {
        memset(q->p->cursor, 0, (size_t)q->p->c.n * sizeof *q->p->cursor);
        snprintf(text, sizeof text, "round %d", (int)round);
        for (int k = 0, n = count(q, round); k < n || k == 0; k++) {
            put(q, k == 0 ? text : "", LABEL);
            put_messages(q, round, k == 0);
            end_line(q);
        }
    }
}

static void draw(picture *p, int columns, FILE *to)
{
    if (p->nrounds == 0) {
        fputs("no messages\n", to);
        return;
    }
    fputs("\"3>1\": sends block 3 to rank 1; \"3+>1\": rank 1 adds it to its own; *: all blocks\n", to);
    int width = column(p), fit = (columns - LABEL + 1) / width, panels = fit > 1 ? (p->c.n + fit - 1) / fit : p->c.n;
    int each = (p->c.n + panels - 1) / panels;
    for (int first = 0; first < p->c.n; first += each) {
        int end = first + each < p->c.n ? first + each : p->c.n;
        put_panel(&(panel){.p = p, .first = first, .end = end, .width = width, .to = to});
    }
}

peal_status peali_draw(const peal_algo *algo, const peal_problem *problem, int columns, FILE *to)
{
    picture p = {.nrounds = 0};
    peal_status status = build(&p, algo, problem);
    if (status == PEAL_OK)
        status = run(&p);
    if (status == PEAL_OK)
        draw(&p, columns, to);
    for (int r = 0; p.sched && p.order && r < problem->nranks; r++) {
        peali_order_free(&p.order[r]);
        peali_sched_free(&p.sched[r]);
    }
    peali_arena_free(&p.c.arena);
    return status;
}
