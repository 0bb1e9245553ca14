/*
 * The run: progress, races, values and closure, by running all programs for one slice.
 *
 * Each rank runs its list; an instruction blocks until the messages it waits for are over (a send only with its receive, as in
 * rendezvous), the flags it awaits are raised and the landing slots it reads are filled. What an instruction blocks on never comes
 * undone, so if this run comes to an end then every run of one slice does. That is enough for all slices, windows and calls: what
 * else the runner makes a slice wait for (the slice whose scratch, staging or landing area it takes, the same signal of the slice
 * before, the slices of a peer that a credit counts) lies in slices before it, so a cycle would have to lie within one slice.
 *
 * Races are excluded by vector clocks of the ranks within reach, which know program order, flags and landing slots and nothing of
 * messages, so that one run gives the values of all. IN and OUT of a rank count as one memory, a scratch buffer as one piece; enter
 * writes all of them and so does exit, so nobody touches them in another slice or call. A message holds its piece from its post to
 * the first instruction that waits for it.
 */
#include "study/check_programs_parts.h"

#include <string.h>

typedef struct place {
    peali_value apart, aliased;
} place;

/* A scratch buffer or landing slot: its contents begin at piece FIRST; -1: it has none. */
typedef struct hold {
    int32_t first, width;
    place *at;
} hold;

typedef struct reading {
    int32_t number, next; /* next: in the pool, -1 at the end */
} reading;

/* Memory as races see it: its last writer, and the readers since. */
typedef struct cell {
    int32_t writer, readers;
} cell;

typedef struct run {
    peali_proving *p;
    const peali_checking *c;
    int32_t *cursor; /* of each rank: the next instruction */
    int32_t nrun;
    place **out;     /* of each rank and piece */
    hold **tmp, **land;
    cell **cells;    /* of each rank: pieces of IN and OUT, then scratch buffers */
    place **sent;    /* of each message: what a send has read */
    reading *pool;
    int32_t npool;
} run;

static int32_t own(const run *w, int r)
{
    return w->p->place[r];
}

static int32_t *clock_of(const run *w, int32_t number)
{
    int r = w->p->rank[number];
    return w->p->clock[r] + (int64_t)(number - w->p->base[r]) * w->p->program[r]->nreach;
}

static bool was_run(const run *w, int32_t number)
{
    int r = w->p->rank[number];
    return w->cursor[r] > number - w->p->base[r];
}

/* Progress. */

/* What must be run before landing slot LOC of rank R is seen filled by R's instruction NO; -1: nothing more. */
static int32_t landing_needs(const run *w, int r, int no, peali_loc loc)
{
    const peali_proving *p = w->p;
    int32_t filler = *peali_proving_filler(p, r, loc);
    if (p->rank[filler] != r)
        return was_run(w, filler) ? -1 : filler;
    int32_t waiter = p->waiter[filler]; /* who finds that the message arrived sets the slot's flag */
    return waiter <= no ? -1 : p->base[r] + waiter;
}

/* The number of an instruction that NO of R must wait for, or -1. */
static int32_t blocked_on(const run *w, int r, int no)
{
    const peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    for (int32_t k = 0; k < i->nwaits; k++) {
        int32_t other = p->match[p->base[r] + q->waits[i->waits + k]];
        if (!was_run(w, other))
            return other;
    }
    for (int32_t k = 0; k < i->nawaits; k++) {
        int y = p->near[r][q->awaits[i->awaits + k].rank];
        int32_t flag = p->flag[p->flags[y] + q->awaits[i->awaits + k].flag];
        if (w->cursor[y] <= flag)
            return p->base[y] + flag;
    }
    for (int k = 0; k < i->nsrc; k++) {
        peali_loc loc = q->locs[i->locs + k];
        int32_t needs = loc.buf < 0 ? landing_needs(w, r, no, loc) : -1;
        if (needs >= 0)
            return needs;
    }
    return -1;
}

/* Every blocked rank is blocked on an instruction that a blocked rank has still to run, so following them meets a cycle. */
static peal_status deadlock(const run *w)
{
    peali_proving *p = w->p;
    int r = 0;
    while (w->cursor[r] == p->program[r]->ninstrs)
        r++;
    for (int i = 0; i < p->n; i++)
        r = p->rank[blocked_on(w, r, w->cursor[r])];
    char text[480] = "", words[160];
    size_t at = 0;
    int first = r;
    do {
        r = p->rank[blocked_on(w, r, w->cursor[r])];
        peali_proving_words(p, r, w->cursor[r], words, sizeof words);
        int wrote = snprintf(text + at, sizeof text - at, " rank %d, which is at instruction %d (%s) and waits for", r,
                             (int)w->cursor[r], words);
        at = at + (size_t)wrote < sizeof text ? at + (size_t)wrote : sizeof text - 1;
    } while (r != first && at < sizeof text - 1);
    return peali_proving_refute(p, first, w->cursor[first], "deadlock: it waits for%s%s", text, r == first ? " itself" : "...");
}

/* Clocks. */

static void merge(const run *w, int32_t *clock, int32_t from)
{
    const peali_proving *p = w->p;
    int y = p->rank[from];
    const int32_t *other = clock_of(w, from);
    for (int32_t x = 0; x < p->program[y]->nreach; x++)
        if (clock[x] < other[x])
            clock[x] = other[x];
    if (clock[own(w, y)] <= from - p->base[y])
        clock[own(w, y)] = from - p->base[y] + 1;
}

static void set_clock(const run *w, int r, int no)
{
    const peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    int32_t *clock = clock_of(w, p->base[r] + no);
    if (no > 0)
        memcpy(clock, clock_of(w, p->base[r] + no - 1), (size_t)q->nreach * sizeof *clock);
    clock[q->me] = no;
    for (int32_t k = 0; k < i->nawaits; k++) {
        int y = p->near[r][q->awaits[i->awaits + k].rank];
        merge(w, clock, p->base[y] + p->flag[p->flags[y] + q->awaits[i->awaits + k].flag]);
    }
    for (int k = 0; k < i->nsrc; k++) {
        peali_loc loc = q->locs[i->locs + k];
        if (loc.buf < 0 && p->rank[*peali_proving_filler(p, r, loc)] != r)
            merge(w, clock, *peali_proving_filler(p, r, loc));
    }
}

/* Races. */

/* Is EARLIER over before NUMBER begins? */
static bool after(const run *w, int32_t number, int32_t earlier)
{
    const peali_proving *p = w->p;
    int32_t end = earlier - p->base[p->rank[earlier]], begun = clock_of(w, number)[own(w, p->rank[earlier])];
    if (!peali_proving_async(peali_proving_instr(p, earlier)))
        return begun > end;
    end = p->waiter[earlier];
    return begun > end || (p->rank[earlier] == p->rank[number] && begun == end);
}

static peal_status ordered(const run *w, int32_t number, int32_t earlier, const char *where)
{
    peali_proving *p = w->p;
    if (earlier < 0 || earlier == number || after(w, number, earlier))
        return PEAL_OK;
    char words[200];
    int r = p->rank[earlier];
    peali_proving_words(p, r, earlier - p->base[r], words, sizeof words);
    return peali_proving_refute(p, p->rank[number], number - p->base[p->rank[number]],
                                "races at %s: is not ordered after instruction %d (%s) of rank %d", where,
                                (int)(earlier - p->base[r]), words, r);
}

static void where_words(const run *w, int y, int32_t at, char text[80])
{
    char name[24];
    if (at < w->c->npieces)
        snprintf(text, 80, "IN and OUT of rank %d from block %d on", y, (int)w->c->cut[at]);
    else
        snprintf(text, 80, "%s of rank %d", peali_check_buffer(name, at - w->c->npieces + PEAL_BUF_TMP), y);
}

static peal_status visit(run *w, int32_t number, int y, int32_t at, bool writes)
{
    cell *c = &w->cells[y][at];
    char where[80];
    where_words(w, y, at, where);
    peal_status status = ordered(w, number, c->writer, where);
    if (!writes) {
        w->pool[w->npool] = (reading){number, c->readers};
        c->readers = w->npool++;
        return status;
    }
    for (int32_t i = c->readers; i >= 0 && status == PEAL_OK; i = w->pool[i].next)
        status = ordered(w, number, w->pool[i].number, where);
    c->writer = number;
    c->readers = -1;
    return status;
}

static peal_status visit_all(run *w, int32_t number)
{
    int r = w->p->rank[number];
    peal_status status = PEAL_OK;
    for (int32_t at = 0; at < w->c->npieces + w->p->program[r]->nscratch && status == PEAL_OK; at++)
        status = visit(w, number, r, at, true);
    return status;
}

static peal_status visit_operand(run *w, int32_t number, peali_loc loc, bool writes)
{
    const peali_proving *p = w->p;
    int r = p->rank[number], y = p->near[r][loc.rank];
    peali_span at = peali_proving_range(p, number);
    peal_status status = PEAL_OK;
    if (loc.buf < 0)
        return PEAL_OK; /* written once, and read when filled */
    if (y != r && (clock_of(w, number)[loc.rank] == 0 || w->cursor[y] == p->program[y]->ninstrs))
        return peali_proving_refute(w->p, r, number - p->base[r], "touches memory of rank %d before its enter or after its exit",
                                    y);
    if (loc.buf >= PEAL_BUF_TMP)
        at = (peali_span){w->c->npieces + loc.buf - PEAL_BUF_TMP, w->c->npieces + loc.buf - PEAL_BUF_TMP + 1};
    for (int32_t i = at.first; i < at.end && status == PEAL_OK; i++)
        status = visit(w, number, y, i, writes);
    return status;
}

static peal_status races(run *w, int32_t number)
{
    const peali_instr *i = peali_proving_instr(w->p, number);
    const peali_loc *locs = peali_proving_locs(w->p, number);
    if (i->kind == PEALI_I_ENTER || i->kind == PEALI_I_EXIT)
        return visit_all(w, number);
    peal_status status = PEAL_OK;
    for (int k = 0; k < i->nsrc + i->ndst && status == PEAL_OK; k++)
        status = visit_operand(w, number, locs[k], k >= i->nsrc);
    return status;
}

/* Values. */

static hold *hold_of(const run *w, int r, peali_loc loc)
{
    int y = w->p->near[r][loc.rank];
    return loc.buf < 0 ? &w->land[y][-1 - loc.buf] : &w->tmp[y][loc.buf - PEAL_BUF_TMP];
}

static place load(const run *w, int r, peali_loc loc, int32_t piece)
{
    int y = w->p->near[r][loc.rank];
    if (loc.buf < 0 || loc.buf >= PEAL_BUF_TMP) {
        const hold *h = hold_of(w, r, loc);
        return h->first == w->p->piece[r][loc.base] ? h->at[piece - h->first] : (place){{0, 0}, {0, 0}};
    }
    if (loc.buf == PEAL_BUF_OUT)
        return w->out[y][piece];
    peali_span given = peali_check_holds(w->c, y, PEAL_BUF_IN);
    int32_t block = w->c->cut[piece];
    peali_value leaf = block >= given.first && block < given.end ? peali_value_leaf(w->p->n, y) : (peali_value){0, 0};
    return (place){leaf, w->out[y][piece].aliased};
}

static bool agree(place v)
{
    return v.apart.set == v.aliased.set && v.apart.bits == v.aliased.bits;
}

/* The value of a source; what crosses ranks must be the same whether IN is OUT or not, because only its owner knows that. */
static peal_status load_source(const run *w, int32_t number, peali_loc loc, int32_t piece, place *v)
{
    peali_proving *p = w->p;
    int r = p->rank[number];
    char blocks[48];
    *v = load(w, r, loc, piece);
    peali_check_blocks(blocks, w->c->cut[piece], w->c->cut[piece + 1]);
    if (v->apart.set == 0 || v->aliased.set == 0)
        return peali_proving_refute(p, r, number - p->base[r], "reads %s of buffer %d, which nothing wrote%s", blocks, loc.buf,
                                    v->apart.set ? " if IN is OUT" : "");
    if (p->near[r][loc.rank] != r && !agree(*v))
        return peali_proving_refute(p, r, number - p->base[r], "reads another value of %s if IN is OUT at rank %d", blocks,
                                    (int)p->near[r][loc.rank]);
    return PEAL_OK;
}

static void store(run *w, int r, peali_loc loc, int32_t piece, place v)
{
    if (loc.buf == PEAL_BUF_OUT) {
        w->out[w->p->near[r][loc.rank]][piece] = v;
        return;
    }
    hold *h = hold_of(w, r, loc);
    int32_t first = w->p->piece[r][loc.base];
    if (h->first != first)
        memset(h->at, 0, (size_t)h->width * sizeof *h->at);
    h->first = first;
    h->at[piece - first] = v;
}

/* Elements of one scratch buffer would be read after they are written if the two names of it lie apart. */
static peal_status shifted(const run *w, int32_t number)
{
    peali_proving *p = w->p;
    const peali_instr *i = peali_proving_instr(p, number);
    const peali_loc *locs = peali_proving_locs(p, number);
    for (int d = i->nsrc; d < i->nsrc + i->ndst; d++)
        for (int s = 0; s < i->nsrc && locs[d].buf >= PEAL_BUF_TMP; s++)
            if (locs[s].rank == locs[d].rank && locs[s].buf == locs[d].buf && locs[s].base != locs[d].base)
                return peali_proving_refute(p, p->rank[number], number - p->base[p->rank[number]],
                                            "reads and writes a scratch buffer as different blocks");
    return PEAL_OK;
}

static peal_status reduce_piece(run *w, int32_t number, int32_t piece)
{
    peali_proving *p = w->p;
    int r = p->rank[number];
    const peali_instr *i = peali_proving_instr(p, number);
    const peali_loc *locs = peali_proving_locs(p, number);
    place sum = {{0, 0}, {0, 0}}, v;
    for (int k = 0; k < i->nsrc; k++) {
        peal_status status = load_source(w, number, locs[k], piece, &v);
        if (status != PEAL_OK)
            return status;
        sum.apart = k ? peali_value_fold(p->n, sum.apart, v.apart) : v.apart;
        sum.aliased = k ? peali_value_fold(p->n, sum.aliased, v.aliased) : v.aliased;
    }
    for (int k = i->nsrc; k < i->nsrc + i->ndst; k++) {
        if (p->near[r][locs[k].rank] != r && !agree(sum))
            return peali_proving_refute(p, r, number - p->base[r], "stores another value at rank %d if IN is OUT",
                                        (int)p->near[r][locs[k].rank]);
        store(w, r, locs[k], piece, sum);
    }
    return PEAL_OK;
}

static peal_status send_piece(run *w, int32_t number, int32_t piece)
{
    peali_proving *p = w->p;
    int r = p->rank[number];
    place *v = &w->sent[number][piece - peali_proving_range(p, number).first];
    peal_status status = load_source(w, number, *peali_proving_locs(p, number), piece, v);
    if (status == PEAL_OK && !agree(*v))
        return peali_proving_refute(p, r, number - p->base[r], "sends another value if IN is OUT");
    return status;
}

/* The memory of a receive is nobody's until it is over. */
static peal_status values(run *w, int32_t number)
{
    const peali_instr *i = peali_proving_instr(w->p, number);
    peali_span at = peali_proving_range(w->p, number);
    peal_status status = i->kind == PEALI_I_REDUCE ? shifted(w, number) : PEAL_OK;
    for (int32_t piece = at.first; piece < at.end && status == PEAL_OK; piece++) {
        if (i->kind == PEALI_I_REDUCE)
            status = reduce_piece(w, number, piece);
        else if (i->kind == PEALI_I_SEND)
            status = send_piece(w, number, piece);
        else if (i->kind == PEALI_I_RECV)
            store(w, w->p->rank[number], *peali_proving_locs(w->p, number), piece, (place){{0, 0}, {0, 0}});
    }
    return status;
}

/* Messages are over for their first waiter. */
static void arrive(run *w, int r, int no)
{
    const peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    for (int32_t k = 0; k < i->nwaits; k++) {
        int32_t message = p->base[r] + q->waits[i->waits + k];
        peali_span at = peali_proving_range(p, message);
        if (p->waiter[message] != no || peali_proving_instr(p, message)->kind != PEALI_I_RECV)
            continue;
        for (int32_t piece = at.first; piece < at.end; piece++)
            store(w, r, *peali_proving_locs(p, message), piece, w->sent[p->match[message]][piece - at.first]);
    }
}

static peal_status execute(run *w, int r, int no)
{
    int32_t number = w->p->base[r] + no;
    arrive(w, r, no);
    set_clock(w, r, no);
    peal_status status = races(w, number);
    if (status == PEAL_OK)
        status = values(w, number);
    w->p->sequence[w->nrun++] = number;
    w->cursor[r]++;
    return status;
}

/* Room. */

/* The widest that each scratch buffer is used, over all instructions of ranks within reach of it. */
static void widths(const run *w, int r)
{
    const peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    for (int no = 0; no < q->ninstrs; no++)
        for (int k = 0; k < q->instrs[no].nsrc + q->instrs[no].ndst; k++) {
            peali_loc loc = q->locs[q->instrs[no].locs + k];
            if (loc.buf < PEAL_BUF_TMP)
                continue;
            hold *h = hold_of(w, r, loc);
            int32_t width = p->piece[r][q->instrs[no].end] - p->piece[r][loc.base];
            h->width = width > h->width ? width : h->width;
        }
}

static bool lay_out(run *w, hold *h, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        h[i].first = -1;
        h[i].at = peali_arena_get(&w->p->arena, (size_t)h[i].width, sizeof(place));
        if (!h[i].at)
            return false;
    }
    return true;
}

static bool prepare_rank(run *w, int r)
{
    peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    size_t npieces = (size_t)w->c->npieces, nscratch = (size_t)q->nscratch;
    int32_t start = q->land_start[q->me], nland = q->land_start[q->me + 1] - start;
    p->clock[r] = peali_arena_get(&p->arena, (size_t)q->ninstrs * (size_t)q->nreach, sizeof **p->clock);
    w->out[r] = peali_arena_get(&p->arena, npieces, sizeof **w->out);
    w->tmp[r] = peali_arena_get(&p->arena, nscratch, sizeof **w->tmp);
    w->land[r] = peali_arena_get(&p->arena, (size_t)nland, sizeof **w->land);
    w->cells[r] = peali_arena_get(&p->arena, npieces + nscratch, sizeof **w->cells);
    if (!p->clock[r] || !w->out[r] || !w->tmp[r] || !w->land[r] || !w->cells[r])
        return false;
    memset(w->cells[r], -1, (npieces + nscratch) * sizeof **w->cells);
    for (int32_t i = 0; i < w->c->npieces; i++)
        w->out[r][i].aliased = load(w, r, (peali_loc){(int16_t)own(w, r), PEAL_BUF_IN, 0}, i).apart;
    for (int32_t i = 0; i < nland; i++)
        w->land[r][i].width = p->piece[r][q->land_end[start + i]] - p->piece[r][q->land_first[start + i]];
    return true;
}

/* Room for what sends read, and a count of all reads of pieces. */
static bool prepare_instrs(run *w)
{
    peali_proving *p = w->p;
    size_t reads = 0;
    for (int32_t i = 0; i < p->base[p->n]; i++) {
        peali_span at = peali_proving_range(p, i);
        reads += (size_t)peali_proving_instr(p, i)->nsrc * (size_t)(at.end - at.first);
        if (peali_proving_instr(p, i)->kind != PEALI_I_SEND)
            continue;
        w->sent[i] = peali_arena_get(&p->arena, (size_t)(at.end - at.first), sizeof **w->sent);
        if (!w->sent[i])
            return false;
    }
    w->pool = peali_arena_get(&p->arena, reads, sizeof *w->pool);
    return w->pool != NULL;
}

static bool prepare(run *w)
{
    peali_proving *p = w->p;
    size_t n = (size_t)p->n;
    w->cursor = peali_arena_get(&p->arena, n, sizeof *w->cursor);
    w->out = peali_arena_get(&p->arena, n, sizeof *w->out);
    w->tmp = peali_arena_get(&p->arena, n, sizeof *w->tmp);
    w->land = peali_arena_get(&p->arena, n, sizeof *w->land);
    w->cells = peali_arena_get(&p->arena, n, sizeof *w->cells);
    w->sent = peali_arena_get(&p->arena, (size_t)p->base[n], sizeof *w->sent);
    bool ok = w->cursor && w->out && w->tmp && w->land && w->cells && w->sent;
    for (int r = 0; r < p->n && ok; r++)
        ok = prepare_rank(w, r);
    for (int r = 0; r < p->n && ok; r++)
        widths(w, r);
    for (int r = 0; r < p->n && ok; r++)
        ok = lay_out(w, w->tmp[r], p->program[r]->nscratch) && lay_out(w, w->land[r], p->lands[r + 1] - p->lands[r]);
    return ok && prepare_instrs(w);
}

/* The end. */

static peal_status results(const run *w, int r)
{
    const peali_value *final = w->c->final + (int64_t)r * w->c->npieces;
    for (int32_t i = 0; i < w->c->npieces; i++) {
        place v = w->out[r][i];
        bool set = v.apart.set == final[i].set && v.aliased.set == final[i].set;
        if (final[i].set == 0 || (set && v.apart.bits == final[i].bits && v.aliased.bits == final[i].bits))
            continue;
        bool apart = v.apart.set == final[i].set && v.apart.bits == final[i].bits;
        return peali_proving_refute(w->p, r, -1, "ends with block %d of OUT %s%s", (int)w->c->cut[i],
                                    v.apart.set == 0 ? "not written" : set ? "summed in another order than in the schedule"
                                                                           : "holding other shares than in the schedule",
                                    apart ? " if IN is OUT" : "");
    }
    return PEAL_OK;
}

/*
 * A rank knows that another has begun this slice only if its exit comes after that; else, in push, it asks for credit where it
 * stores.
 */
static peal_status closed(const run *w, int r)
{
    peali_proving *p = w->p;
    const peali_program *q = p->program[r];
    const int32_t *last = clock_of(w, p->base[r + 1] - 1);
    for (int y = 0; y < q->nreach; y++)
        if (q->knows[y] && last[y] == 0)
            return peali_proving_refute(p, r, q->ninstrs - 1, "says that rank %d has begun, for which it does not wait",
                                        (int)p->near[r][y]);
    for (int y = 0; y < q->nreach; y++)
        if ((q->all_wait || (q->all_hear && p->mode == PEALI_PUSH)) && last[y] == 0 && y != q->me)
            return peali_proving_refute(p, r, q->ninstrs - 1, "says that all have begun, and does not wait for rank %d",
                                        (int)p->near[r][y]);
    for (int no = 0; no < q->ninstrs; no++)
        for (int k = q->instrs[no].nsrc; k < q->instrs[no].nsrc + q->instrs[no].ndst; k++) {
            peali_loc loc = q->locs[q->instrs[no].locs + k];
            if (loc.buf < 0 && loc.rank != q->me && !q->stores_to[loc.rank])
                return peali_proving_refute(p, r, no, "stores at rank %d, which its program does not say",
                                            (int)p->near[r][loc.rank]);
        }
    return PEAL_OK;
}

peal_status peali_programs_run(peali_proving *p)
{
    run w = {.p = p, .c = &p->truth->c};
    if (!prepare(&w))
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (bool moved = true; moved && status == PEAL_OK;) {
        moved = false;
        for (int r = 0; r < p->n; r++)
            for (; w.cursor[r] < p->program[r]->ninstrs && blocked_on(&w, r, w.cursor[r]) < 0; moved = true)
                if ((status = execute(&w, r, w.cursor[r])) != PEAL_OK)
                    return status;
    }
    if (w.nrun < p->base[p->n])
        return deadlock(&w);
    for (int r = 0; r < p->n && status == PEAL_OK; r++)
        status = results(&w, r);
    for (int r = 0; r < p->n && status == PEAL_OK; r++)
        status = closed(&w, r);
    return status;
}
