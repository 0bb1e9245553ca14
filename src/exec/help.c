/*
 * Ranks that wait help the others (pull). Cores that do the same work are not done with it at the same time: they share caches and
 * memory, and virtual ones real cores, with others. So a rank offers a long sum in pieces as soon as all that it reads is there. It
 * takes them from the front, one after the other, and who has nothing else to do takes them from the back: so most stay with their
 * rank, whose caches and page tables know them. Who adds up a piece makes no difference to the result, for the sources of an
 * element are added in the same order. To other instructions nothing changes: the sum begins when its operands are there, and is
 * over when all pieces are.
 *
 * Source: work stealing from the other end, Blumofe and Leiserson, J. ACM 46 (1999); whose share is of one size only, the slowest
 * core's. Allreduce by two_shot in memory that is seen, float sum, us without help and with it, 64 cores of Xeon of a virtual
 * machine, in the same buffers over and over, and in ever other ones (bench/results/xeon-64core):
 *
 *     ranks   1 MiB              4 MiB              16 MiB
 *         4     80   84  83 89    330  322 366 356
 *         8    123  120 145 133   508  457  793  659  2627 2509 3536 2859
 *        16    200  143 226 202   835  527 1118  899  4629 3694 3871 3597
 *        32                      1552 1491 1987 1759  7514 6930 7808 6792
 */
#include "exec/runner.h"

#include "base/atomics.h"
#include "base/clock.h"

/* A word of claims: the offer's number, and of its pieces those that nobody has taken: from the first to before the end. */
enum { PIECE_BITS = 20 };
#define PIECE_MASK (((uint64_t)1 << PIECE_BITS) - 1)
#define AN_OFFER ((uint64_t)1 << 2 * PIECE_BITS)
#define FIRST ((uint64_t)1 << PIECE_BITS)

static uint64_t first(uint64_t claims)
{
    return claims >> PIECE_BITS & PIECE_MASK;
}

static uint64_t end(uint64_t claims)
{
    return claims & PIECE_MASK;
}

/*
 * Of a sum below LEAST bytes a core adds up all sooner than another fetches a part: 32 KiB of 32 ranks, whose results stayed in
 * its caches, took 1.3 times as long with help, 64 KiB of 16 ranks 0.7. Of FEW ranks none has to wait for long.
 */
bool peali_run_helps(const peali_runner *r, const peali_plan *plan)
{
    enum { LEAST = 48 << 10, FEW = 8 };
    const size_t bytes = plan->slice_bytes / (size_t)plan->program->nranks;
    return plan->program->mode == PEALI_PULL && plan->nmessages == 0 && r->nreach > 1 &&
           (r->piece > 0 || (r->nreach >= FEW && bytes >= LEAST));
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

/* Does every operand lie where others reach it? Not where the user has it, of a rank whose buffer is staged. */
static bool reached(const peali_runner *r, const peali_instr *i, const peali_loc *locs)
{
    for (int32_t k = 0; k < i->nsrc + i->ndst; k++) {
        const bool out = locs[k].buf == PEAL_BUF_OUT, user = locs[k].buf < PEAL_BUF_TMP;
        if (user && r->shown[peali_run_owner(r, locs[k])]->front.staged >> out & 1 && peali_run_at_home(r, i, locs[k]))
            return false;
    }
    return true;
}

static void fill(peali_runner *r, const peali_instr *i, const peali_loc *locs, peali_sum *sum)
{
    for (int32_t k = 0; k < i->nsrc + i->ndst; k++) {
        const uintptr_t at = k < i->nsrc ? (uintptr_t)r->src[k] : (uintptr_t)r->dst[k - i->nsrc];
        sum->rank[k] = (int16_t)peali_run_owner(r, locs[k]);
        sum->at[k] = at - (uintptr_t)r->shift[sum->rank[k]];
    }
    sum->nsrc = i->nsrc;
    sum->ndst = i->ndst;
    peali_store_relaxed(&sum->call, r->call);
    peali_store_relaxed(&sum->done, 0);
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

bool peali_run_offer(peali_runner *r, const peali_instr *i, size_t bytes, bool past)
{
    const peali_loc *locs = r->plan->program->locs + i->locs;
    const size_t noperands = (size_t)i->nsrc + i->ndst, piece = piece_bytes(r, bytes, noperands);
    const uint64_t npieces = (bytes + piece - 1) / piece;
    peali_sum *sum = &r->mine->sum;
    if (!r->plan->helps || r->helpers > 0 || i->nsrc < 2 || noperands > PEALI_REACH_OPERANDS || npieces < 2 ||
        npieces > PIECE_MASK || peali_plan_units(r->plan, i) > 1 || !reached(r, i, locs))
        return false;
    fill(r, i, locs, sum);
    sum->bytes = bytes;
    sum->piece = piece;
    sum->past = past;
    uint64_t claims = (peali_load_relaxed(&sum->claims) / AN_OFFER + 1) * AN_OFFER + npieces;
    peali_store_release(&sum->claims, claims); /* pairs with offers() */
    while (first(claims) < end(claims)) {
        if (peali_swap_acquire(&sum->claims, claims, claims + FIRST))
            add_up(r, sum, first(claims));
        claims = peali_load_relaxed(&sum->claims);
    }
    r->helpers = npieces - end(claims);
    return true;
}

bool peali_run_offer_is_over(peali_runner *r)
{
    if (peali_load_acquire(&r->mine->sum.done) < r->helpers)
        return false;
    r->helpers = 0;
    return true;
}

/* Has X pieces to offer, of this call? CLAIMS: as they are. */
static bool offers(const peali_runner *r, int32_t x, uint64_t *claims)
{
    const peali_sum *sum = &r->shown[x]->sum;
    *claims = peali_load_acquire(&sum->claims);
    return first(*claims) < end(*claims) && peali_load_relaxed(&sum->call) == r->call;
}

/* Takes a piece of X's: the offer stays as it is until all are done, so also this one. */
static void take(peali_runner *r, int32_t x, uint64_t claims)
{
    const int64_t begin_ns = r->timed ? peali_clock_ns() : 0;
    peali_sum *sum = &r->shown[x]->sum;
    if (!peali_swap_acquire(&sum->claims, claims, claims - 1))
        return;
    peali_store_relaxed(&r->mine->helping, x + 1);
    add_up(r, sum, end(claims) - 1);
    if (r->timed)
        peali_timeline_did((peali_moment){.what = "help", .how = "", .key = (uintptr_t)r, .slice = -1, .bytes = sum->piece,
                                          .rank = peali_run_world(r, r->net->rank), .peer = peali_run_world(r, r->ranks[x])},
                           begin_ns);
    peali_run_settle(r);
    peali_store_relaxed(&r->mine->helping, 0);
    (void)peali_add_release(&sum->done, 1); /* pairs with peali_run_offer_is_over() */
}

/*
 * Who offers has seen all flags that it waited for, and those that this rank waits for may be among them. Its own sum comes
 * first, for its caches may hold some of it; so it looks for them again before it helps.
 */
bool peali_run_help(peali_runner *r)
{
    uint64_t claims;
    if (!r->plan->helps || (r->piece == 0 && peali_run_crowded(r)))
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
