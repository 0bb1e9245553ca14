/*
 * Ranks that wait help the others. Cores that do the same work are not done with it at the same time: they share caches and memory,
 * and virtual ones real cores, with others. So a rank offers a long sum in pieces as soon as all that it reads is there. It takes
 * them from the front, one after the other, and who has nothing else to do takes them from the back: so most stay with their rank,
 * whose caches and page tables know them. Who adds up a piece makes no difference to the result, for the sources of an element are
 * added in the same order. To other instructions nothing changes: the sum begins when its operands are there, and is over when all
 * pieces are.
 *
 * Source: work stealing from the other end, Blumofe and Leiserson, J. ACM 46 (1999). Allreduce by two_shot, float sum, us without
 * help and with it, on 32 and 64 cores of Xeon of virtual machines, in the same buffers over and over, and in ever other ones:
 *
 *     ranks             1 MiB              4 MiB                16 MiB
 *     seen         4     80   84  83  89    330  322  366  356
 *                  8    123  120 145 133    508  457  793  659   2627  2509  3536  2859
 *                 16    200  143 226 202    835  527 1118  899   4629  3694  3871  3597
 *                 32                       1552 1491 1987 1759   7514  6930  7808  6792
 *     ordinary    16    502  475 432 436   1588 1576 1713 1719   6521  6580  7863  7103
 *                 32    571  598 693 679   2900 2693 2814 2663  11250 10359 11867 10134
 */
#include "exec/runner.h"

#include <string.h>

#include "base/atomics.h"
#include "base/clock.h"

/*
 * Of a sum below LEAST bytes a core adds up all sooner than another fetches a part: 32 KiB of 32 ranks, whose results stayed in
 * its caches, took 1.3 times as long with help, 64 KiB of 16 ranks 0.7. What has landed for it lies in no cache of its own, and
 * slices are short. Of FEW ranks none has to wait for long. What a rank takes over it does not share.
 */
bool peali_run_helps(const peali_runner *r, const peali_plan *plan)
{
    enum { LEAST = 48 << 10, LEAST_LANDED = 16 << 10, FEW = 8 };
    const size_t bytes = plan->slice_bytes / (size_t)plan->program->nranks;
    const bool landed = plan->program->mode == PEALI_PUSH, longs = bytes >= (landed ? (size_t)LEAST_LANDED : (size_t)LEAST);
    const bool sums = plan->job.algo->kind != PEAL_BROADCAST && plan->job.algo->kind != PEAL_ALLGATHER;
    return sums && plan->nmessages == 0 && r->nreach > 1 &&
           (r->piece > 0 || (r->nreach >= FEW && longs && !(landed && plan->takes_over)));
}

/*
 * Bytes of each operand in a piece: a sixteenth of the sum, and of all together MOST at most, which a core goes through in 10 to
 * 20 us: for as long the others wait for the last one. 512 KiB, 128 KiB: 0.95 to 1.15 times as long on 16 and 32 ranks.
 */
static size_t piece_bytes(const peali_runner *r, size_t bytes, size_t noperands)
{
    enum { PAGE = 4096, MOST = 256 << 10, PARTS = 16 };
    const size_t most = MOST / noperands, part = bytes / PARTS < most ? bytes / PARTS : most;
    return r->piece > 0 ? r->piece : part < PAGE ? PAGE : part / PAGE * PAGE;
}

/* Does only its own rank reach LOC: does it lie where the user has it, and peers do not touch it, or not there? */
static bool apart(const peali_runner *r, const peali_instr *i, peali_loc loc)
{
    if (loc.buf != PEAL_BUF_IN && loc.buf != PEAL_BUF_OUT)
        return false;
    if (r->plan->program->mode == PEALI_PUSH)
        return true;
    return r->mine->front.staged >> (loc.buf == PEAL_BUF_OUT) & 1 && peali_run_at_home(r, i, loc);
}

static int32_t home(const peali_runner *r, peali_loc loc)
{
    const peali_program *p = r->plan->program;
    return loc.buf < 0 ? p->land_home[peali_land_slot(p->land_start, loc)] : peali_run_owner(r, loc);
}

static void put(const peali_runner *r, peali_sum *sum, int operand, int32_t x, const void *at)
{
    sum->rank[operand] = (int16_t)x;
    sum->at[operand] = (uintptr_t)at - (uintptr_t)r->shift[x];
}

/* One source that lies apart is copied to where others reach it. False: there is no room for it. */
static bool put_sources(peali_runner *r, const peali_instr *i, const peali_loc *locs, size_t bytes, peali_sum *sum)
{
    bool spent = false;
    for (int k = 0; k < i->nsrc; k++) {
        if (!apart(r, i, locs[k])) {
            put(r, sum, k, home(r, locs[k]), r->src[k]);
            continue;
        }
        if (spent || bytes > r->spare_bytes)
            return false;
        spent = true;
        put(r, sum, k, r->me, (const unsigned char *)memcpy(r->spare, r->src[k], bytes) + r->shift[r->me]);
    }
    sum->nsrc = i->nsrc;
    return true;
}

/* One destination that lies apart gets its part at the end, from one that does not. False: that is not enough. */
static bool put_destinations(peali_runner *r, const peali_instr *i, const peali_loc *locs, peali_sum *sum)
{
    unsigned char *part = NULL;
    bool filled = false;
    sum->ndst = 0;
    for (int k = i->nsrc, d = 0; k < i->nsrc + i->ndst; k++) {
        if (locs[k].buf < 0 && filled) /* all slots that it fills are one place */
            continue;
        filled |= locs[k].buf < 0;
        const bool alone = apart(r, i, locs[k]);
        if (alone && part)
            return false;
        if (alone)
            part = r->dst[d];
        else
            put(r, sum, i->nsrc + sum->ndst++, home(r, locs[k]), r->dst[d]);
        d++;
    }
    r->part = sum->ndst > 0 ? part : NULL;
    return sum->ndst > 0;
}

static void add_up(peali_runner *r, const peali_sum *sum, uint64_t piece)
{
    const size_t from = (size_t)piece * sum->piece, bytes = sum->bytes - from < sum->piece ? sum->bytes - from : sum->piece;
    for (int k = 0; k < sum->nsrc; k++)
        r->src[k] = (const void *)(sum->at[k] + (uintptr_t)r->shift[sum->rank[k]] + from);
    for (int k = 0, at = sum->nsrc; k < sum->ndst; k++, at++) {
        r->dst[k] = (void *)(sum->at[at] + (uintptr_t)r->shift[sum->rank[at]] + from);
        peali_run_map_around(r, sum->rank[at], r->dst[k], bytes);
    }
    peali_run_combine(r, sum->ndst, sum->nsrc, bytes, sum->past);
}

/* Not where ranks outnumber cores: who waits gives its core to who has work. */
static bool works(const peali_runner *r)
{
    return r->plan->helps && (r->piece > 0 || !peali_run_crowded(r));
}

/* Describes the sum, while nobody can take pieces of it. False: it is none to offer. */
static bool prepare(peali_runner *r, const peali_instr *i, size_t bytes, bool past, peali_sum *sum)
{
    const size_t noperands = (size_t)i->nsrc + i->ndst;
    const peali_loc *locs = r->plan->program->locs + i->locs;
    if (!works(r) || r->helpers > 0 || i->nsrc < 2 || noperands > PEALI_REACH_OPERANDS || peali_plan_units(r->plan, i) > 1)
        return false;
    sum->piece = piece_bytes(r, bytes, noperands);
    if (bytes <= sum->piece || bytes / sum->piece >= PEALI_SUM_FIRST - 1 || !put_sources(r, i, locs, bytes, sum) ||
        !put_destinations(r, i, locs, sum))
        return false;
    sum->bytes = bytes;
    sum->past = past && !r->part;
    r->part_past = past;
    peali_store_relaxed(&sum->call, r->call);
    peali_store_relaxed(&sum->done, 0);
    return true;
}

bool peali_run_offer(peali_runner *r, const peali_instr *i, size_t bytes, bool past)
{
    peali_sum *sum = &r->mine->sum;
    if (!prepare(r, i, bytes, past, sum))
        return false;
    const uint64_t npieces = (bytes + sum->piece - 1) / sum->piece;
    uint64_t claims = (peali_sum_number(peali_load_relaxed(&sum->claims)) + 1) * PEALI_SUM_NUMBER + npieces;
    peali_store_release(&sum->claims, claims); /* pairs with offers() */
    while (peali_sum_first(claims) < peali_sum_end(claims)) {
        if (peali_swap_acquire(&sum->claims, claims, claims + PEALI_SUM_FIRST))
            add_up(r, sum, peali_sum_first(claims));
        claims = peali_load_relaxed(&sum->claims);
    }
    r->helpers = npieces - peali_sum_end(claims);
    return true;
}

bool peali_run_offer_is_over(peali_runner *r)
{
    if (peali_load_acquire(&r->mine->sum.done) < r->helpers)
        return false;
    r->helpers = 0;
    return true;
}

void peali_run_offer_end(peali_runner *r)
{
    const peali_sum *sum = &r->mine->sum;
    if (!r->part || r->helpers > 0)
        return;
    r->src[0] = (const void *)(sum->at[sum->nsrc] + (uintptr_t)r->shift[sum->rank[sum->nsrc]]);
    r->dst[0] = r->part;
    r->part = NULL;
    peali_run_combine(r, 1, 1, sum->bytes, r->part_past);
}

/* Has X pieces to offer, of this call? CLAIMS: as they are. */
static bool offers(const peali_runner *r, int32_t x, uint64_t *claims)
{
    const peali_sum *sum = &r->shown[x]->sum;
    *claims = peali_load_acquire(&sum->claims);
    return peali_sum_first(*claims) < peali_sum_end(*claims) && peali_load_relaxed(&sum->call) == r->call;
}

/* Takes a piece of X's: the offer stays as it is until all are done, so also this one. */
static void take(peali_runner *r, int32_t x, uint64_t claims)
{
    const int64_t begin_ns = r->timed ? peali_clock_ns() : 0;
    peali_sum *sum = &r->shown[x]->sum;
    peali_store_relaxed(&r->mine->helping, x + 1);
    if (!peali_swap_acquire(&sum->claims, claims, claims - 1)) {
        peali_store_relaxed(&r->mine->helping, 0);
        return;
    }
    add_up(r, sum, peali_sum_end(claims) - 1);
    if (r->timed)
        peali_timeline_did((peali_moment){.what = "help", .how = "", .key = (uintptr_t)r, .slice = -1, .bytes = sum->piece,
                                          .rank = peali_run_world(r, r->net->rank), .peer = peali_run_world(r, r->ranks[x])},
                           begin_ns);
    peali_run_settle(r);
    (void)peali_add_release(&sum->done, 1); /* pairs with peali_run_offer_is_over() */
    peali_store_relaxed(&r->mine->helping, 0);
}

/*
 * Who offers has seen all flags that it waited for, and those that this rank waits for may be among them. Its own sum comes
 * first, for its caches may hold some of it; so it looks for them again before it helps.
 */
bool peali_run_help(peali_runner *r)
{
    uint64_t claims;
    if (!works(r))
        return false;
    for (int32_t k = 1, x = r->me; k < r->nreach; k++) {
        x = x + 1 < r->nreach ? x + 1 : 0;
        if (!offers(r, x, &claims))
            continue;
        if (r->looked_again)
            take(r, x, claims);
        r->looked_again = !r->looked_again;
        return true;
    }
    return false;
}

int32_t peali_run_helper(const peali_runner *r)
{
    int32_t x = 0;
    while (x < r->nreach && peali_load_relaxed(&r->shown[x]->helping) != r->me + 1)
        x++;
    return x < r->nreach ? x : -1;
}
