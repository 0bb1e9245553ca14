/*
 * Emission: an instruction joins its rank's list, and what it must wait for is inferred by the rule of schedules, now over
 * (rank, buffer, piece): conflicting accesses are ordered. Waits on other ranks become awaits of flags, pruned with vector clocks;
 * every one points back in the order of emission, which all ranks within reach compute alike.
 */
#include "lower/work.h"

#include <stdlib.h>
#include <string.h>

/* R comes after ON. */
static void depend(peali_work *w, peali_rec *r, peali_vec *deps, peali_rec *on)
{
    if (on->asker == r)
        return;
    on->asker = r;
    peali_work_push(w, deps, on);
}

static void look(peali_work *w, peali_rec *r, peali_vec *deps, const peali_cell *c, bool writes)
{
    if (c->wrote) {
        depend(w, r, deps, c->wrote);
        c->wrote->i.reread |= !writes;
    }
    for (const peali_link *l = writes ? c->read : NULL; l; l = l->next)
        depend(w, r, deps, l->what);
}

static void note(peali_work *w, peali_cell *c, peali_rec *r, bool writes)
{
    if (writes) {
        c->wrote = r;
        c->read = NULL;
    } else {
        peali_work_link(w, &c->read, r);
    }
}

/* Visits the cells of R's operands; enter writes all pieces of its rank, exit also its scratch. DEPS: gather; NULL: note R. */
static void visit(peali_work *w, peali_rec *r, peali_vec *deps)
{
    peali_cell *mine = w->cells + (int64_t)r->rank * w->ncells;
    int32_t whole = r->i.kind == PEALI_I_ENTER ? w->npieces : r->i.kind == PEALI_I_EXIT ? w->ncells : 0;
    for (int32_t i = 0; i < whole; i++)
        deps ? look(w, r, deps, &mine[i], true) : note(w, &mine[i], r, true);
    for (int32_t k = 0; k < r->i.nsrc + r->i.ndst; k++) {
        int32_t n;
        peali_cell *c = peali_work_cells(w, r->locs[k], r->i.first, r->i.end, &n);
        for (int32_t i = 0; i < n; i++)
            deps ? look(w, r, deps, &c[i], k >= r->i.nsrc) : note(w, &c[i], r, k >= r->i.nsrc);
    }
}

static void place(peali_work *w, peali_rec *r, size_t ndeps)
{
    size_t n = (size_t)w->reach->nranks;
    r->no = w->code[r->rank].n;
    r->seq = w->nrecs++;
    r->waits = peali_work_get(w, ndeps, sizeof(peali_rec *));
    r->awaits = peali_work_get(w, ndeps, sizeof(peali_rec *));
    r->clock = peali_work_get(w, n, sizeof *r->clock);
    if (r->no > 0)
        memcpy(r->clock, ((peali_rec *)w->code[r->rank].at[r->no - 1])->clock, n * sizeof *r->clock);
    peali_work_push(w, &w->code[r->rank], r);
}

static void merge(peali_work *w, peali_rec *r, const peali_rec *j)
{
    for (int32_t x = 0; x < w->reach->nranks; x++)
        if (r->clock[x] < j->clock[x])
            r->clock[x] = j->clock[x];
}

static void wait_own(peali_rec *r, peali_rec *j)
{
    if (!j->async || j->waited)
        return;
    r->waits[r->i.nwaits++] = j;
    j->waited = true;
    if (!r->async)
        j->waiter = r;
}

/* Push needs no await: the flag lies beside the data that the instruction reads. */
static void await_other(peali_work *w, peali_rec *r, peali_rec *j)
{
    if (r->clock[j->rank] > j->no)
        return;
    if (w->mode != PEALI_PUSH) {
        r->awaits[r->i.nawaits++] = j;
        j->i.flag = 0;
    }
    merge(w, r, j);
}

static int by_age(const void *a, const void *b)
{
    const peali_rec *x = *(peali_rec *const *)a, *y = *(peali_rec *const *)b;
    return (x->seq < y->seq) - (x->seq > y->seq);
}

/* Orders R after DEPS, the youngest first, so that it prunes the others. */
static void order(peali_work *w, peali_rec *r, const peali_vec *deps)
{
    if (deps->n > 1)
        qsort(deps->at, (size_t)deps->n, sizeof *deps->at, by_age);
    for (int32_t i = 0; i < deps->n; i++) {
        peali_rec *j = deps->at[i];
        if (j->rank == r->rank)
            wait_own(r, j);
        else
            await_other(w, r, j);
    }
    r->clock[r->rank] = r->no + 1;
}

static peali_rec *create(peali_work *w, int32_t rank, peali_instr instr, peali_loc *locs, int32_t event)
{
    peali_rec *r = peali_work_get(w, 1, sizeof *r);
    peali_events *events = peali_work_get(w, (size_t)w->nwords, sizeof *events);
    *r = (peali_rec){.i = instr, .rank = rank, .locs = locs, .events = events, .event = event};
    r->async = instr.kind == PEALI_I_SEND || instr.kind == PEALI_I_RECV;
    return r;
}

/* The events before R: those of its rank's instructions so far, of what it depends on, and of the messages it waits for. */
static void gather_events(peali_work *w, peali_rec *r, const peali_vec *deps)
{
    if (w->nevents == 0)
        return;
    peali_events_join(w, r->events, w->now[r->rank]);
    for (int32_t i = 0; i < deps->n; i++) {
        const peali_rec *j = deps->at[i];
        peali_events_join(w, r->events, j->events);
        peali_events_add(r->events, j->event);
    }
}

/* Stores what must come before R, and as R then comes after that too, what must come before it for that reason. */
static void store_before(peali_work *w, peali_rec *r, const peali_vec *deps)
{
    gather_events(w, r, deps);
    while (w->nevents > 0) {
        peali_fuse_before(w, r->rank, r->events);
        if (peali_events_within(w, w->now[r->rank], r->events))
            return;
        peali_events_join(w, r->events, w->now[r->rank]);
    }
}

/* The instruction of J's rank after which J is over and that can raise a flag: J itself, or for a message one that waits for it. */
static peali_rec *settled(peali_work *w, peali_rec *j)
{
    if (!j->async)
        return j;
    if (j->waiter)
        return j->waiter;
    peali_rec *r = create(w, j->rank, (peali_instr){.kind = PEALI_I_REDUCE, .peer = -1, .flag = -1}, NULL, -1);
    peali_vec deps = {0};
    depend(w, r, &deps, j);
    store_before(w, r, &deps);
    place(w, r, 1);
    order(w, r, &deps);
    if (w->nevents > 0)
        peali_events_join(w, w->now[r->rank], r->events);
    j->waiter = r;
    return r;
}

/*
 * The memory at LOC is about to be read by another rank: a message that is arriving there is waited for now, where its rank stands
 * in list order, and not when that other rank comes to read it, by when its rank may have waited for more.
 */
void peali_emit_settle(peali_work *w, peali_loc loc, int32_t first, int32_t end)
{
    int32_t n;
    const peali_cell *c = peali_work_cells(w, loc, first, end, &n);
    for (int32_t i = 0; i < n; i++)
        if (c[i].wrote && c[i].wrote->rank == loc.rank)
            settled(w, c[i].wrote);
}

/* A slice is left when all its messages are over, also those whose memory nobody touches again. */
static void depend_on_messages(peali_work *w, peali_rec *r, peali_vec *deps)
{
    for (int32_t k = 0; k < w->code[r->rank].n; k++) {
        peali_rec *j = w->code[r->rank].at[k];
        if (j->async && !j->waited)
            depend(w, r, deps, j);
    }
}

peali_rec *peali_emit(peali_work *w, int32_t rank, peali_instr instr, peali_loc *locs, int32_t event)
{
    peali_rec *r = create(w, rank, instr, locs, event);
    peali_vec deps = {0};
    visit(w, r, &deps);
    if (instr.kind == PEALI_I_EXIT)
        depend_on_messages(w, r, &deps);
    for (int32_t i = 0; i < deps.n; i++) {
        peali_rec *j = deps.at[i];
        if (j->rank != rank && w->mode != PEALI_PUSH)
            deps.at[i] = settled(w, j);
    }
    store_before(w, r, &deps);
    place(w, r, (size_t)deps.n);
    order(w, r, &deps);
    visit(w, r, NULL);
    if (w->nevents > 0) {
        peali_events_join(w, w->now[rank], r->events);
        if (r->async && !peali_events_within(w, r->events, w->list_order[rank]))
            w->bad = true;
    }
    return r;
}

/* Does anybody read one of the cells of LOC later? A piece of OUT that is written here is then not read any more. */
static bool wanted(peali_work *w, const peali_rec *r, peali_loc loc, bool *live)
{
    int32_t n;
    const peali_cell *c = peali_work_cells(w, loc, r->i.first, r->i.end, &n);
    int64_t at = c - (w->cells + (int64_t)loc.rank * w->ncells);
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        any |= live[at + i];
        live[at + i] &= loc.buf >= PEAL_BUF_TMP;
    }
    return any;
}

static void mark_read(peali_work *w, const peali_rec *r, bool *live)
{
    for (int32_t k = 0; k < r->i.nsrc; k++) {
        int32_t n;
        if (r->locs[k].buf < 0)
            continue;
        const peali_cell *c = peali_work_cells(w, r->locs[k], r->i.first, r->i.end, &n);
        memset(live + (c - (w->cells + (int64_t)r->rank * w->ncells)), 1, (size_t)n);
    }
}

static void prune_rank(peali_work *w, int32_t x)
{
    bool *live = peali_work_get(w, (size_t)w->ncells, sizeof *live);
    memset(live, 1, (size_t)w->npieces);
    for (int32_t no = w->code[x].n - 1; no >= 0; no--) {
        peali_rec *r = w->code[x].at[no];
        uint16_t kept = r->i.nsrc;
        for (int32_t k = r->i.nsrc; k < r->i.nsrc + r->i.ndst; k++)
            if (r->locs[k].buf < 0 || wanted(w, r, r->locs[k], live))
                r->locs[kept++] = r->locs[k];
        r->i.ndst = (uint16_t)(kept - r->i.nsrc);
        mark_read(w, r, live);
    }
}

void peali_emit_prune(peali_work *w)
{
    for (int32_t x = 0; x < w->reach->nranks; x++)
        prune_rank(w, x);
}
