/* Waits are instruction numbers, so whatever moves instructions renames them; flags have names of their own. */
#include "program_edit.h"

#include <stdlib.h>
#include <string.h>

bool edit_open(edit_program *e, const peali_program *p)
{
    if (p->ninstrs >= EDIT_INSTRS)
        return false;
    memset(e, 0, sizeof *e);
    e->p = *p;
    e->n = p->ninstrs;
    for (int no = 0; no < e->n; no++) {
        edit_instr *to = &e->at[no];
        to->i = p->instrs[no];
        if (to->i.nsrc + to->i.ndst >= EDIT_OPERANDS || to->i.nwaits >= EDIT_OPERANDS || to->i.nawaits >= EDIT_OPERANDS)
            return false;
        memcpy(to->locs, p->locs + to->i.locs, (size_t)(to->i.nsrc + to->i.ndst) * sizeof *to->locs);
        memcpy(to->waits, p->waits + to->i.waits, (size_t)to->i.nwaits * sizeof *to->waits);
        memcpy(to->awaits, p->awaits + to->i.awaits, (size_t)to->i.nawaits * sizeof *to->awaits);
    }
    return true;
}

/* Instruction k becomes to[k]; -1: it is no more. */
static void rename_waits(edit_program *e, const int *to)
{
    for (int no = 0; no < e->n; no++)
        for (int k = 0; k < e->at[no].i.nwaits; k++) {
            e->at[no].waits[k] = to[e->at[no].waits[k]];
            if (e->at[no].waits[k] < 0)
                edit_drop_wait(&e->at[no], k--);
        }
}

void edit_drop(edit_program *e, int no)
{
    int to[EDIT_INSTRS];
    for (int k = 0; k < e->n; k++)
        to[k] = k < no ? k : k == no ? -1 : k - 1;
    memmove(&e->at[no], &e->at[no + 1], (size_t)(e->n - no - 1) * sizeof *e->at);
    e->n--;
    rename_waits(e, to);
}

void edit_insert(edit_program *e, int no, const edit_instr *from)
{
    int to[EDIT_INSTRS];
    edit_instr keep = *from;
    if (e->n == EDIT_INSTRS)
        abort();
    for (int k = 0; k < e->n; k++)
        to[k] = k < no ? k : k + 1;
    rename_waits(e, to);
    memmove(&e->at[no + 1], &e->at[no], (size_t)(e->n - no) * sizeof *e->at);
    e->n++;
    e->at[no] = keep;
}

void edit_swap(edit_program *e, int no, int other)
{
    int to[EDIT_INSTRS];
    edit_instr keep = e->at[no];
    for (int k = 0; k < e->n; k++)
        to[k] = k == no ? other : k == other ? no : k;
    e->at[no] = e->at[other];
    e->at[other] = keep;
    rename_waits(e, to);
}

void edit_drop_operand(edit_instr *i, int k)
{
    int n = i->i.nsrc + i->i.ndst;
    if (k < i->i.nsrc)
        i->i.nsrc--;
    else
        i->i.ndst--;
    memmove(&i->locs[k], &i->locs[k + 1], (size_t)(n - k - 1) * sizeof *i->locs);
}

void edit_drop_wait(edit_instr *i, int k)
{
    memmove(&i->waits[k], &i->waits[k + 1], (size_t)(i->i.nwaits - k - 1) * sizeof *i->waits);
    i->i.nwaits--;
}

void edit_drop_await(edit_instr *i, int k)
{
    memmove(&i->awaits[k], &i->awaits[k + 1], (size_t)(i->i.nawaits - k - 1) * sizeof *i->awaits);
    i->i.nawaits--;
}

peali_program *edit_close(const edit_program *e)
{
    peali_program *p = malloc(sizeof *p);
    peali_instr *instrs = calloc((size_t)e->n, sizeof *instrs);
    peali_loc *locs = calloc((size_t)e->n * EDIT_OPERANDS, sizeof *locs);
    int32_t *waits = calloc((size_t)e->n * EDIT_OPERANDS, sizeof *waits), nlocs = 0, nwaits = 0, nawaits = 0;
    peali_await *awaits = calloc((size_t)e->n * EDIT_OPERANDS, sizeof *awaits);
    if (!p || !instrs || !locs || !waits || !awaits)
        abort();
    for (int no = 0; no < e->n; no++) {
        const edit_instr *from = &e->at[no];
        instrs[no] = from->i;
        instrs[no].locs = nlocs;
        instrs[no].waits = nwaits;
        instrs[no].awaits = nawaits;
        for (int k = 0; k < from->i.nsrc + from->i.ndst; k++)
            locs[nlocs++] = from->locs[k];
        for (int k = 0; k < from->i.nwaits; k++)
            waits[nwaits++] = from->waits[k];
        for (int k = 0; k < from->i.nawaits; k++)
            awaits[nawaits++] = from->awaits[k];
    }
    *p = e->p;
    p->ninstrs = e->n;
    p->instrs = instrs;
    p->locs = locs;
    p->waits = waits;
    p->awaits = awaits;
    return p;
}

void edit_free(peali_program *p)
{
    free((void *)p->instrs);
    free((void *)p->locs);
    free((void *)p->waits);
    free((void *)p->awaits);
    free(p);
}
