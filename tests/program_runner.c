/*
 * The runner of programs in the small: one step at a time, values instead of bytes, everything looked up by counting. Slow and
 * plain, so that it is right for other reasons than check and the library's runner are.
 */
#include "program_runner.h"
#include "program_values.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = PROGRAM_RANKS, CALLS = 3, SLICES = 3, MAX_MESSAGES = 4096 };

typedef struct message {
    int from, to, lane;
    uint64_t slice;
    int sent_length, wanted_length; /* -1: that end was not posted yet */
    const value *source;
    value *target, *data;
    char *send_over, *recv_over;
    bool eager, read;
} message;

typedef struct cursor {
    int slice, pc; /* slice within the call */
    char *over, *open; /* per instruction: its message is over; was posted and not waited for */
} cursor;

typedef struct member {
    int call, left, out_calls;
    bool aliased, staged;
    cursor at[SLICES];
    value *user[2];    /* IN, OUT: slices * blocks */
    value *staging[2]; /* window * blocks */
    value *tmp;        /* window * slots * blocks */
    value *land;       /* areas * slots * blocks */
    uint64_t *land_flags, *flags, gone; /* gone: slices that this rank has left */
    int64_t known[MAX_RANKS];
} member;

typedef struct world {
    const program_case *what;
    int n, nblocks, slices, window, areas, near[MAX_RANKS][MAX_RANKS], most_land, ninstrs, nscratch;
    member rank[MAX_RANKS];
    value *want; /* calls * slices * ranks * blocks */
    message *mail;
    int nmail, slow, habit; /* habit: 0 messages wait for their receive, 1 they do not, 2 either */
    uint64_t seed;
    bool harm;
} world;

static int pick(world *w, int n)
{
    return (int)(value_mix(w->seed += 0x9e3779b97f4a7c15u) % (uint64_t)n);
}

static value poison(world *w)
{
    uint64_t x = value_mix(w->seed += 0x51ed270b9f7e5au);
    return (value){x | 1, value_mix(x)};
}

static void *get(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

static bool given(const world *w, int rank, int buf, int block)
{
    const peal_problem *p = w->what->problem;
    bool mine = block * w->n / w->nblocks == rank, root = rank == p->root;
    switch (p->kind) {
    case PEAL_ALLGATHER:
        return buf == PEAL_BUF_OUT || mine;
    case PEAL_REDUCE_SCATTER:
        return buf == PEAL_BUF_IN || mine;
    case PEAL_BROADCAST:
        return buf == PEAL_BUF_OUT || root;
    case PEAL_REDUCE:
        return buf == PEAL_BUF_IN || root;
    default:
        return true;
    }
}

static value *want_at(const world *w, int call, int slice, int rank, int block)
{
    return &w->want[((call * SLICES + slice) * w->n + rank) * w->nblocks + block];
}

/* Memory. */

static uint64_t number(const world *w, int rank, const cursor *c)
{
    return (uint64_t)(w->rank[rank].call * w->slices + c->slice);
}

static value *user_at(world *w, int rank, int buf, int slice)
{
    member *m = &w->rank[rank];
    return &m->user[m->aliased ? PEAL_BUF_OUT : buf][slice * w->nblocks];
}

/* Where an operand of rank R begins; NULL: nowhere. */
static value *operand(world *w, int r, const cursor *c, const peali_instr *i, peali_loc loc)
{
    const peali_program *p = w->what->program[r];
    if (loc.rank < 0 || loc.rank >= p->nreach || i->first < 0 || i->first >= i->end || i->end >= p->ncuts)
        return NULL;
    int y = w->near[r][loc.rank], block = p->cuts[i->first], end = p->cuts[i->end];
    member *m = &w->rank[y];
    if (loc.buf < 0) {
        int slot = p->land_start[loc.rank] - 1 - loc.buf;
        if (slot >= p->land_start[loc.rank + 1] || i->first < p->land_first[slot] || i->end > p->land_end[slot])
            return NULL;
        int area = (int)(number(w, r, c) % (uint64_t)w->areas);
        return &m->land[(area * w->most_land - 1 - loc.buf) * w->nblocks + block - p->cuts[p->land_first[slot]]];
    }
    if (loc.buf >= PEAL_BUF_TMP) {
        int slot = loc.buf - PEAL_BUF_TMP;
        if (slot >= p->nscratch || loc.base < 0 || loc.base > i->first || end - p->cuts[loc.base] > p->slot_blocks[slot])
            return NULL;
        return &m->tmp[(c->slice % w->window * w->nscratch + slot) * w->nblocks + block - p->cuts[loc.base]];
    }
    return m->staged ? &m->staging[loc.buf][c->slice % w->window * w->nblocks + block] : user_at(w, y, loc.buf, c->slice) + block;
}

static uint64_t *land_flag(world *w, int r, const cursor *c, peali_loc loc)
{
    int area = (int)(number(w, r, c) % (uint64_t)w->areas);
    return &w->rank[w->near[r][loc.rank]].land_flags[area * w->most_land - 1 - loc.buf];
}

/* The user's side: a call begins with IN rewritten and OUT poisoned, and ends with a look at OUT. */

static void begin_call(world *w, int r)
{
    member *m = &w->rank[r];
    m->left = w->slices;
    for (int k = 0; k < w->slices; k++)
        for (int b = 0; b < w->nblocks; b++) {
            user_at(w, r, PEAL_BUF_OUT, k)[b] = poison(w);
            user_at(w, r, PEAL_BUF_IN, k)[b] = given(w, r, PEAL_BUF_IN, b) ? value_share(m->call, k, r, b) : poison(w);
        }
    for (int k = 0; k < w->window; k++) {
        m->at[k].slice = k;
        m->at[k].pc = 0;
    }
}

static bool same(value a, value b)
{
    return a.sum == b.sum && a.bits == b.bits;
}

static void end_call(world *w, int r)
{
    member *m = &w->rank[r];
    for (int k = 0; k < w->slices; k++)
        for (int b = 0; b < w->nblocks; b++) {
            value in = user_at(w, r, PEAL_BUF_IN, k)[b], out = user_at(w, r, PEAL_BUF_OUT, k)[b];
            if (given(w, r, PEAL_BUF_OUT, b) && !same(out, *want_at(w, m->call, k, r, b)))
                w->harm = true;
            if (!m->aliased && given(w, r, PEAL_BUF_IN, b) && !same(in, value_share(m->call, k, r, b)))
                w->harm = true;
        }
    if (++m->call < CALLS)
        begin_call(w, r);
}

/* Messages. */

static message *open_message(world *w, const message *key, bool send)
{
    for (int k = 0; k < w->nmail; k++) {
        message *m = &w->mail[k];
        if (m->from == key->from && m->to == key->to && m->lane == key->lane && m->slice == key->slice &&
            (send ? m->sent_length : m->wanted_length) < 0)
            return m;
    }
    if (w->nmail == MAX_MESSAGES)
        abort();
    w->mail[w->nmail] = *key;
    return &w->mail[w->nmail++];
}

static void post(world *w, int r, cursor *c, const peali_instr *i)
{
    const peali_program *p = w->what->program[r];
    bool send = i->kind == PEALI_I_SEND;
    message key = {.from = send ? r : i->peer, .to = send ? i->peer : r, .lane = i->lane, .slice = number(w, r, c)};
    value *at = operand(w, r, c, i, p->locs[i->locs]);
    if (!at || i->peer < 0 || i->peer >= w->n) {
        w->harm = true;
        return;
    }
    key.sent_length = key.wanted_length = -1;
    message *m = open_message(w, &key, send);
    int length = p->cuts[i->end] - p->cuts[i->first];
    c->over[c->pc] = 0;
    c->open[c->pc] = 1;
    if (send) {
        m->eager = w->habit == 2 ? pick(w, 2) : w->habit;
        m->source = at;
        m->sent_length = length;
        m->send_over = &c->over[c->pc];
        return;
    }
    m->target = at;
    m->wanted_length = length;
    m->recv_over = &c->over[c->pc];
    for (int e = 0; e < length; e++)
        at[e] = poison(w);
}

static void read_source(world *w, message *m)
{
    m->data = get((size_t)m->sent_length, sizeof(value));
    memcpy(m->data, m->source, (size_t)m->sent_length * sizeof(value));
    m->read = true;
    if (m->eager)
        *m->send_over = 1;
}

static bool deliver(world *w, int k)
{
    message *m = &w->mail[k];
    if (m->sent_length < 0)
        return false;
    if (m->eager && !m->read) {
        read_source(w, m);
        return true;
    }
    if (m->wanted_length < 0)
        return false;
    if (m->sent_length != m->wanted_length) {
        w->harm = true;
        return false;
    }
    if (!m->read)
        read_source(w, m);
    memcpy(m->target, m->data, (size_t)m->sent_length * sizeof(value));
    *m->recv_over = 1;
    if (!m->eager)
        *m->send_over = 1;
    free(m->data);
    memmove(m, m + 1, (size_t)(w->nmail - k - 1) * sizeof *m);
    w->nmail--;
    return true;
}

/* Instructions. */

static bool waits_over(world *w, int r, cursor *c, const peali_instr *i)
{
    const peali_program *p = w->what->program[r];
    for (int k = 0; k < i->nwaits; k++) {
        int no = p->waits[i->waits + k];
        if (no < 0 || no >= c->pc || !c->over[no])
            return false;
        const peali_instr *m = &p->instrs[no];
        c->open[no] = 0;
        if (m->kind == PEALI_I_RECV && p->locs[m->locs].buf < 0)
            *land_flag(w, r, c, p->locs[m->locs]) = number(w, r, c) + 1;
    }
    return true;
}

static bool flags_up(world *w, int r, const cursor *c, const peali_instr *i)
{
    const peali_program *p = w->what->program[r];
    for (int k = 0; k < i->nawaits; k++) {
        peali_await a = p->awaits[i->awaits + k];
        if (a.rank < 0 || a.rank >= p->nreach || a.flag < 0 || a.flag >= p->most_flags)
            return false;
        if (w->rank[w->near[r][a.rank]].flags[a.flag] < number(w, r, c) + 1)
            return false;
    }
    return i->flag < 0 || c->slice == 0 || w->rank[r].flags[i->flag] == number(w, r, c);
}

static bool slots_filled(world *w, int r, const cursor *c, const peali_instr *i)
{
    const peali_program *p = w->what->program[r];
    for (int k = 0; k < i->nsrc; k++)
        if (p->locs[i->locs + k].buf < 0 && *land_flag(w, r, c, p->locs[i->locs + k]) != number(w, r, c) + 1)
            return false;
    return true;
}

static bool credit(world *w, int r, const cursor *c)
{
    const peali_program *p = w->what->program[r];
    int64_t need = (int64_t)number(w, r, c) + 1 - w->areas;
    for (int x = 0; x < p->nreach; x++) {
        int64_t *known = &w->rank[r].known[x];
        if (need <= 0 || !p->stores_to[x] || *known >= need)
            continue;
        *known = (int64_t)w->rank[w->near[r][x]].gone;
        if (*known < need)
            return false;
    }
    return true;
}

static void compute(world *w, int r, const cursor *c, const peali_instr *i)
{
    const peali_program *p = w->what->program[r];
    const peali_loc *locs = p->locs + i->locs;
    int length = i->nsrc + i->ndst > 0 && i->first >= 0 && i->end < p->ncuts ? p->cuts[i->end] - p->cuts[i->first] : 0;
    for (int k = 0; k < i->nsrc + i->ndst; k++)
        if (!operand(w, r, c, i, locs[k])) {
            w->harm = true;
            return;
        }
    for (int e = 0; e < length; e++) {
        value v = {0, 0};
        for (int k = 0; k < i->nsrc; k++)
            v = k ? value_fold(v, operand(w, r, c, i, locs[k])[e]) : operand(w, r, c, i, locs[0])[e];
        for (int k = i->nsrc; k < i->nsrc + i->ndst; k++)
            operand(w, r, c, i, locs[k])[e] = v;
    }
    for (int k = i->nsrc; k < i->nsrc + i->ndst; k++)
        if (locs[k].buf < 0)
            *land_flag(w, r, c, locs[k]) = number(w, r, c) + 1;
}

static void stage(world *w, int r, const cursor *c, bool fill)
{
    member *m = &w->rank[r];
    int at = c->slice % w->window * w->nblocks;
    for (int b = 0; m->staged && b < w->nblocks; b++) {
        if (fill)
            m->staging[PEAL_BUF_IN][at + b] = user_at(w, r, PEAL_BUF_IN, c->slice)[b];
        else if (given(w, r, PEAL_BUF_OUT, b))
            user_at(w, r, PEAL_BUF_OUT, c->slice)[b] = m->staging[PEAL_BUF_OUT][at + b];
    }
}

static int oldest(const world *w, int r)
{
    int least = w->slices;
    for (int k = 0; k < w->window; k++)
        if (w->rank[r].at[k].slice < least)
            least = w->rank[r].at[k].slice;
    return least;
}

static void leave(world *w, int r, cursor *c)
{
    const peali_program *p = w->what->program[r];
    member *m = &w->rank[r];
    stage(w, r, c, false);
    for (int no = 0; no < p->ninstrs; no++)
        w->harm |= c->open[no];
    int64_t sure = (int64_t)number(w, r, c) - w->areas / 2 + 1, begun = (int64_t)m->call * w->slices;
    sure = sure > begun ? sure : begun;
    for (int x = 0; x < p->nreach; x++)
        if (p->knows[x] && m->known[x] < sure)
            m->known[x] = sure;
    c->slice += w->window;
    c->pc = 0;
    m->gone = (uint64_t)(begun + oldest(w, r));
    if (--m->left == 0)
        end_call(w, r);
}

static bool step(world *w, int r, cursor *c)
{
    const peali_program *p = w->what->program[r];
    if (w->rank[r].call == CALLS || c->slice >= w->slices)
        return false;
    const peali_instr *i = &p->instrs[c->pc];
    bool push = w->what->mode == PEALI_PUSH;
    if (!waits_over(w, r, c, i) || (push && i->kind == PEALI_I_ENTER && !credit(w, r, c)))
        return false;
    if (push ? !slots_filled(w, r, c, i) : !flags_up(w, r, c, i))
        return false;
    if (i->kind == PEALI_I_REDUCE)
        compute(w, r, c, i);
    else if (i->kind == PEALI_I_SEND || i->kind == PEALI_I_RECV)
        post(w, r, c, i);
    else if (i->kind == PEALI_I_ENTER)
        stage(w, r, c, true);
    if (i->flag >= 0)
        w->rank[r].flags[i->flag] = number(w, r, c) + 1;
    c->pc++;
    if (i->kind == PEALI_I_EXIT)
        leave(w, r, c);
    return true;
}

/* One sweep from random places on; ALL: nobody dawdles. True where anything moved. */
static bool sweep(world *w, bool all)
{
    bool moved = false;
    for (int r0 = pick(w, w->n), k = 0; k < w->n; k++) {
        int r = (r0 + k) % w->n;
        if (!all && (r == w->slow ? pick(w, 12) : pick(w, 3) == 0))
            continue;
        int c0 = pick(w, w->window), tries = r == w->slow ? 1 : 1 + pick(w, 6);
        for (int j = 0; j < tries && !w->harm; j++)
            for (int c = 0; c < w->window; c++)
                if (step(w, r, &w->rank[r].at[(c0 + c) % w->window])) {
                    moved = true;
                    break;
                }
    }
    for (int k = w->nmail - 1; k >= 0 && !w->harm; k--)
        if (all || pick(w, 2))
            moved |= deliver(w, k);
    return moved;
}

static bool done(const world *w)
{
    for (int r = 0; r < w->n; r++)
        if (w->rank[r].call < CALLS)
            return false;
    return true;
}

static void fill(world *w, value *at, int n)
{
    for (int k = 0; k < n; k++)
        at[k] = poison(w);
}

static void reset(world *w)
{
    w->slices = 1 + pick(w, SLICES);
    w->window = 1 + pick(w, w->slices);
    w->areas = 2 * w->window;
    w->slow = pick(w, w->n + 1);
    w->habit = pick(w, 3);
    for (int k = 0; k < w->nmail; k++)
        if (w->mail[k].read)
            free(w->mail[k].data);
    w->nmail = 0;
    for (int r = 0; r < w->n; r++) {
        member *m = &w->rank[r];
        m->call = 0;
        m->gone = 0;
        m->aliased = pick(w, 2);
        m->staged = w->what->mode != PEALI_PUSH && pick(w, 4) == 0;
        memset(m->known, 0, sizeof m->known);
        memset(m->flags, 0, (size_t)w->ninstrs * sizeof *m->flags);
        memset(m->land_flags, 0, (size_t)(2 * SLICES * w->most_land) * sizeof *m->land_flags);
        fill(w, m->tmp, SLICES * w->nscratch * w->nblocks);
        fill(w, m->land, 2 * SLICES * w->most_land * w->nblocks);
        fill(w, m->staging[0], SLICES * w->nblocks);
        fill(w, m->staging[1], SLICES * w->nblocks);
        for (int k = 0; k < SLICES; k++)
            memset(m->at[k].open, 0, (size_t)w->ninstrs);
        begin_call(w, r);
    }
}

static bool run_once(world *w)
{
    reset(w);
    while (!w->harm && !done(w))
        if (!sweep(w, false) && !w->harm && !sweep(w, true))
            w->harm = !done(w);
    return !w->harm && w->nmail == 0;
}

static void size_world(world *w)
{
    const int *host = w->what->host ? w->what->host : w->what->problem->node;
    for (int r = 0; r < w->n; r++) {
        const peali_program *p = w->what->program[r];
        for (int y = 0, x = 0; y < w->n; y++)
            if (!host || host[y] == host[r])
                w->near[r][x++] = y;
        w->ninstrs = p->ninstrs > w->ninstrs ? p->ninstrs : w->ninstrs;
        w->ninstrs = p->most_flags > w->ninstrs ? p->most_flags : w->ninstrs;
        w->nscratch = p->nscratch > w->nscratch ? p->nscratch : w->nscratch;
        for (int x = 0; x < p->nreach; x++)
            if (p->land_start[x + 1] - p->land_start[x] > w->most_land)
                w->most_land = p->land_start[x + 1] - p->land_start[x];
    }
}

static void open_world(world *w)
{
    size_t nblocks = (size_t)w->nblocks, nscratch = (size_t)w->nscratch, land = (size_t)w->most_land;
    w->want = get(CALLS * SLICES * (size_t)w->n * nblocks, sizeof(value));
    w->mail = get(MAX_MESSAGES, sizeof *w->mail);
    for (int r = 0; r < w->n; r++) {
        member *m = &w->rank[r];
        for (int k = 0; k < 2; k++) {
            m->user[k] = get(SLICES * nblocks, sizeof(value));
            m->staging[k] = get(SLICES * nblocks, sizeof(value));
        }
        m->tmp = get(SLICES * nscratch * nblocks, sizeof(value));
        m->land = get(2 * SLICES * land * nblocks, sizeof(value));
        m->land_flags = get(2 * SLICES * land, sizeof *m->land_flags);
        m->flags = get((size_t)w->ninstrs, sizeof *m->flags);
        for (int k = 0; k < SLICES; k++) {
            m->at[k].over = get((size_t)w->ninstrs, 1);
            m->at[k].open = get((size_t)w->ninstrs, 1);
        }
    }
    for (int call = 0; call < CALLS; call++)
        for (int slice = 0; slice < SLICES; slice++)
            program_want(w->what, call, slice, want_at(w, call, slice, 0, 0));
}

static void close_world(world *w)
{
    for (int k = 0; k < w->nmail; k++)
        if (w->mail[k].read)
            free(w->mail[k].data);
    for (int r = 0; r < w->n; r++) {
        member *m = &w->rank[r];
        void *all[] = {m->user[0], m->user[1], m->staging[0], m->staging[1], m->tmp, m->land, m->land_flags, m->flags};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
        for (int k = 0; k < SLICES; k++) {
            free(m->at[k].over);
            free(m->at[k].open);
        }
    }
    free(w->want);
    free(w->mail);
}

bool program_harmless(const program_case *what, int interleavings, uint64_t seed)
{
    world w = {.what = what, .n = what->problem->nranks, .nblocks = what->sched[0]->nblocks, .seed = seed};
    size_world(&w);
    open_world(&w);
    bool good = true;
    for (int k = 0; k < interleavings && good; k++)
        good = run_once(&w);
    close_world(&w);
    return good;
}
