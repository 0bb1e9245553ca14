/* The instructions of one rank, packed from the workbench into a program of its own arena. */
#include "lower/work.h"

#include <string.h>

/* Numbers the flags of every rank: an instruction that somebody awaits has one. */
static void number_flags(peali_work *w)
{
    for (int x = 0; x < w->reach->nranks; x++) {
        int32_t next = 0;
        for (int32_t k = 0; k < w->code[x].n; k++) {
            peali_rec *r = w->code[x].at[k];
            if (r->i.flag >= 0)
                r->i.flag = next++;
        }
    }
}

static int32_t count_flags(const peali_vec *code)
{
    int32_t n = 0;
    for (int32_t k = 0; k < code->n; k++)
        n += ((peali_rec *)code->at[k])->i.flag >= 0;
    return n;
}

/* Of the scratch buffers that no rank touches, because peers store to landing slots instead, nothing is left. */
static void size_slots(const peali_work *w, int32_t *slot_blocks)
{
    for (int x = 0; x < w->reach->nranks; x++)
        for (int32_t k = 0; k < w->code[x].n; k++) {
            const peali_rec *r = w->code[x].at[k];
            for (int32_t i = 0; i < r->i.nsrc + r->i.ndst; i++)
                if (r->locs[i].buf >= PEAL_BUF_TMP)
                    slot_blocks[r->locs[i].buf - PEAL_BUF_TMP] = 1;
        }
    for (int x = 0; x < w->reach->nranks; x++)
        for (int32_t i = 0; i < w->scheds[x]->nops; i++) {
            const peali_op *op = &w->scheds[x]->ops[i];
            int32_t *most = op->dst >= PEAL_BUF_TMP ? &slot_blocks[op->dst - PEAL_BUF_TMP] : NULL;
            if (most && *most > 0 && *most < op->end - op->first)
                *most = op->end - op->first;
        }
}

typedef struct room {
    peali_instr *instrs;
    peali_loc *locs;
    int32_t *waits;
    peali_await *awaits;
    int32_t *cuts, *slot_blocks;
    int32_t *land_start, *land_first, *land_end, *land_line;
    int16_t *land_home;
    uint8_t *stores_to, *knows, *shown;
    int32_t nlocs, nwaits, nawaits;
} room;

/* Those of the ranks behind this one first: ranks that store to all at once then begin at different ones. */
static void put_destinations(room *to, const peali_rec *r)
{
    const peali_loc *dst = r->locs + r->i.nsrc;
    for (int turn = 0; turn < 2; turn++)
        for (int32_t k = 0; k < r->i.ndst; k++)
            if ((dst[k].rank < r->rank) == turn)
                to->locs[to->nlocs++] = dst[k];
}

static void put(room *to, const peali_rec *r)
{
    peali_instr i = r->i;
    i.locs = to->nlocs;
    i.waits = to->nwaits;
    i.awaits = to->nawaits;
    to->instrs[r->no] = i;
    for (int32_t k = 0; k < i.nsrc; k++)
        to->locs[to->nlocs++] = r->locs[k];
    put_destinations(to, r);
    for (int32_t k = 0; k < i.nwaits; k++)
        to->waits[to->nwaits++] = r->waits[k]->no;
    for (int32_t k = 0; k < i.nawaits; k++)
        to->awaits[to->nawaits++] = (peali_await){r->awaits[k]->rank, r->awaits[k]->i.flag};
}

static bool make_room(const peali_work *w, const peali_vec *code, peali_program *p, room *to)
{
    size_t nlocs = 1, nwaits = 1, nawaits = 1;
    for (int32_t k = 0; k < code->n; k++) {
        const peali_rec *r = code->at[k];
        nlocs += (size_t)(r->i.nsrc + r->i.ndst);
        nwaits += (size_t)r->i.nwaits;
        nawaits += (size_t)r->i.nawaits;
    }
    to->instrs = peali_arena_get(&p->arena, (size_t)code->n, sizeof *to->instrs);
    to->locs = peali_arena_get(&p->arena, nlocs, sizeof *to->locs);
    to->waits = peali_arena_get(&p->arena, nwaits, sizeof *to->waits);
    to->awaits = peali_arena_get(&p->arena, nawaits, sizeof *to->awaits);
    to->cuts = peali_arena_get(&p->arena, (size_t)w->cuts.n + 1, sizeof *to->cuts);
    to->slot_blocks = peali_arena_get(&p->arena, (size_t)p->nscratch + 1, sizeof *to->slot_blocks);
    to->land_start = peali_arena_get(&p->arena, (size_t)p->nreach + 1, sizeof *to->land_start);
    to->land_first = peali_arena_get(&p->arena, (size_t)p->nland + 1, sizeof *to->land_first);
    to->land_end = peali_arena_get(&p->arena, (size_t)p->nland + 1, sizeof *to->land_end);
    to->land_home = peali_arena_get(&p->arena, (size_t)p->nland + 1, sizeof *to->land_home);
    to->land_line = peali_arena_get(&p->arena, (size_t)p->nland + 1, sizeof *to->land_line);
    to->stores_to = peali_arena_get(&p->arena, (size_t)p->nreach, 1);
    to->knows = peali_arena_get(&p->arena, (size_t)p->nreach, 1);
    to->shown = peali_arena_get(&p->arena, (size_t)w->cuts.n + 1, 1);
    return to->instrs && to->locs && to->waits && to->awaits && to->cuts && to->slot_blocks && to->land_start && to->land_first &&
           to->land_end && to->land_home && to->land_line && to->stores_to && to->knows && to->shown;
}

static void put_landings(const peali_work *w, room *to)
{
    int32_t at = 0;
    for (int x = 0; x < w->reach->nranks; x++) {
        to->land_start[x] = at;
        for (int32_t k = 0; k < w->landings[x].n; k++, at++) {
            const peali_landing *slot = w->landings[x].at[k];
            to->land_first[at] = slot->first;
            to->land_end[at] = slot->end;
        }
    }
    to->land_start[w->reach->nranks] = at;
}

/* An instruction stores the same to all the slots it fills: a rank that keeps what it fills stores it once. */
static void put_homes(const peali_work *w, room *to)
{
    for (int x = 0; x < w->reach->nranks; x++)
        for (int32_t k = 0, line = 0; k < w->code[x].n; k++) {
            const peali_rec *r = w->code[x].at[k];
            bool fills = false;
            for (int32_t i = r->i.nsrc; i < r->i.nsrc + r->i.ndst; i++) {
                if (r->locs[i].buf >= 0)
                    continue;
                int32_t slot = peali_land_slot(to->land_start, r->locs[i]);
                to->land_home[slot] = (int16_t)x;
                to->land_line[slot] = line;
                fills = true;
            }
            line += fills;
        }
}

/* Whom this rank stores to, and whose begin is known at its end. */
static void put_neighbours(const peali_work *w, int x, room *to)
{
    const peali_vec *code = &w->code[x];
    const peali_rec *last = code->at[code->n - 1];
    for (int y = 0; y < w->reach->nranks; y++)
        to->knows[y] = last->clock[y] > 0;
    for (int32_t k = 0; k < code->n; k++) {
        const peali_rec *r = code->at[k];
        for (int32_t i = r->i.nsrc; i < r->i.nsrc + r->i.ndst; i++)
            if (r->locs[i].buf < 0 && r->locs[i].rank != x)
                to->stores_to[r->locs[i].rank] = 1;
    }
}

/* What instructions of rank Y touch of X's IN and OUT; what WIDENS gets is OUT, where something of it is shown already. */
static bool show(const peali_work *w, int y, int x, bool widens, uint8_t *shown)
{
    bool moved = false;
    for (int32_t k = 0; k < w->code[y].n; k++) {
        const peali_rec *r = w->code[y].at[k];
        for (int32_t i = 0; i < r->i.nsrc + r->i.ndst; i++) {
            int buf = r->locs[i].buf;
            bool touches = r->locs[i].rank == x && (buf == PEAL_BUF_OUT || (buf == PEAL_BUF_IN && !widens));
            uint8_t bit = buf == PEAL_BUF_OUT ? PEALI_SHOWN_OUT : PEALI_SHOWN_IN, any = 0, all = bit;
            for (int32_t at = r->i.first; touches && at < r->i.end; at++) {
                any |= shown[at] & bit;
                all &= shown[at];
            }
            if (!touches || all || (widens && !any))
                continue;
            moved = true;
            for (int32_t at = r->i.first; at < r->i.end; at++)
                shown[at] |= bit;
        }
    }
    return moved;
}

/* An operand lies in one place: what an instruction of the rank itself touches of its OUT is shown as a whole, or not at all. */
static void put_shown(const peali_work *w, int x, room *to)
{
    for (int y = 0; y < w->reach->nranks; y++)
        if (y != x)
            (void)show(w, y, x, false, to->shown);
    while (show(w, x, x, true, to->shown))
        continue;
}

/* Does the end of each rank wait for the begin of all? */
static bool all_know(const peali_work *w)
{
    bool all = true;
    for (int x = 0; x < w->reach->nranks; x++) {
        const peali_rec *last = w->code[x].at[w->code[x].n - 1];
        for (int y = 0; y < w->reach->nranks; y++)
            all &= last->clock[y] > 0;
    }
    return all;
}

static bool meets_all(const peali_work *w, int x, bool *met)
{
    int32_t n = w->reach->nranks, others = 0;
    memset(met, 0, (size_t)n * sizeof *met);
    for (int32_t k = 0; k < w->code[x].n; k++) {
        const peali_rec *r = w->code[x].at[k];
        for (int32_t i = 0; i < r->i.nsrc + r->i.ndst; i++)
            met[r->locs[i].rank] |= r->locs[i].buf == PEAL_BUF_IN || r->locs[i].buf == PEAL_BUF_OUT;
    }
    for (int y = 0; y < n; y++)
        others += y != x && met[y];
    return others == n - 1;
}

/* Pull and place: does each rank touch IN or OUT of all others? */
static bool all_meet(peali_work *w)
{
    bool *met = peali_work_get(w, (size_t)w->reach->nranks, sizeof *met), all = met != NULL;
    for (int x = 0; all && x < w->reach->nranks; x++)
        all = meets_all(w, x, met);
    return all;
}

static bool meets_in(const peali_work *w, int x)
{
    for (int32_t k = 0; k < w->code[x].n; k++) {
        const peali_rec *r = w->code[x].at[k];
        for (int32_t i = 0; i < r->i.nsrc; i++)
            if (r->locs[i].rank != x && r->locs[i].buf == PEAL_BUF_IN)
                return true;
    }
    return false;
}

/* Pull, a broadcast: does each other rank touch IN of the root, which alone has one? Push: what lands comes from there. */
static bool root_tells(const peali_work *w)
{
    int met = 0;
    for (int x = 0; x < w->reach->nranks; x++)
        met += meets_in(w, x);
    return w->mode == PEALI_PUSH || met == w->reach->nranks - 1;
}

peal_status peali_pack(peali_work *w, int x, const peal_algo *algo, peali_program **out)
{
    peali_arena arena = {0};
    room to = {0};
    peali_program *p = peali_arena_get(&arena, 1, sizeof *p);
    if (!p)
        return PEAL_ERR_MEMORY;
    const peali_vec *code = &w->code[x];
    *p = (peali_program){.arena = arena, .algo = algo, .rank = w->reach->ranks[x], .nranks = w->scheds[x]->nranks, .me = x};
    p->nreach = w->reach->nranks;
    p->nblocks = w->scheds[x]->nblocks;
    p->nlanes = w->scheds[x]->nlanes;
    p->ncuts = w->cuts.n;
    p->ninstrs = code->n;
    p->nscratch = w->ncells - w->npieces;
    p->mode = w->mode;
    for (int y = 0; y < p->nreach; y++)
        p->nland += w->landings[y].n;
    if (!make_room(w, code, p, &to)) {
        peali_program_free(&p);
        return PEAL_ERR_MEMORY;
    }
    number_flags(w);
    p->nflags = count_flags(code);
    for (int y = 0; y < p->nreach; y++)
        p->most_flags = count_flags(&w->code[y]) > p->most_flags ? count_flags(&w->code[y]) : p->most_flags;
    for (int32_t k = 0; k < code->n; k++)
        put(&to, code->at[k]);
    if (w->cuts.n)
        memcpy(to.cuts, w->cuts.at, (size_t)w->cuts.n * sizeof *to.cuts);
    size_slots(w, to.slot_blocks);
    put_landings(w, &to);
    put_homes(w, &to);
    put_neighbours(w, x, &to);
    put_shown(w, x, &to);
    p->all_wait = all_know(w);
    p->all_hear = w->mode == PEALI_PUSH ? p->all_wait : all_meet(w);
    p->tells = algo->kind == PEAL_BROADCAST ? root_tells(w) : p->all_hear;
    p->instrs = to.instrs;
    p->locs = to.locs;
    p->waits = to.waits;
    p->awaits = to.awaits;
    p->cuts = to.cuts;
    p->slot_blocks = to.slot_blocks;
    p->land_start = to.land_start;
    p->land_first = to.land_first;
    p->land_end = to.land_end;
    p->land_home = to.land_home;
    p->land_line = to.land_line;
    p->stores_to = to.stores_to;
    p->knows = to.knows;
    p->shown = to.shown;
    if (w->failed)
        peali_program_free(&p);
    else
        *out = p;
    return w->failed ? PEAL_ERR_MEMORY : PEAL_OK;
}

void peali_program_free(peali_program **program)
{
    if (*program) {
        peali_arena arena = (*program)->arena; /* the program lies in it */
        peali_arena_free(&arena);
    }
    *program = NULL;
}
