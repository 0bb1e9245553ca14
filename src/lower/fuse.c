/*
 * Fusing by pending values: an operation does not become an instruction at once, but a value that is known and not stored yet;
 * later operations look through it or add to it, and it is stored when somebody must see it in memory. Fusing never reorders
 * reductions: a pending sum that is used as a source is stored first. Source: LOWERING, "Fusing: pending values".
 */
#include "lower/work.h"

#include <string.h>

static bool meets(const peali_pending *p, int32_t first, int32_t end)
{
    return p->live && p->first < end && first < p->end;
}

static void add(peali_work *w, peali_loc **list, int32_t *n, int32_t *cap, peali_loc loc)
{
    if (*n == *cap) {
        int32_t grown = *cap ? 2 * *cap : 2;
        peali_loc *copy = peali_work_get(w, (size_t)grown, sizeof *copy);
        if (*n)
            memcpy(copy, *list, (size_t)*n * sizeof *copy);
        *list = copy;
        *cap = grown;
    }
    (*list)[(*n)++] = loc;
}

static void index_at(peali_work *w, peali_pending *p, peali_loc loc, bool writes)
{
    int32_t n;
    peali_cell *c = peali_work_cells(w, loc, p->first, p->end, &n);
    for (int32_t i = 0; i < n; i++)
        peali_work_link(w, writes ? &c[i].writers : &c[i].readers, p);
}

static void add_src(peali_work *w, peali_pending *p, peali_loc loc)
{
    add(w, &p->src, &p->nsrc, &p->src_cap, loc);
    index_at(w, p, loc, false);
    p->after = w->outgoing[p->exec].sent.n;
}

static void add_dst(peali_work *w, peali_pending *p, peali_loc loc)
{
    add(w, &p->dst, &p->ndst, &p->dst_cap, loc);
    index_at(w, p, loc, true);
}

/* Another rank relies on P from here on: what P may wait for is bounded by what its rank has waited for in list order. */
static void publish(peali_work *w, peali_pending *p, const peali_events *allowed)
{
    if (w->nevents == 0)
        return;
    if (p->allowed) {
        for (int32_t i = 0; i < w->nwords; i++)
            p->allowed[i] &= allowed[i];
        return;
    }
    p->allowed = peali_work_get(w, (size_t)w->nwords, sizeof *p->allowed);
    peali_events_join(w, p->allowed, allowed);
}

/* May rank RANK, where it stands in list order, be made to run P's share of work? */
static bool may_carry(const peali_work *w, const peali_pending *p, int32_t rank)
{
    return w->nevents == 0 || !p->allowed || peali_events_within(w, w->list_order[rank], p->allowed);
}

static peali_pending *born(peali_work *w, int32_t exec, int32_t first, int32_t end)
{
    peali_pending *p = peali_work_get(w, 1, sizeof *p);
    *p = (peali_pending){.exec = exec, .first = first, .end = end, .live = true};
    peali_work_push(w, &w->pendings, p);
    peali_work_push(w, &w->run_by[exec], p);
    return p;
}

static peali_pending *fresh(peali_work *w, const peali_move *m, peali_loc src)
{
    peali_pending *p = born(w, m->rank, m->first, m->end);
    add_src(w, p, src);
    add_dst(w, p, m->d);
    return p;
}

static void store(peali_work *w, peali_pending *p);

/* What a rank sent before it had all sources of P goes out before P waits for them. */
static void store_outgoing(peali_work *w, const peali_pending *p)
{
    peali_outgoing *out = &w->outgoing[p->exec];
    while (out->stored < p->after)
        store(w, out->sent.at[out->stored++]);
}

/* A landing slot is read: whatever writes it is stored first. */
static void fill_slot(peali_work *w, peali_loc loc)
{
    if (loc.buf >= 0)
        return;
    peali_landing *slot = w->landings[loc.rank].at[-1 - loc.buf];
    slot->read = true;
    for (peali_link *l = slot->cell.writers; l; l = l->next)
        store(w, l->what);
}

static void store(peali_work *w, peali_pending *p)
{
    if (!p->live)
        return;
    p->live = false;
    store_outgoing(w, p);
    for (int32_t i = 0; i < p->nsrc; i++)
        fill_slot(w, p->src[i]);
    int32_t n = p->nsrc + p->ndst;
    peali_loc *locs = peali_work_get(w, (size_t)n, sizeof *locs);
    memcpy(locs, p->src, (size_t)p->nsrc * sizeof *locs);
    memcpy(locs + p->nsrc, p->dst, (size_t)p->ndst * sizeof *locs);
    peali_instr i = {.kind = PEALI_I_REDUCE, .nsrc = (uint16_t)p->nsrc, .ndst = (uint16_t)p->ndst, .peer = -1, .flag = -1};
    i.first = p->first;
    i.end = p->end;
    peali_emit(w, p->exec, i, locs, -1);
}

/* The part of P on [first, end) as a pending of its own; what is left stays P, or P and one more. */
static peali_pending *carve(peali_work *w, peali_pending *p, int32_t first, int32_t end)
{
    int32_t ranges[3][2] = {{p->first, first}, {end, p->end}, {first, end}};
    peali_pending *part = NULL;
    p->live = false;
    for (int k = 0; k < 3; k++) {
        if (ranges[k][0] >= ranges[k][1])
            continue;
        part = born(w, p->exec, ranges[k][0], ranges[k][1]);
        if (p->allowed)
            publish(w, part, p->allowed);
        for (int32_t i = 0; i < p->nsrc; i++)
            add_src(w, part, p->src[i]);
        part->after = p->after;
        for (int32_t i = 0; i < p->ndst; i++)
            add_dst(w, part, p->dst[i]);
    }
    return part;
}

static bool writes(const peali_pending *p, peali_loc loc)
{
    for (int32_t i = 0; i < p->ndst; i++)
        if (p->dst[i].rank == loc.rank && p->dst[i].buf == loc.buf)
            return true;
    return false;
}

/* A landing slot has one flag, so what fills it is one instruction. */
static bool whole(const peali_pending *p)
{
    for (int32_t i = 0; i < p->ndst; i++)
        if (p->dst[i].buf < 0)
            return true;
    return false;
}

/*
 * The pending value that is LOC on [first, end), or NULL where memory has it. A larger one is split; any other that overlaps is
 * stored.
 */
static peali_pending *exact(peali_work *w, peali_loc loc, int32_t first, int32_t end)
{
    int32_t n;
    peali_cell *c = peali_work_cells(w, loc, first, end, &n);
    for (int32_t i = 0; i < n; i++)
        for (peali_link *l = c[i].writers; l; l = l->next) {
            peali_pending *p = l->what;
            if (!meets(p, first, end) || !writes(p, loc))
                continue;
            if (p->first == first && p->end == end)
                return p;
            if (p->first <= first && end <= p->end && !whole(p))
                return carve(w, p, first, end);
            store(w, p);
        }
    return NULL;
}

static void drop(peali_pending *p, peali_loc d)
{
    for (int32_t i = 0; i < p->ndst; i++)
        if (p->dst[i].rank == d.rank && p->dst[i].buf == d.buf)
            p->dst[i--] = p->dst[--p->ndst];
    if (p->ndst == 0)
        p->live = false;
}

static void sweep(peali_link **list)
{
    while (*list) {
        const peali_pending *p = (*list)->what;
        if (p->live)
            list = &(*list)->next;
        else
            *list = (*list)->next;
    }
}

/* Stores what reads D, or in its place IN, which may be the same, unless it dies with D. Scratch is overwritten whole. */
static void store_readers(peali_work *w, peali_link *readers, peali_move to, const peali_pending *self)
{
    for (peali_link *l = readers; l; l = l->next) {
        peali_pending *p = l->what;
        bool dies = p->ndst == 1 && peali_loc_same(p->dst[0], to.d) && p->first >= to.first && p->end <= to.end;
        bool touched = to.d.buf >= PEAL_BUF_TMP ? p->live : meets(p, to.first, to.end);
        if (p != self && touched && !dies)
            store(w, p);
    }
}

static void drop_writers(peali_work *w, peali_link *writers, peali_move to, const peali_pending *self)
{
    for (peali_link *l = writers; l; l = l->next) {
        peali_pending *p = l->what;
        bool tmp = to.d.buf >= PEAL_BUF_TMP;
        if (p == self || !(tmp ? p->live : meets(p, to.first, to.end)) || !writes(p, to.d))
            continue;
        bool part = !tmp && (p->first < to.first || p->end > to.end);
        if (part && whole(p)) {
            store(w, p);
            continue;
        }
        if (part)
            p = carve(w, p, p->first > to.first ? p->first : to.first, p->end < to.end ? p->end : to.end);
        drop(p, to.d);
    }
}

static void overwrite(peali_work *w, const peali_move *m, const peali_pending *self)
{
    int32_t n;
    peali_cell *c = peali_work_cells(w, m->d, m->first, m->end, &n);
    for (int32_t i = 0; i < n; i++) {
        store_readers(w, c[i].readers, *m, self);
        drop_writers(w, c[i].writers, *m, self);
        sweep(&c[i].readers);
        sweep(&c[i].writers);
    }
}

/* Overwrites M->d. Is P still pending then? What is stored for that may come after P. */
static bool kept(peali_work *w, const peali_move *m, const peali_pending *p)
{
    overwrite(w, m, p);
    return p->live;
}

/* What may be read in place of S where P is pending there: P's only source, unless that would make RANK wait too early. */
static peali_loc look_through(peali_work *w, peali_pending *p, peali_loc s, int32_t rank)
{
    if (p->nsrc == 1 && (p->src[0].rank == rank || may_carry(w, p, rank)))
        return p->src[0];
    store(w, p);
    return s;
}

/* Does P read D's scratch buffer as other blocks than D names? One instruction cannot do both. */
static bool shifts(const peali_pending *p, peali_loc d)
{
    for (int32_t i = 0; i < p->nsrc && d.buf >= PEAL_BUF_TMP; i++)
        if (p->src[i].rank == d.rank && p->src[i].buf == d.buf && p->src[i].base != d.base)
            return true;
    return false;
}

static void copy(peali_work *w, const peali_move *m)
{
    peali_pending *p = exact(w, m->s, m->first, m->end);
    if (p && (shifts(p, m->d) || (p->nsrc > 1 && p->exec != m->rank))) { /* nobody stores into another rank's scratch */
        store(w, p);
        p = NULL;
    }
    bool dead = m->dead && m->s.buf >= PEAL_BUF_TMP;
    if (p && p->nsrc > 1 && kept(w, m, p)) {
        drop(p, m->d); /* it may have it already, or as other blocks */
        add_dst(w, p, m->d);
        p->live = true;
        if (dead)
            drop(p, m->s);
        return;
    }
    if (p && !p->live)
        p = NULL;
    peali_loc src = p ? look_through(w, p, m->s, m->rank) : m->s;
    if (p && dead)
        drop(p, m->s);
    overwrite(w, m, NULL);
    if (peali_loc_same(src, m->d))
        return;
    peali_pending *q = fresh(w, m, src);
    if (p && p->allowed && src.rank != m->rank)
        publish(w, q, p->allowed);
}

static void pull(peali_work *w, const peali_move *m)
{
    peali_pending *p = exact(w, m->s, m->first, m->end);
    peali_loc src = m->s;
    bool carried = w->nevents == 0 || peali_events_within(w, w->list_order[m->rank], w->list_order[m->from]);
    bool in_hand = p && (p->nsrc > 1 || w->mode == PEALI_PLACE) && p->exec == m->from;
    if (in_hand && m->d.buf == PEAL_BUF_OUT && carried && kept(w, m, p)) {
        add_dst(w, p, m->d);
        publish(w, p, m->sent);
        publish(w, p, w->list_order[m->rank]);
        return;
    }
    if (p && p->nsrc == 1 && p->src[0].rank == m->from && m->s.buf < PEAL_BUF_TMP)
        src = p->src[0];
    else if (p)
        store(w, p);
    overwrite(w, m, NULL);
    publish(w, fresh(w, m, src), w->list_order[m->rank]);
}

void peali_fuse_move(peali_work *w, const peali_move *m)
{
    if (m->rank == m->from) {
        copy(w, m);
    } else if (w->mode != PEALI_PUSH) {
        pull(w, m);
    } else { /* S is the landing slot */
        overwrite(w, m, NULL);
        fresh(w, m, m->s);
    }
}

/* The pending sum to which rank M->rank may add at M->d; NULL where it starts from memory. */
static peali_pending *sum(peali_work *w, const peali_move *m)
{
    peali_pending *q = exact(w, m->d, m->first, m->end);
    if (q && q->exec == m->rank && q->ndst == 1 && may_carry(w, q, m->rank))
        return q;
    if (!q)
        return NULL;
    if (q->exec != m->rank || q->nsrc > 1 || q->src[0].rank != m->rank) {
        store(w, q);
        return NULL;
    }
    peali_loc src = q->src[0];
    drop(q, m->d);
    return fresh(w, m, src);
}

void peali_fuse_reduce(peali_work *w, const peali_move *m)
{
    peali_pending *p = exact(w, m->s, m->first, m->end);
    peali_loc src = p ? look_through(w, p, m->s, m->rank) : m->s;
    if (p && m->dead && m->s.buf >= PEAL_BUF_TMP)
        drop(p, m->s);
    peali_pending *q = sum(w, m);
    if (!q)
        q = fresh(w, m, m->d);
    add_src(w, q, src);
    if (p && p->allowed && src.rank != m->rank)
        publish(w, q, p->allowed);
    overwrite(w, m, q);
}

/* A sum of which others read parts is stored whole: each part would be stored before it is read, and be an instruction. */
static void store_larger_sum(peali_work *w, const peali_move *m)
{
    int32_t n;
    peali_cell *c = peali_work_cells(w, m->s, m->first, m->end, &n);
    for (peali_link *l = n > 0 ? c[0].writers : NULL; l; l = l->next) {
        peali_pending *p = l->what;
        if (p->nsrc > 1 && p->end - p->first > m->end - m->first && meets(p, m->first, m->end) && writes(p, m->s))
            store(w, p);
    }
}

/* What its rank sent last, if that is M's source as it still is. */
static peali_pending *sent_already(const peali_work *w, const peali_move *m)
{
    const peali_vec *sent = &w->outgoing[m->rank].sent;
    peali_pending *p = sent->n > 0 ? sent->at[sent->n - 1] : NULL;
    bool same = p && p->live && p->nsrc == 1 && p->first == m->first && p->end == m->end && peali_loc_same(p->src[0], m->s);
    return same ? p : NULL;
}

void peali_fuse_send(peali_work *w, const peali_move *m)
{
    if (w->mode != PEALI_PUSH)
        store_larger_sum(w, m);
    peali_pending *p = exact(w, m->s, m->first, m->end);
    if (w->mode != PEALI_PUSH && w->nevents > 0 && (!p || p->nsrc == 1)) {
        peali_emit_settle(w, p ? p->src[0] : m->s, m->first, m->end);
        p = exact(w, m->s, m->first, m->end); /* that may have stored it */
    }
    if (w->mode == PEALI_PUSH) {
        p = p ? p : sent_already(w, m);
        if (p)
            add_dst(w, p, m->d);
        else
            p = fresh(w, m, m->s);
    }
    if (!p)
        return;
    publish(w, p, w->list_order[m->rank]);
    if (w->mode == PEALI_PUSH || (p->nsrc == 1 && m->s.buf >= PEAL_BUF_TMP))
        peali_work_push(w, &w->outgoing[m->rank].sent, p);
}

peali_loc peali_fuse_source(peali_work *w, const peali_move *m)
{
    peali_pending *p = exact(w, m->s, m->first, m->end);
    peali_loc src = m->s;
    if (p && p->nsrc == 1 && p->src[0].rank == m->rank)
        src = p->src[0];
    else if (p)
        store(w, p);
    fill_slot(w, src);
    return src;
}

void peali_fuse_overwrite(peali_work *w, peali_loc d, int32_t first, int32_t end)
{
    overwrite(w, &(peali_move){.d = d, .first = first, .end = end}, NULL);
}

peali_loc peali_fuse_land(peali_work *w, int32_t rank, int32_t first, int32_t end)
{
    peali_landing *slot = peali_work_get(w, 1, sizeof *slot);
    *slot = (peali_landing){.first = first, .end = end};
    int32_t no = w->landings[rank].n;
    peali_work_push(w, &w->landings[rank], slot);
    return (peali_loc){(int16_t)rank, (int16_t)(-1 - no), first};
}

/* Each emission goes through them: with those that are stored, of all ranks, that takes a minute where 16 nodes of 64 gather. */
static peali_vec *live_of(peali_work *w, int32_t rank)
{
    peali_vec *v = &w->run_by[rank];
    int32_t n = 0;
    if (w->nested > 0)
        return v;
    for (int32_t i = 0; i < v->n; i++) {
        peali_pending *p = v->at[i];
        v->at[n] = p;
        n += p->live;
    }
    v->n = n;
    return v;
}

void peali_fuse_before(peali_work *w, int32_t rank, const peali_events *events)
{
    if (w->reach->nranks == 1)
        return;
    peali_vec *v = live_of(w, rank);
    w->nested++;
    for (int32_t i = 0; i < v->n; i++) {
        peali_pending *p = v->at[i];
        if (p->live && p->allowed && !peali_events_within(w, events, p->allowed))
            store(w, p);
    }
    w->nested--;
}

void peali_fuse_flush(peali_work *w)
{
    for (int32_t i = 0; i < w->pendings.n; i++)
        store(w, w->pendings.at[i]);
    w->pendings.n = 0;
    for (int32_t x = 0; x < w->reach->nranks; x++)
        w->run_by[x].n = 0;
}

static bool needed_at_end(peali_loc d)
{
    return d.buf == PEAL_BUF_OUT || d.buf < 0;
}

void peali_fuse_finish(peali_work *w)
{
    for (int32_t i = 0; i < w->pendings.n; i++) {
        peali_pending *p = w->pendings.at[i];
        for (int32_t k = 0; p->live && k < p->ndst; k++)
            if (!needed_at_end(p->dst[k]))
                p->dst[k--] = p->dst[--p->ndst];
        if (p->ndst > 0)
            store(w, p);
        p->live = false; /* or another that must come before it would store it all the same */
    }
}
