/*
 * Every instruction by itself, the flags and landing slots, and the messages.
 *
 * Nothing that the lowering promises is taken for granted, but that operands, waits and awaits lie packed in order of instructions.
 */
#include "study/check_programs_parts.h"

#include <string.h>

static peal_status form_head(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    if (q->rank != r || q->nranks != p->n || q->me != p->place[r] || q->nreach != p->nnear[r] || q->mode != p->mode)
        return peali_proving_refute(p, r, -1, "holds the program of rank %d of %d, %d of %d within reach", (int)q->rank,
                                    (int)q->nranks, (int)q->me, (int)q->nreach);
    if (q->nblocks != p->truth->c.nblocks)
        return peali_proving_refute(p, r, -1, "has %d blocks, the schedules have %d", (int)q->nblocks, (int)p->truth->c.nblocks);
    if (q->nflags > q->most_flags)
        return peali_proving_refute(p, r, -1, "has %d flags, and says that no rank has more than %d", (int)q->nflags,
                                    (int)q->most_flags);
    if (q->ninstrs < 2 || q->instrs[0].kind != PEALI_I_ENTER || q->instrs[q->ninstrs - 1].kind != PEALI_I_EXIT)
        return peali_proving_refute(p, r, -1, "does not begin with enter and end with exit");
    return PEAL_OK;
}

/* What all ranks within reach must have alike, because each computes addresses at the others. */
static peal_status form_alike(peali_proving *p, int r)
{
    const peali_program *q = p->program[r], *o = p->program[p->domain[r]];
    size_t starts = (size_t)o->nreach + 1, nland = (size_t)o->nland;
    bool alike = q->ncuts == o->ncuts && q->nscratch == o->nscratch && q->nland == o->nland &&
                 q->all_wait == o->all_wait && q->all_hear == o->all_hear && q->tells == o->tells &&
                 !memcmp(q->cuts, o->cuts, (size_t)o->ncuts * sizeof *o->cuts) &&
                 !memcmp(q->slot_blocks, o->slot_blocks, (size_t)o->nscratch * sizeof *o->slot_blocks) &&
                 !memcmp(q->land_start, o->land_start, starts * sizeof *o->land_start) &&
                 !memcmp(q->land_first, o->land_first, nland * sizeof *o->land_first) &&
                 !memcmp(q->land_end, o->land_end, nland * sizeof *o->land_end);
    if (alike && q->land_home && o->land_home)
        alike = !memcmp(q->land_home, o->land_home, nland * sizeof *o->land_home) &&
                !memcmp(q->land_line, o->land_line, nland * sizeof *o->land_line);
    if (!alike)
        return peali_proving_refute(p, r, -1, "has other cuts, scratch or landing slots than rank %d, or hears of all",
                                    (int)p->domain[r]);
    return PEAL_OK;
}

static peal_status form_landings(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    if (q->land_start[0] != 0 || q->land_start[q->nreach] != q->nland)
        return peali_proving_refute(p, r, -1, "its landing slots are not numbered through");
    for (int x = 0; x < q->nreach; x++)
        if (q->land_start[x + 1] < q->land_start[x])
            return peali_proving_refute(p, r, -1, "its landing slots are not numbered through");
    for (int32_t i = 0; i < q->nland; i++)
        if (q->land_first[i] < 0 || q->land_first[i] >= q->land_end[i] || q->land_end[i] >= q->ncuts)
            return peali_proving_refute(p, r, -1, "landing slot %d has no range", (int)i);
    if (p->mode != PEALI_PUSH && q->nland)
        return peali_proving_refute(p, r, -1, "has landing slots, in %s", peali_mode_name(p->mode));
    return PEAL_OK;
}

/* The pieces at the cuts: both ascend. */
static peal_status form_cuts(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    const peali_checking *c = &p->truth->c;
    p->piece[r] = p->piece[p->domain[r]];
    if (p->domain[r] != r)
        return PEAL_OK;
    p->piece[r] = peali_arena_get(&p->arena, (size_t)q->ncuts, sizeof **p->piece);
    if (!p->piece[r])
        return PEAL_ERR_MEMORY;
    for (int32_t i = 0, at = 0; i < q->ncuts; i++) {
        while (at < c->npieces && c->cut[at] < q->cuts[i])
            at++;
        if (c->cut[at] != q->cuts[i] || (i > 0 && q->cuts[i] <= q->cuts[i - 1]))
            return peali_proving_refute(p, r, -1, "no range of the schedules ends at block %d", (int)q->cuts[i]);
        p->piece[r][i] = at;
    }
    return PEAL_OK;
}

static peal_status form_waits(peali_proving *p, int r, int no)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    for (int32_t k = 0; k < i->nwaits; k++) {
        int32_t w = q->waits[i->waits + k];
        if (w < 0 || w >= no || !peali_proving_async(&q->instrs[w]))
            return peali_proving_refute(p, r, no, "waits for instruction %d, which is no message before it", (int)w);
        if (p->waiter[p->base[r] + w] < 0)
            p->waiter[p->base[r] + w] = no;
    }
    return PEAL_OK;
}

/* Which ranks a flag belongs to can be told once all ranks' flags are known. */
static peal_status form_awaits(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    for (int no = 0; no < q->ninstrs; no++)
        for (int32_t k = 0; k < q->instrs[no].nawaits; k++) {
            peali_await a = q->awaits[q->instrs[no].awaits + k];
            if (a.rank < 0 || a.rank >= q->nreach || a.rank == q->me)
                return peali_proving_refute(p, r, no, "awaits a flag of %d within reach, which is no other rank", (int)a.rank);
            int y = p->near[r][a.rank];
            if (a.flag < 0 || a.flag >= p->program[y]->nflags || p->flag[p->flags[y] + a.flag] < 0)
                return peali_proving_refute(p, r, no, "awaits flag %d of rank %d, which nothing raises", (int)a.flag, y);
        }
    return PEAL_OK;
}

static peal_status form_flag(peali_proving *p, int r, int no)
{
    const peali_program *q = p->program[r];
    int32_t flag = q->instrs[no].flag;
    if (p->mode == PEALI_PUSH && (flag >= 0 || q->instrs[no].nawaits))
        return peali_proving_refute(p, r, no, "raises or awaits a flag, in push");
    if (flag < -1 || flag >= q->nflags)
        return peali_proving_refute(p, r, no, "raises flag %d of %d", (int)flag, (int)q->nflags);
    if (flag >= 0 && p->flag[p->flags[r] + flag] >= 0)
        return peali_proving_refute(p, r, no, "raises flag %d, as instruction %d does", (int)flag,
                                    (int)p->flag[p->flags[r] + flag]);
    if (flag >= 0)
        p->flag[p->flags[r] + flag] = no;
    return PEAL_OK;
}

/* The memory that operand LOC names is there, and this rank may use it so. */
static peal_status form_memory(peali_proving *p, int r, int no, peali_loc loc)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    if (loc.rank < 0 || loc.rank >= q->nreach)
        return peali_proving_refute(p, r, no, "has an operand at %d of %d within reach", loc.rank, (int)q->nreach);
    if (loc.buf >= PEAL_BUF_TMP) {
        int slot = loc.buf - PEAL_BUF_TMP;
        bool right = slot < q->nscratch && loc.base >= 0 && loc.base <= i->first;
        if (!right || q->cuts[i->end] - q->cuts[loc.base] > q->slot_blocks[slot])
            return peali_proving_refute(p, r, no, "its range is not within scratch buffer %d", slot);
    } else if (loc.buf < 0) {
        int32_t at = q->land_start[loc.rank] - 1 - loc.buf;
        if (at >= q->land_start[loc.rank + 1])
            return peali_proving_refute(p, r, no, "there is no landing slot %d", -1 - loc.buf);
        bool whole = i->kind == PEALI_I_EXIT;
        if (!whole && (loc.base != q->land_first[at] || i->first < loc.base || i->end > q->land_end[at]))
            return peali_proving_refute(p, r, no, "its range is not within landing slot %d", -1 - loc.buf);
    }
    return PEAL_OK;
}

static peal_status form_source(peali_proving *p, int r, int no, peali_loc loc)
{
    const peali_program *q = p->program[r];
    bool own = loc.rank == q->me, reduce = q->instrs[no].kind == PEALI_I_REDUCE;
    peal_status status = form_memory(p, r, no, loc);
    if (status == PEAL_OK && !own && (p->mode == PEALI_PUSH || !reduce))
        return peali_proving_refute(p, r, no, "reads memory of another rank");
    if (status == PEAL_OK && q->instrs[no].kind == PEALI_I_EXIT && loc.buf >= 0)
        return peali_proving_refute(p, r, no, "reads what is no landing slot");
    return status;
}

static peal_status form_target(peali_proving *p, int r, int no, peali_loc loc)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    bool own = loc.rank == q->me, recv = i->kind == PEALI_I_RECV;
    peal_status status = form_memory(p, r, no, loc);
    if (status != PEAL_OK)
        return status;
    if (loc.buf == PEAL_BUF_IN)
        return peali_proving_refute(p, r, no, "writes IN");
    if (recv ? !own : p->mode == PEALI_PUSH && own != (loc.buf >= 0))
        return peali_proving_refute(p, r, no, "writes where it must not");
    if (recv && p->mode == PEALI_PUSH && loc.buf >= 0)
        return peali_proving_refute(p, r, no, "receives elsewhere than into a landing slot");
    int y = p->near[r][loc.rank];
    peali_span mine = peali_check_holds(&p->truth->c, y, PEAL_BUF_OUT);
    if (loc.buf == PEAL_BUF_OUT && (q->cuts[i->first] < mine.first || q->cuts[i->end] > mine.end))
        return peali_proving_refute(p, r, no, "writes blocks of OUT that the user does not give rank %d", y);
    if (loc.buf >= 0)
        return PEAL_OK;
    int32_t *filler = peali_proving_filler(p, r, loc), at = q->land_start[loc.rank] - 1 - loc.buf;
    if (*filler >= 0)
        return peali_proving_refute(p, r, no, "fills landing slot %d of rank %d, as instruction %d of rank %d does", -1 - loc.buf,
                                    y, (int)(*filler - p->base[p->rank[*filler]]), (int)p->rank[*filler]);
    if (i->first != q->land_first[at] || i->end != q->land_end[at])
        return peali_proving_refute(p, r, no, "does not fill the whole of landing slot %d of rank %d", -1 - loc.buf, y);
    *filler = p->base[r] + no;
    return PEAL_OK;
}

static peal_status form_shape(peali_proving *p, int r, int no)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    bool frame = i->kind == PEALI_I_ENTER || i->kind == PEALI_I_EXIT, empty = i->nsrc == 0 && i->ndst == 0;
    if (i->kind > PEALI_I_EXIT || (i->kind == PEALI_I_ENTER) != (no == 0) || (i->kind == PEALI_I_EXIT) != (no == q->ninstrs - 1))
        return peali_proving_refute(p, r, no, "is of kind %d, number %d of %d", i->kind, no, (int)q->ninstrs);
    bool right = i->kind == PEALI_I_ENTER ? empty : i->kind == PEALI_I_EXIT ? i->ndst == 0 : true;
    if (peali_proving_async(i))
        right = i->nsrc == (i->kind == PEALI_I_SEND) && i->ndst == (i->kind == PEALI_I_RECV);
    if (i->kind == PEALI_I_REDUCE)
        right = i->nsrc > 0 || i->ndst == 0;
    if (!right)
        return peali_proving_refute(p, r, no, "has %d sources and %d destinations", i->nsrc, i->ndst);
    if (!frame && !empty && (i->first < 0 || i->first >= i->end || i->end >= q->ncuts))
        return peali_proving_refute(p, r, no, "has no range");
    if (!peali_proving_async(i))
        return PEAL_OK;
    if (i->peer < 0 || i->peer >= p->n || p->domain[i->peer] == p->domain[r] || i->lane >= q->nlanes)
        return peali_proving_refute(p, r, no, "there is no such peer out of reach, or no such lane");
    return PEAL_OK;
}

/* The slots that an instruction fills have one line, of the rank that runs it, and no other instruction has that. */
static peal_status form_lines(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    bool *taken = peali_arena_get(&p->arena, (size_t)q->nland, sizeof *taken);
    for (int no = 0; taken && q->land_home && no < q->ninstrs; no++) {
        const peali_instr *i = &q->instrs[no];
        int32_t line = -1;
        for (const peali_loc *loc = q->locs + i->locs + i->nsrc; loc < q->locs + i->locs + i->nsrc + i->ndst; loc++) {
            int32_t at = loc->buf < 0 ? peali_land_slot(q->land_start, *loc) : -1;
            if (at < 0)
                continue;
            int32_t has = q->land_line[at];
            bool right = q->land_home[at] == q->me && has >= 0 && has < q->nland && (line < 0 ? !taken[has] : has == line);
            if (!right)
                return peali_proving_refute(p, r, no, "has no line of its own for landing slot %d of rank %d", -1 - loc->buf,
                                            (int)p->near[r][loc->rank]);
            taken[line = has] = true;
        }
    }
    return taken ? PEAL_OK : PEAL_ERR_MEMORY;
}

/* What a rank touches of another's IN and OUT is shown there; and of its own OUT all that an instruction touches, or nothing. */
static peal_status form_shown(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    for (int no = 0; p->mode != PEALI_PUSH && no < q->ninstrs; no++) {
        const peali_instr *i = &q->instrs[no];
        for (const peali_loc *loc = q->locs + i->locs; loc < q->locs + i->locs + i->nsrc + i->ndst; loc++) {
            const uint8_t *shown = p->program[p->near[r][loc->rank]]->shown;
            bool own = loc->rank == q->me, right = true;
            int bit = loc->buf == PEAL_BUF_OUT ? PEALI_SHOWN_OUT : PEALI_SHOWN_IN;
            if (!shown || loc->buf < 0 || loc->buf >= PEAL_BUF_TMP || (own && loc->buf == PEAL_BUF_IN))
                continue;
            for (int32_t at = i->first; at < i->end; at++)
                right &= own ? (shown[at] & bit) == (shown[i->first] & bit) : (shown[at] & bit) != 0;
            if (!right)
                return peali_proving_refute(p, r, no, "touches what the program of rank %d does not show",
                                            (int)p->near[r][loc->rank]);
        }
    }
    return PEAL_OK;
}

/* Where a broadcast tells of its root's IN, what every other rank has came from there (push), or it touches that (else). */
static peal_status form_telling(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    bool broadcast = q->algo->kind == PEAL_BROADCAST, told = p->mode == PEALI_PUSH || q->nreach == 1;
    for (int no = 0; no < q->ninstrs; no++)
        for (int k = 0; k < q->instrs[no].nsrc; k++) {
            peali_loc loc = q->locs[q->instrs[no].locs + k];
            told |= loc.buf == PEAL_BUF_IN; /* the root has the only one, and copies it, or shows it */
        }
    if (broadcast ? q->tells && !told && r != p->truth->what.problem->root : q->tells != q->all_hear)
        return peali_proving_refute(p, r, -1, "says that ranks are told whose buffers are seen, and is not");
    return PEAL_OK;
}

/* Not push: who hears of all others' buffers touches one of each. */
static peal_status form_hearing(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    bool *met = peali_arena_get(&p->arena, (size_t)q->nreach, sizeof *met);
    for (int no = 0; met && no < q->ninstrs; no++)
        for (int k = 0; k < q->instrs[no].nsrc + q->instrs[no].ndst; k++) {
            peali_loc loc = q->locs[q->instrs[no].locs + k];
            met[loc.rank] |= loc.buf == PEAL_BUF_IN || loc.buf == PEAL_BUF_OUT;
        }
    for (int y = 0; met && y < q->nreach && q->all_hear && p->mode != PEALI_PUSH; y++)
        if (!met[y] && y != q->me)
            return peali_proving_refute(p, r, -1, "says that all hear of all, and touches nothing of rank %d",
                                        (int)p->near[r][y]);
    return met ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status form_instr(peali_proving *p, int r, int no)
{
    const peali_program *q = p->program[r];
    const peali_instr *i = &q->instrs[no];
    peal_status status = form_shape(p, r, no);
    p->rank[p->base[r] + no] = r;
    for (int k = 0; k < i->nsrc && status == PEAL_OK; k++)
        status = form_source(p, r, no, q->locs[i->locs + k]);
    for (int k = i->nsrc; k < i->nsrc + i->ndst && status == PEAL_OK; k++)
        status = form_target(p, r, no, q->locs[i->locs + k]);
    if (status == PEAL_OK)
        status = form_flag(p, r, no);
    return status == PEAL_OK ? form_waits(p, r, no) : status;
}

static peal_status number_landings(peali_proving *p)
{
    for (int r = 0; r < p->n; r++) {
        const peali_program *q = p->program[r];
        p->lands[r + 1] = p->lands[r] + q->land_start[q->me + 1] - q->land_start[q->me];
    }
    p->filler = peali_arena_get(&p->arena, (size_t)p->lands[p->n], sizeof *p->filler);
    if (!p->filler)
        return PEAL_ERR_MEMORY;
    memset(p->filler, -1, (size_t)p->lands[p->n] * sizeof *p->filler);
    return PEAL_OK;
}

/* A slot is left behind only when all that is sent to it has arrived: its owner waits for the message, or reads the slot. */
static peal_status all_arrive(peali_proving *p, int r)
{
    const peali_program *q = p->program[r];
    bool *read = peali_arena_get(&p->arena, (size_t)(p->lands[r + 1] - p->lands[r]), sizeof *read);
    if (!read)
        return PEAL_ERR_MEMORY;
    for (int no = 0; no < q->ninstrs; no++)
        for (int k = 0; k < q->instrs[no].nsrc; k++)
            if (q->locs[q->instrs[no].locs + k].buf < 0)
                read[-1 - q->locs[q->instrs[no].locs + k].buf] = true;
    for (int32_t s = 0; s < p->lands[r + 1] - p->lands[r]; s++) {
        int32_t filler = p->filler[p->lands[r] + s];
        if (filler < 0)
            return peali_proving_refute(p, r, -1, "nothing fills its landing slot %d", (int)s);
        if (!read[s] && p->rank[filler] != r)
            return peali_proving_refute(p, r, -1, "may leave a slice before its landing slot %d is filled", (int)s);
    }
    return PEAL_OK;
}

peal_status peali_programs_form(peali_proving *p)
{
    peal_status (*const heads[])(peali_proving *, int) = {form_head, form_alike, form_landings, form_cuts};
    peal_status (*const ends[])(peali_proving *, int) = {form_awaits, all_arrive,   form_lines,
                                                         form_shown,  form_hearing, form_telling};
    peal_status status = PEAL_OK;
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        for (int r = 0; r < p->n && status == PEAL_OK; r++)
            status = heads[k](p, r);
    if (status == PEAL_OK)
        status = number_landings(p);
    for (int r = 0; r < p->n; r++)
        for (int no = 0; no < p->program[r]->ninstrs && status == PEAL_OK; no++)
            status = form_instr(p, r, no);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        for (int r = 0; r < p->n && status == PEAL_OK; r++)
            status = ends[k](p, r);
    return status;
}
