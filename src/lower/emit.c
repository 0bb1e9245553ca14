/*
 * Emission: an instruction joins its rank's list, and what it must wait for is inferred by the rule of schedules, now over
 * (rank, buffer, piece): conflicting accesses are ordered. Waits on other ranks become awaits of flags, pruned with vector clocks;
 * every one points back in the order of emission, which all ranks within reach compute alike.
 */
#include "lower/work.h"

#include <stdlib.h>
#include <string.h>

static void depend(peali_work *w, peali_rec *on)
{
    for (int32_t i = 0; i < w->deps.n; i++)
        if (w->deps.at[i] == on)
            return;
    peali_work_push(w, &w->deps, on);
}

static void look(peali_work *w, const peali_cell *c, bool writes)
{
    if (c->wrote)
        depend(w, c->wrote);
    for (const peali_link *l = writes ? c->read : NULL; l; l = l->next)
        depend(w, l->what);
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

/* Visits the cells of R's operands; enter writes all pieces of its rank, exit also its scratch. */
static void visit(peali_work *w, peali_rec *r, bool noting)
{
    peali_cell *mine = w->cells + (int64_t)r->rank * w->ncells;
    int32_t whole = r->i.kind == PEALI_I_ENTER ? w->npieces : r->i.kind == PEALI_I_EXIT ? w->ncells : 0;
    for (int32_t i = 0; i < whole; i++)
        noting ? note(w, &mine[i], r, true) : look(w, &mine[i], true);
    for (int32_t k = 0; k < r->i.nsrc + r->i.ndst; k++) {
        int32_t n;
        peali_cell *c = peali_work_cells(w, r->locs[k], r->i.first, r->i.end, &n);
        for (int32_t i = 0; i < n; i++)
            noting ? note(w, &c[i], r, k >= r->i.nsrc) : look(w, &c[i], k >= r->i.nsrc);
    }
}

static bool place(peali_work *w, peali_rec *r)
{
    size_t n = (size_t)w->deps.n;
    r->no = w->code[r->rank].n;
    r->seq = w->nrecs++;
    r->waits = peali_work_get(w, n, sizeof(peali_rec *));
    r->awaits = peali_work_get(w, n, sizeof(peali_rec *));
    r->clock = peali_work_get(w, (size_t)w->reach->nranks, sizeof *r->clock);
    if (!r->waits || !r->awaits || !r->clock)
        return false;
    if (r->no > 0)
        memcpy(r->clock, ((peali_rec *)w->code[r->rank].at[r->no - 1])->clock, (size_t)w->reach->nranks * sizeof *r->clock);
    peali_work_push(w, &w->code[r->rank], r);
    return !w->failed;
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

static void await_other(peali_work *w, peali_rec *r, peali_rec *j)
{
    if (r->clock[j->rank] > j->no)
        return;
    r->awaits[r->i.nawaits++] = j;
    j->i.flag = 0;
    merge(w, r, j);
}

static int by_age(const void *a, const void *b)
{
    const peali_rec *x = *(peali_rec *const *)a, *y = *(peali_rec *const *)b;
    return (x->seq < y->seq) - (x->seq > y->seq);
}

/* Orders R after the deps of the workbench, the youngest first, so that it prunes the others. */
static void order(peali_work *w, peali_rec *r)
{
    if (w->deps.n > 1)
        qsort(w->deps.at, (size_t)w->deps.n, sizeof *w->deps.at, by_age);
    for (int32_t i = 0; i < w->deps.n; i++) {
        peali_rec *j = w->deps.at[i];
        if (j->rank == r->rank)
            wait_own(r, j);
        else
            await_other(w, r, j);
    }
    r->clock[r->rank] = r->no + 1;
}

static peali_rec *create(peali_work *w, int32_t rank, peali_instr instr, const peali_loc *locs)
{
    peali_rec *r = peali_work_get(w, 1, sizeof *r);
    if (r)
        *r = (peali_rec){.i = instr, .rank = rank, .locs = locs, .async = instr.kind == PEALI_I_SEND || instr.kind == PEALI_I_RECV};
    return r;
}

/* The instruction of J's rank after which J is over and that can raise a flag: J itself, or for a message one that waits for it. */
static peali_rec *settled(peali_work *w, peali_rec *j)
{
    if (!j->async)
        return j;
    if (j->waiter)
        return j->waiter;
    peali_rec *r = create(w, j->rank, (peali_instr){.kind = PEALI_I_REDUCE, .peer = -1, .flag = -1}, NULL);
    peali_vec asking = w->deps;
    w->deps = (peali_vec){0};
    depend(w, j);
    if (r && place(w, r))
        order(w, r);
    w->deps = asking;
    j->waiter = r;
    return r;
}

peali_rec *peali_emit(peali_work *w, int32_t rank, peali_instr instr, const peali_loc *locs)
{
    peali_rec *r = create(w, rank, instr, locs);
    if (!r)
        return NULL;
    w->deps.n = 0;
    visit(w, r, false);
    for (int32_t i = 0; i < w->deps.n && !w->failed; i++) {
        peali_rec *j = w->deps.at[i];
        if (j->rank != rank)
            w->deps.at[i] = settled(w, j);
    }
    if (w->failed || !place(w, r))
        return NULL;
    order(w, r);
    visit(w, r, true);
    return r;
}
