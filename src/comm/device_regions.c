/*
 * An entry is taken again when each peer has heard that its last offer was withdrawn: until then one may be reading it. What is
 * offered stays so as long as it lives: a captured call has the addresses of its buffers for good.
 */
#include "comm/device_regions.h"

#include "base/atomics.h"
#include "base/log.h"

/* O of rank X is not what this rank heard of last. */
static void let_go(const peali_regions_desk *d, int x, peali_offer *o)
{
    if (peali_load_acquire(&o->state) != o->heard[d->rank] && o->at[d->rank]) {
        peali_team_unmap(d->team, x, o->at[d->rank]);
        o->at[d->rank] = 0;
    }
}

static void come_after(const peali_regions_desk *d, int x, peali_offer *o)
{
    const uint64_t state = peali_load_acquire(&o->state);
    if (state == o->heard[d->rank])
        return;
    let_go(d, x, o);
    o->at[d->rank] = state & 1 ? peali_team_map(d->team, x, &o->region) : 0;
    peali_store_release(&o->heard[d->rank], state); /* pairs with seen */
}

void peali_regions_come_by(peali_regions_desk *d)
{
    for (int x = 0; x < d->nranks; x++) {
        uint32_t news = peali_load_acquire(&d->offers[x]->news); /* pairs with change */
        if (x == d->rank || news == d->news[x])
            continue;
        for (int k = 0; k < PEALI_REGIONS_OFFERS; k++) /* first: some drivers map nothing where freed memory is mapped still */
            let_go(d, x, &d->offers[x]->of[k]);
        for (int k = 0; k < PEALI_REGIONS_OFFERS; k++)
            come_after(d, x, &d->offers[x]->of[k]);
        d->news[x] = news;
    }
}

void peali_regions_leave(peali_regions_desk *d)
{
    for (int x = 0; x < d->nranks && d->offers[x]; x++)
        for (int k = 0; k < PEALI_REGIONS_OFFERS && x != d->rank; k++) {
            uint64_t *at = &d->offers[x]->of[k].at[d->rank];
            if (*at)
                peali_team_unmap(d->team, x, *at);
            *at = 0;
        }
}

/* Has each peer come after what O is now? */
static bool all_heard(const peali_regions_desk *d, const peali_offer *o)
{
    for (int y = 0; y < d->nranks; y++)
        if (y != d->rank && peali_load_acquire(&o->heard[y]) != o->state)
            return false;
    return true;
}

/* O is offered from now on (LIVE), or not any more. */
static void change(const peali_regions_desk *d, peali_offer *o, bool live)
{
    peali_store_release(&o->state, o->state / 2 * 2 + (live ? 3 : 2)); /* pairs with come_after */
    (void)peali_add_release(&d->offers[d->rank]->news, 1);
}

static bool covers(const peali_offer *o, uint64_t at)
{
    return (o->state & 1) && at - o->region.base < o->region.bytes;
}

/* The offer of what lies at AT now. What does not lie there any more is withdrawn. */
static peali_offer *standing(const peali_regions_desk *d, const void *at)
{
    for (int k = 0; k < PEALI_REGIONS_OFFERS; k++) {
        peali_offer *o = &d->offers[d->rank]->of[k];
        if (!covers(o, (uintptr_t)at))
            continue;
        if (peali_team_buffer(d->team, at) == o->region.id)
            return o;
        change(d, o, false);
    }
    return NULL;
}

/* An entry for a new offer: NULL where all stand, or peers have not heard of their end yet. */
static peali_offer *unused(const peali_regions_desk *d)
{
    peali_offer *found = NULL;
    for (int k = 0; k < PEALI_REGIONS_OFFERS; k++) {
        peali_offer *o = &d->offers[d->rank]->of[k];
        if ((o->state & 1) && peali_team_buffer(d->team, (const void *)(uintptr_t)o->region.base) != o->region.id)
            change(d, o, false); /* it was freed */
        if (!found && !(o->state & 1) && all_heard(d, o))
            found = o;
    }
    return found;
}

/* Is what lies at AT one of the last that could not be mapped? */
static bool is_refused(const peali_regions_desk *d, const void *at)
{
    const uint64_t id = peali_team_buffer(d->team, at);
    for (int k = 0; k < PEALI_REGIONS_REFUSED; k++)
        if (d->refused[k] == id)
            return true;
    return false;
}

/* What cannot be mapped takes no entry: there may be any number of such. */
static void offer(peali_regions_desk *d, const void *at)
{
    peali_team_region region;
    peali_offer *o = is_refused(d, at) ? NULL : unused(d);
    if (!o || !peali_team_export(d->team, at, &region))
        return;
    peali_log(PEALI_LOG_INFO, PEALI_SUB_COLL, d->rank, "buffers: %zu bytes at %p are %s", (size_t)region.bytes,
              (void *)(uintptr_t)region.base, region.exported ? "offered to peers" : "nothing that peers can map");
    if (!region.exported) {
        d->refused[d->nrefused++ % PEALI_REGIONS_REFUSED] = region.id;
        return;
    }
    o->region = region;
    change(d, o, true);
}

/* Where all see AT, which is in O. */
static bool seen(const peali_regions_desk *d, const peali_offer *o, uint64_t at, uint64_t *views)
{
    if (!all_heard(d, o))
        return false;
    for (int y = 0; y < d->nranks; y++) {
        if (y != d->rank && !o->at[y])
            return false;
        views[y] = y == d->rank ? at : o->at[y] + (at - o->region.base);
    }
    return true;
}

bool peali_regions_find(peali_regions_desk *d, const void *at, size_t bytes, bool fresh, uint64_t *views)
{
    const peali_offer *o = standing(d, at);
    if (!o && fresh)
        offer(d, at);
    return o && bytes <= o->region.base + o->region.bytes - (uintptr_t)at && seen(d, o, (uintptr_t)at, views);
}

bool peali_regions_withdraw(const peali_regions_desk *d, const void *at)
{
    peali_offer *o = standing(d, at);
    if (o)
        change(d, o, false);
    return o != NULL;
}
