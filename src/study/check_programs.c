/*
 * The frame of the proofs of programs: the schedules and what they compute, the proofs one after another, counterexamples in words.
 */
#include "study/check_programs.h"

#include <stdarg.h>
#include <string.h>

#include "study/check_programs_parts.h"

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
    size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - at, format, args);
    va_end(args);
}

static void append_operand(const peali_proving *p, int rank, peali_loc loc, char *text, size_t size)
{
    char name[24];
    if (loc.buf < 0)
        append(text, size, "landing slot %d", -1 - loc.buf);
    else
        append(text, size, "%s", peali_check_buffer(name, loc.buf));
    if (loc.rank != p->program[rank]->me)
        append(text, size, " of rank %d", (int)p->near[rank][loc.rank]);
}

static void append_operands(const peali_proving *p, int rank, const peali_loc *locs, int n, char *text)
{
    enum { SHOWN = 4, SIZE = 256 };
    for (int k = 0; k < n && k < SHOWN; k++) {
        append(text, SIZE, "%s", k ? ", " : " ");
        append_operand(p, rank, locs[k], text, SIZE);
    }
    if (n > SHOWN)
        append(text, SIZE, " and %d more", n - SHOWN);
}

void peali_proving_words(const peali_proving *p, int rank, int no, char *text, size_t size)
{
    const peali_program *program = p->program[rank];
    const peali_instr *i = &program->instrs[no];
    const peali_loc *locs = program->locs + i->locs;
    char from[256] = "", to[256] = "", blocks[48];
    append_operands(p, rank, locs, i->nsrc, from);
    append_operands(p, rank, locs + i->nsrc, i->ndst, to);
    bool ranged = i->first >= 0 && i->first < i->end && i->end < program->ncuts;
    peali_check_blocks(blocks, ranged ? program->cuts[i->first] : 0, ranged ? program->cuts[i->end] : 0);
    if (i->kind == PEALI_I_ENTER || i->kind == PEALI_I_EXIT)
        snprintf(text, size, "%s%s", i->kind == PEALI_I_ENTER ? "enter" : "exit", from);
    else if (peali_proving_async(i))
        snprintf(text, size, "%s%s%s, %s, rank %d, lane %d", i->kind == PEALI_I_SEND ? "send" : "recv", from, to, blocks,
                 (int)i->peer, i->lane);
    else if (i->nsrc == 0)
        snprintf(text, size, "wait");
    else
        snprintf(text, size, "%s%s to%s, %s", i->nsrc == 1 ? "copy" : "reduce", from, to, blocks);
}

peal_status peali_proving_refute(peali_proving *p, int rank, int no, const char *format, ...)
{
    char *text = p->report->why, words[400];
    size_t size = sizeof p->report->why;
    peali_check_say_case(text, size, &p->truth->what);
    append(text, size, ", %s, rank %d", peali_mode_name(p->mode), rank);
    if (no >= 0) {
        peali_proving_words(p, rank, no, words, sizeof words);
        append(text, size, ", instruction %d (%s)", no, words);
    }
    append(text, size, ": ");
    size_t at = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - at, format, args);
    va_end(args);
    return PEAL_ERR_INVALID;
}

static peal_status run_schedules(peali_truth *t)
{
    peal_status (*const proofs[])(peali_checking *) = {peali_check_form, peali_check_match, peali_check_run};
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
        if (proofs[i] == peali_check_run) {
            t->c.final = peali_arena_get(&t->arena, (size_t)t->c.n * (size_t)t->c.npieces, sizeof *t->c.final);
            if (!t->c.final)
                return PEAL_ERR_MEMORY;
        }
        peal_status status = proofs[i](&t->c);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

static peal_status build_schedules(peali_truth *t, peal_sched **sched, peali_order *order)
{
    for (int r = 0; r < t->what.problem->nranks; r++) {
        peal_status status = peali_sched_build(t->what.algo, t->what.problem, r, &sched[r]);
        if (status == PEAL_OK)
            status = peali_order_infer(sched[r], &order[r]);
        if (status != PEAL_OK)
            return status;
    }
    return PEAL_OK;
}

peal_status peali_truth_make(const peal_algo *algo, const peal_problem *problem, const int *host, peali_programs_report *report,
                             peali_truth **out)
{
    peali_arena arena = {NULL};
    size_t n = (size_t)problem->nranks;
    memset(report, 0, sizeof *report);
    peali_truth *t = peali_arena_get(&arena, 1, sizeof *t);
    peal_sched **sched = peali_arena_get(&arena, n, sizeof(peal_sched *));
    peali_order *order = peali_arena_get(&arena, n, sizeof(peali_order));
    if (!t || !sched || !order) {
        peali_arena_free(&arena);
        return PEAL_ERR_MEMORY;
    }
    t->arena = arena;
    t->host = host;
    t->what = (peali_check_case){algo, problem, (const peal_sched *const *)sched, order};
    peal_status status = build_schedules(t, sched, order);
    if (status == PEAL_OK) {
        t->c = (peali_checking){.what = &t->what, .report = &t->found, .n = problem->nranks, .nblocks = sched[0]->nblocks};
        status = run_schedules(t);
    }
    if (status == PEAL_ERR_INVALID)
        snprintf(report->why, sizeof report->why, "%s", t->found.why[0] ? t->found.why : "a bad argument, see the log");
    if (status == PEAL_OK)
        *out = t;
    else
        peali_truth_free(&t);
    return status;
}

void peali_truth_free(peali_truth **truth)
{
    if (!*truth)
        return;
    peali_truth *t = *truth;
    for (int r = 0; r < t->what.problem->nranks; r++) {
        peali_order_free((peali_order *)&t->what.order[r]);
        peali_sched_free((peal_sched **)&t->what.sched[r]);
    }
    peali_arena arena = t->arena; /* it lies in its own arena */
    peali_arena_free(&t->c.arena);
    peali_arena_free(&arena);
    *truth = NULL;
}

static bool within_reach(const peali_truth *t, int a, int b)
{
    const int *host = t->host ? t->host : t->what.problem->node;
    return !host || host[a] == host[b];
}

/* The ranks within reach of RANK, itself among them: how many. */
static int gather_near(const peali_truth *t, int rank, int32_t *near)
{
    int n = 0;
    for (int r = 0; r < t->what.problem->nranks; r++)
        if (within_reach(t, rank, r))
            near[n++] = r;
    return n;
}

/* Those of the first rank that has no program yet. */
static peal_status lower_next(const peali_truth *t, peali_mode mode, int first, int32_t *near, peali_program **made,
                              peali_program **programs)
{
    peali_reach reach = {gather_near(t, first, near), near, mode};
    peal_status status = peali_lower_all(t->what.algo, t->what.problem, &reach, made);
    for (int x = 0; x < reach.nranks && status == PEAL_OK; x++)
        programs[near[x]] = made[x];
    return status;
}

peal_status peali_programs_lower(const peali_truth *truth, peali_mode mode, peali_program **programs)
{
    const peal_problem *problem = truth->what.problem;
    int32_t *near = peali_alloc((size_t)problem->nranks, sizeof *near);
    peali_program **made = peali_alloc((size_t)problem->nranks, sizeof *made);
    peal_status status = near && made ? PEAL_OK : PEAL_ERR_MEMORY;
    memset(programs, 0, (size_t)problem->nranks * sizeof *programs);
    for (int r = 0; r < problem->nranks && status == PEAL_OK; r++)
        if (!programs[r])
            status = lower_next(truth, mode, r, near, made, programs);
    for (int r = 0; status != PEAL_OK && r < problem->nranks; r++)
        peali_program_free(&programs[r]);
    peali_free(near);
    peali_free(made);
    return status;
}

/* Who is within reach of whom. */
static bool find_domains(peali_proving *p)
{
    size_t n = (size_t)p->n;
    p->domain = peali_arena_get(&p->arena, n, sizeof *p->domain);
    p->near = peali_arena_get(&p->arena, n, sizeof *p->near);
    p->nnear = peali_arena_get(&p->arena, n, sizeof *p->nnear);
    p->place = peali_arena_get(&p->arena, n, sizeof *p->place);
    int32_t *all = peali_arena_get(&p->arena, n, sizeof *all);
    if (!p->domain || !p->near || !p->nnear || !p->place || !all)
        return false;
    for (int r = 0; r < p->n; r++) {
        if (p->nnear[r] > 0)
            continue;
        int count = gather_near(p->truth, r, all);
        for (int x = 0; x < count; x++) {
            p->domain[all[x]] = r;
            p->near[all[x]] = all;
            p->nnear[all[x]] = count;
            p->place[all[x]] = x;
        }
        all += count;
    }
    return true;
}

/* Numbers, and the tables that form fills. */
static bool prepare(peali_proving *p)
{
    size_t n = (size_t)p->n, ninstrs, nflags;
    p->piece = peali_arena_get(&p->arena, n, sizeof *p->piece);
    p->clock = peali_arena_get(&p->arena, n, sizeof *p->clock);
    p->base = peali_arena_get(&p->arena, n + 1, sizeof *p->base);
    p->flags = peali_arena_get(&p->arena, n + 1, sizeof *p->flags);
    p->lands = peali_arena_get(&p->arena, n + 1, sizeof *p->lands);
    if (!find_domains(p) || !p->piece || !p->clock || !p->base || !p->flags || !p->lands)
        return false;
    for (int r = 0; r < p->n; r++) {
        p->base[r + 1] = p->base[r] + p->program[r]->ninstrs;
        p->flags[r + 1] = p->flags[r] + p->program[r]->nflags;
    }
    ninstrs = (size_t)p->base[n];
    nflags = (size_t)p->flags[n];
    p->rank = peali_arena_get(&p->arena, ninstrs, sizeof *p->rank);
    p->op = peali_arena_get(&p->arena, ninstrs, sizeof *p->op);
    p->match = peali_arena_get(&p->arena, ninstrs, sizeof *p->match);
    p->waiter = peali_arena_get(&p->arena, ninstrs, sizeof *p->waiter);
    p->sequence = peali_arena_get(&p->arena, ninstrs, sizeof *p->sequence);
    p->flag = peali_arena_get(&p->arena, nflags, sizeof *p->flag);
    if (!p->rank || !p->op || !p->match || !p->waiter || !p->sequence || !p->flag)
        return false;
    memset(p->op, -1, ninstrs * sizeof *p->op);
    memset(p->match, -1, ninstrs * sizeof *p->match);
    memset(p->waiter, -1, ninstrs * sizeof *p->waiter);
    memset(p->flag, -1, nflags * sizeof *p->flag);
    p->report->instrs = p->base[n];
    return true;
}

peal_status peali_programs_check(const peali_truth *truth, peali_mode mode, const peali_program *const *programs,
                                 peali_programs_report *report)
{
    peal_status (*const proofs[])(peali_proving *) = {peali_programs_form, peali_programs_messages, peali_programs_run,
                                                      peali_programs_events};
    peali_proving p = {.truth = truth, .mode = mode, .program = programs, .report = report, .n = truth->c.n};
    memset(report, 0, sizeof *report);
    peal_status status = prepare(&p) ? PEAL_OK : PEAL_ERR_MEMORY;
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs && status == PEAL_OK; i++)
        status = proofs[i](&p);
    peali_arena_free(&p.arena);
    return status;
}
