/*
 * What ranks know of each other's memory where calls do not tell it (lower.h, tells), as those down a tree, whose root alone hears
 * of all: in such a call each rank shows whether it is seen, and behind one that all have left all read what all have shown. Nobody
 * shows anew before all have read. When that is, each rank counts by itself, and all alike: by the programs and slices of calls.
 */
#include "exec/runner.h"

#include "base/atomics.h"

static bool shows(const peali_runner *r, int class)
{
    return r->shows[class / 64] >> class % 64 & 1;
}

/*
 * Who has begun a call has left those before it. Push: before this rank began its last slice, or one before that, all had left what
 * lay in the same area (run.c, credited).
 */
void peali_run_count_left(peali_runner *r)
{
    const peali_program *p = r->plan->program;
    const int64_t base = (int64_t)r->base, last = base + r->plan->job.slices - r->lands.areas;
    const bool among_all = p->nreach == r->nreach; /* else it waits for fewer than there are (plans.c, without reach) */
    const int64_t left = !among_all ? 0 : p->all_wait ? base : p->mode != PEALI_PUSH ? 0 : last < base ? last : base;
    r->left_by_all = left > r->left_by_all ? left : r->left_by_all;
}

void peali_run_show(peali_runner *r, int class)
{
    const peali_program *p = r->plan->program;
    if (p->tells || p->nreach < p->nranks || shows(r, class) || r->due[class] > r->left_by_all)
        return;
    const uint64_t bit = (uint64_t)1 << class % 64, others = peali_load_relaxed(&r->mine->sees[class / 64]) & ~bit;
    peali_store_relaxed(&r->mine->sees[class / 64], others | (r->seen ? bit : 0));
    r->shows[class / 64] |= bit;
    r->due[class] = (int64_t)r->base + r->plan->job.slices;
}

int peali_run_look(peali_runner *r, int class)
{
    if (!shows(r, class) || r->due[class] > r->left_by_all)
        return -1;
    bool all = true;
    for (int32_t x = 0; x < r->nreach; x++)
        all &= peali_load_relaxed(&r->shown[x]->sees[class / 64]) >> class % 64 & 1;
    r->shows[class / 64] &= ~((uint64_t)1 << class % 64);
    r->due[class] = (int64_t)r->base + 1; /* who has left that one has read */
    return all;
}
