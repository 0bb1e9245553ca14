/* A table of sizes, to be measured; what the user forces holds, or the call is refused. */
#include "comm/device_plans.h"

#include <string.h>

#include "base/config.h"
#include "comm/device.h"
#include "cuda/engines.h"

/* What a row may name beside the protocols of kernels, as PEAL_PROTO has them: both need devices that reach each other. */
enum { DIRECT = PEALI_CUDA_PROTOS, ENGINES };

static const struct row {
    peal_kind kind;
    int ranks;    /* up to; where some are out of reach: nodes */
    size_t bytes; /* of the vector, up to; allgather and reduce_scatter: of all ranks together */
    const char *algo;
    int proto; /* a peali_cuda_proto; LL128, DIRECT or ENGINES are passed over where they cannot be had */
    uint32_t ctas; /* at most, if sums are light; 0: as many as there are */
} table[] = {
    /* 2 ranks: measured on H200, 3 and 4: on 4 H100 (graph replay, float sums, default scratch). More: what those have shown. */
    {PEAL_ALLREDUCE, 2, 128 << 10, "one_shot", PEALI_CUDA_LL, 0},
    {PEAL_ALLREDUCE, 2, (2 << 20) - 1, "one_shot", PEALI_CUDA_LL128, 0},
    {PEAL_ALLREDUCE, 2, 24 << 20, "one_shot", PEALI_CUDA_LL128, 32},
    {PEAL_ALLREDUCE, 4, 64 << 10, "one_shot", PEALI_CUDA_LL, 0},
    {PEAL_ALLREDUCE, 4, 256 << 10, "one_shot", PEALI_CUDA_LL128, 0},
    {PEAL_ALLREDUCE, 4, 8 << 20, "two_shot", PEALI_CUDA_LL128, 0},
    {PEAL_ALLREDUCE, 2, (128 << 20) - 1, "two_shot", DIRECT, 0},
    {PEAL_ALLREDUCE, 2, SIZE_MAX, "two_shot", ENGINES, 0},
    {PEAL_ALLREDUCE, 4, (256 << 20) - 1, "two_shot", DIRECT, 0},
    {PEAL_ALLREDUCE, 4, SIZE_MAX, "two_shot", ENGINES, 0},
    {PEAL_ALLREDUCE, 16, 32 << 10, "one_shot", PEALI_CUDA_LL, 0},
    {PEAL_ALLREDUCE, 16, 256 << 10, "two_shot", PEALI_CUDA_LL128, 0},
    {PEAL_ALLREDUCE, 16, 1 << 20, "two_shot", PEALI_CUDA_BULK, 0},
    {PEAL_ALLREDUCE, 16, SIZE_MAX, "two_shot", DIRECT, 0},
    {PEAL_ALLREDUCE, 16, SIZE_MAX, "two_shot", ENGINES, 0}, /* where they are asked for */
    {PEAL_ALLREDUCE, 16, SIZE_MAX, "two_shot", PEALI_CUDA_BULK, 0},
    {PEAL_ALLGATHER, 2, 512 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_ALLGATHER, 2, 24 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_ALLGATHER, 4, 256 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_ALLGATHER, 4, 16 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_ALLGATHER, 16, 2 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_ALLGATHER, 16, 2 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_ALLGATHER, 16, SIZE_MAX, "direct", DIRECT, 0},
    {PEAL_ALLGATHER, 16, SIZE_MAX, "direct", PEALI_CUDA_BULK, 0},
    {PEAL_REDUCE_SCATTER, 2, 512 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE_SCATTER, 2, 24 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE_SCATTER, 4, 256 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE_SCATTER, 4, 16 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE_SCATTER, 16, 64 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE_SCATTER, 16, 2 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE_SCATTER, 16, SIZE_MAX, "direct", DIRECT, 0},
    {PEAL_REDUCE_SCATTER, 16, SIZE_MAX, "direct", PEALI_CUDA_BULK, 0},
    {PEAL_BROADCAST, 2, 128 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_BROADCAST, 2, 12 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_BROADCAST, 4, 32 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_BROADCAST, 4, 256 << 10, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_BROADCAST, 4, 2 << 20, "binomial", PEALI_CUDA_LL128, 0},
    {PEAL_BROADCAST, 16, 64 << 10, "binomial", PEALI_CUDA_LL, 0},
    {PEAL_BROADCAST, 2, SIZE_MAX, "two_shot", DIRECT, 0},
    {PEAL_BROADCAST, 16, 2 << 20, "two_shot", PEALI_CUDA_LL128, 0},
    {PEAL_BROADCAST, 16, SIZE_MAX, "two_shot", DIRECT, 0},
    {PEAL_BROADCAST, 16, SIZE_MAX, "chain", PEALI_CUDA_BULK, 0},
    {PEAL_REDUCE, 4, 64 << 10, "direct", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE, 2, 12 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE, 2, SIZE_MAX, "binomial", DIRECT, 0},
    {PEAL_REDUCE, 4, 2 << 20, "direct", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE, 16, 128 << 10, "binomial", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE, 16, 1 << 20, "two_shot", PEALI_CUDA_LL128, 0},
    {PEAL_REDUCE, 16, SIZE_MAX, "two_shot", DIRECT, 0},
    {PEAL_REDUCE, 16, SIZE_MAX, "two_tree", PEALI_CUDA_BULK, 0},
};

/* Bytes that keep the threads of a CTA busy for about as long as a start takes. */
static const size_t cta_bytes[PEALI_CUDA_PROTOS] = {2 << 10, 2 << 10, 16 << 10};

/*
 * CTAs of a call with messages: each thread that sends them has one, if there are so many bytes for it; then more of longer ones.
 * 2+2 H100 with 4 threads each, graphs, by 1, 2, 3 and 5 CTAs: 32 KiB 41, 38, 34 and 43 us; 128 KiB by 3, 5 and 9: 47, 53 and 60;
 * 512 KiB by 9 and 16: 117 and 95. By lines 1, 2 and 4: 8 KiB 29, 25 and 25; 16 KiB 55, 30 and 26. 1+1 with 8 threads: 48 KiB by 3,
 * 4 and 6: 32, 29 and 29; 64 KiB by 4, 6 and 8: 32.5, 29.7 and 30.2.
 */
enum { FAR_LINES_BYTES = 4 << 10, FAR_BYTES = 12 << 10, FAR_LONG_BYTES = 32 << 10 };

static size_t far_ctas(const peal_comm *comm, peali_cuda_proto proto, size_t bytes)
{
    const size_t least = proto == PEALI_CUDA_LL ? FAR_LINES_BYTES : FAR_BYTES;
    const size_t threads = (size_t)comm->device->nnets, ctas = (bytes + least - 1) / least;
    return ctas <= threads ? ctas : bytes / FAR_LONG_BYTES > threads ? bytes / FAR_LONG_BYTES : threads;
}

const char *peali_proto_name(peali_cuda_proto proto)
{
    static const char *const names[PEALI_CUDA_PROTOS + 2] = {"ll", "ll128", "bulk", "direct", "engines"};
    return names[proto];
}

/*
 * Some ranks are out of reach. Lines as far as each thread that sends messages has one of them (can_far_lines): 2+2 on 2 H100, 4
 * threads each, graphs (one call at a time), us, by lines and by bulk: allreduce of 16 KiB 27 and 36 (37 and 46), of 32 KiB 32 and
 * 38 (42 and 47), of 64 KiB, two slices, 47 and 40 (57 and 50); of 32 KiB allgather 29 and 39, reduce-scatter 25 and 32, broadcast
 * 20 and 20 (36 and 39), reduce 23 and 22 (44 and 47). Leaders take 17.6 for 2 KiB and 23 for 4, doubling 20.3 and 21.6.
 */
static const struct row far[] = {
    {PEAL_ALLREDUCE, PEALI_DEVICE_RANKS, 2 << 10, "hierarchical_leaders", PEALI_CUDA_LL, 0},
    {PEAL_ALLREDUCE, PEALI_DEVICE_RANKS, 32 << 10, "hierarchical_doubling", PEALI_CUDA_LL, 0},
    {PEAL_ALLREDUCE, 2, SIZE_MAX, "hierarchical_doubling", PEALI_CUDA_BULK, 0},
    {PEAL_ALLREDUCE, PEALI_DEVICE_RANKS, 256 << 10, "hierarchical_doubling", PEALI_CUDA_BULK, 0},
    {PEAL_ALLREDUCE, PEALI_DEVICE_RANKS, SIZE_MAX, "hierarchical", PEALI_CUDA_BULK, 0},
    {PEAL_ALLGATHER, PEALI_DEVICE_RANKS, 2 << 10, "hierarchical_leaders", PEALI_CUDA_LL, 0},
    {PEAL_ALLGATHER, PEALI_DEVICE_RANKS, 32 << 10, "hierarchical", PEALI_CUDA_LL, 0},
    {PEAL_ALLGATHER, PEALI_DEVICE_RANKS, SIZE_MAX, "hierarchical", PEALI_CUDA_BULK, 0},
    {PEAL_REDUCE_SCATTER, PEALI_DEVICE_RANKS, 32 << 10, "hierarchical", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE_SCATTER, PEALI_DEVICE_RANKS, SIZE_MAX, "hierarchical", PEALI_CUDA_BULK, 0},
    {PEAL_BROADCAST, PEALI_DEVICE_RANKS, 32 << 10, "binomial", PEALI_CUDA_LL, 0},
    {PEAL_BROADCAST, PEALI_DEVICE_RANKS, SIZE_MAX, "binomial", PEALI_CUDA_BULK, 0},
    {PEAL_REDUCE, PEALI_DEVICE_RANKS, 32 << 10, "binomial", PEALI_CUDA_LL, 0},
    {PEAL_REDUCE, PEALI_DEVICE_RANKS, SIZE_MAX, "binomial", PEALI_CUDA_BULK, 0},
};

static bool apart(const peal_comm *comm)
{
    return comm->reach.nranks < comm->nranks;
}

/*
 * A direct call of so many bytes takes a CTA of most SMs: on 2 H200 (132 SMs) an allreduce of 16 MiB took 63.5 us with 128 CTAs and
 * 66.5 with 64, one of 64 MiB 217 and 235. The SMs left are for kernels beside it, of another communicator too: as CTA c waits for
 * CTA c of peers alone, and CTAs begin in order, two such calls that ranks begin in different orders both go on.
 */
enum { WIDE_BYTES = 8 << 20, LEFT_SMS = 4 };

static uint32_t lanes_for(const peali_device_traits *traits, bool wide)
{
    const int lanes = (int)traits->layout->lanes, all = (int)traits->layout->direct_lanes, room = traits->sms - LEFT_SMS;
    return (uint32_t)(!wide || room < lanes ? lanes : room < all ? room : all);
}

/* Ranks that share a GPU need room beside each other. */
static uint32_t most_ctas(const peal_comm *comm, const peali_device_traits *traits, bool wide)
{
    uint32_t most = lanes_for(traits, wide) / (uint32_t)traits->sharing;
    if (comm->max_ctas > 0 && (uint32_t)comm->max_ctas < most)
        most = (uint32_t)comm->max_ctas;
    return most > 0 ? most : 1;
}

/*
 * One CTA aligns while others reduce. Ranks that are threads of one process take copy engines only when asked to: there the driver
 * was seen to hold a rank's copies back until another's kernel, which waits for them, had ended.
 */
static bool can_engines(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits)
{
    const peal_algo *forced = comm->forced[c->kind];
    return c->kind == PEAL_ALLREDUCE && comm->nranks > 1 && !apart(comm) && traits->sharing == 1 &&
           !comm->device->far && most_ctas(comm, traits, false) > 1 &&
           (!forced || strcmp(forced->name, "two_shot") == 0) &&
           (traits->processes || peali_config_get()->proto == ENGINES) &&
           (size_t)peali_config_get()->engines_bytes >= peali_engines_least(comm->nranks);
}

/*
 * So many times as long as a sum of floats takes, about, what a GPU does with a word; moving it is no more, nor is the sum of two
 * words of numbers of 16 bits.
 */
static size_t work_of(const peal_comm *comm, const peali_call *c)
{
    const bool moves = c->kind == PEAL_BROADCAST || c->kind == PEAL_ALLGATHER, sum = c->op == PEAL_SUM;
    const bool real = c->type == PEAL_FLOAT || c->type == PEAL_DOUBLE;
    const bool pair = c->type == PEAL_COMPLEX_FLOAT || c->type == PEAL_COMPLEX_DOUBLE;
    const bool two = comm->nranks == 2 && (c->type == PEAL_FP16 || c->type == PEAL_BF16);
    return moves || (sum && (real || pair || two)) ? 1 : c->type == PEAL_FP8_E4M3 || c->type == PEAL_FP8_E5M2 ? 12 : 3;
}

/*
 * What lanes hold at once crosses by lines of 128 bytes with any algorithm; more, where slices follow each other without a CTA's
 * meeting, as those of a row's own do (cuda/exchange_lines.cuh), and enough is under way to fill the link: 0.5 MiB did on 2 H200.
 * All of a vector is summed on each rank, so those that are work are sooner done in shares, where vectors lie.
 */
static bool can_lines(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits, const struct row *r)
{
    enum { LEAST = 512 << 10, MOST = 24 << 20 };
    const size_t room = traits->layout->lanes * traits->layout->area_bytes[PEALI_CUDA_LL128];
    const size_t bytes = peali_comm_bytes(comm, c->kind, c->count, c->type);
    const peal_algo *forced = comm->forced[c->kind];
    const bool own = !forced || strcmp(forced->name, r->algo) == 0;
    return traits->lines && (bytes <= room || (room >= LEAST && own && bytes <= MOST / work_of(comm, c)));
}

/* Of so many bytes the lines of messages are one slice for each thread that sends them, as a rule. */
static bool can_far_lines(const peal_comm *comm, const peali_call *c)
{
    enum { MOST = 8 << 10 };
    return peali_comm_bytes(comm, c->kind, c->count, c->type) <= (size_t)comm->device->nnets * MOST;
}

/* Can C be done as R says, if all ranks have mapped each other's buffers, or have areas for copy engines (ENGINES)? */
static bool can(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits, const struct row *r, bool engines)
{
    if (r->proto == PEALI_CUDA_LL128)
        return can_lines(comm, c, traits, r);
    if (r->proto == DIRECT)
        return c->kind != PEAL_BARRIER && !apart(comm) && !comm->device->far;
    if (r->proto == PEALI_CUDA_LL && apart(comm))
        return can_far_lines(comm, c);
    return r->proto < DIRECT || engines;
}

/* The first row that fits; what is forced and can be done, fits whatever the sizes. The last row of each kind takes all. */
static const struct row *find(const peal_comm *comm, const peali_call *c, const peal_problem *problem,
                              const peali_device_traits *traits, bool engines)
{
    const struct row *r = apart(comm) ? far : table;
    const int members = apart(comm) ? problem->nnodes : problem->nranks, asked = peali_config_get()->proto;
    const size_t bytes = peali_comm_bytes(comm, c->kind, c->count, c->type);
    const struct row named = {.kind = c->kind, .proto = asked};
    const bool forced = asked >= DIRECT && can(comm, c, traits, &named, engines);
    for (;; r++) {
        const bool fits = (asked < 0 || r->proto < DIRECT) && can(comm, c, traits, r, engines);
        if (r->kind == problem->kind && r->ranks >= members && (forced ? r->proto == asked : fits && r->bytes >= bytes))
            return r;
    }
}

const peal_algo *peali_device_shorter(const peal_comm *comm, const peali_call *c, const peal_algo *after)
{
    static const char *const names[] = {"hierarchical_halving", "rabenseifner", "circulant", "ring"};
    enum { NAMES = sizeof names / sizeof names[0] };
    const peal_problem problem = peali_device_problem(comm, c);
    int k = NAMES;
    while (k > 0 && strcmp(names[k - 1], after->name) != 0)
        k--;
    for (; k < NAMES && apart(comm) && !comm->forced[c->kind]; k++) {
        const peal_algo *algo = peali_algo_find(problem.kind, names[k]);
        if (algo && peali_algo_fits(algo, &problem))
            return algo;
    }
    return NULL;
}

bool peali_device_wants_engines(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits)
{
    const peal_problem problem = peali_device_problem(comm, c);
    return can_engines(comm, c, traits) && find(comm, c, &problem, traits, true)->proto == ENGINES;
}

bool peali_device_choose(const peal_comm *comm, const peali_call *c, const peali_device_traits *traits,
                         peali_device_choice *choice)
{
    peal_problem problem = peali_device_problem(comm, c);
    size_t bytes = peali_comm_bytes(comm, c->kind, c->count, c->type);
    const peal_algo *forced = comm->forced[c->kind];
    int proto = peali_config_get()->proto;
    const bool engines = can_engines(comm, c, traits) && comm->device->engines == PEALI_ENGINES_THERE;
    const struct row *row = find(comm, c, &problem, traits, engines);
    choice->direct = row->proto == DIRECT;
    choice->engines = row->proto == ENGINES;
    if (forced && !peali_algo_fits(forced, &problem)) {
        peali_coll_refuse(comm, c, "algorithm %s, which was asked for, does not fit %d GPUs", forced->name,
                          comm->nranks);
        return false;
    }
    if (proto == PEALI_CUDA_LL128 && (!traits->lines || apart(comm))) {
        peali_coll_refuse(comm, c, "PEAL_PROTO=ll128 needs NVLink between all GPUs; unset it, or set ll or bulk");
        return false;
    }
    if (proto == ENGINES && c->kind == PEAL_ALLREDUCE && !choice->engines && comm->nranks > 1) {
        peali_coll_refuse(comm, c, "PEAL_PROTO=engines needs GPUs that reach each other, one for each rank, PEAL_ENGINES of memory "
                          "on each, two CTAs, and no other algorithm than two_shot; unset it, or set bulk");
        return false;
    }
    if (proto >= DIRECT && apart(comm)) {
        peali_coll_refuse(comm, c, "PEAL_PROTO=%s takes no messages to other nodes; unset it, or set ll or bulk",
                          peali_proto_name((peali_cuda_proto)proto));
        return false;
    }
    choice->algo = forced ? forced : peali_algo_find(problem.kind, row->algo);
    if (!peali_algo_fits(choice->algo, &problem)) /* the others want nodes of one size, or a power of two of them */
        choice->algo = peali_algo_find(problem.kind, "hierarchical");
    const int taken = proto >= 0 ? proto : row->proto;
    choice->proto = taken >= PEALI_CUDA_PROTOS ? PEALI_CUDA_BULK : (peali_cuda_proto)taken;
    choice->most_ctas = most_ctas(comm, traits, choice->direct && bytes >= WIDE_BYTES);
    if (row->ctas > 0 && row->ctas < choice->most_ctas && taken == row->proto && work_of(comm, c) == 1)
        choice->most_ctas = row->ctas;
    if (choice->engines) {
        choice->ctas = choice->most_ctas - 1;
        return true;
    }
    const size_t busy = apart(comm) ? far_ctas(comm, choice->proto, bytes) : bytes / cta_bytes[choice->proto] + 1;
    choice->ctas = busy < choice->most_ctas ? (uint32_t)busy : choice->most_ctas;
    return true;
}
