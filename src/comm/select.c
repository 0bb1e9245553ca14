/*
 * Selection by the tuning table. Its slices are for its own choice: an algorithm that was forced is cut where slices are forced
 * too, and where it would stage too much. Rows differ by transport and by what memory was seen, and so would the bits of sums whose
 * order slices decide (test_transports, same_bits).
 */
#include "comm/select.h"

enum {
    RAIL_BYTES = 64 << 10, /* less than that is not worth a rail of its own */
};

/* What rows of `hosts` count. */
static int hosts(const peal_comm *comm)
{
    return comm->level ? 1 : comm->nnodes;
}

void peali_select_begin(peal_comm *comm)
{
    const peali_tuning *tuning = peali_tuning_get();
    for (int kind = 0; kind < PEAL_KIND_COUNT; kind++) {
        peal_kind from = peali_comm_schedules((peal_kind)kind);
        const char *transport = peal_comm_transport(comm);
        comm->tuned[0][kind] = peali_tuning_find(tuning, from, transport, comm->nranks, hosts(comm));
        comm->tuned[1][kind] = peali_tuning_find_seen(tuning, from, transport, comm->nranks, hosts(comm));
    }
}

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Push: a slice's landings fit one area. Every rank of the communicator takes the same number, so it comes from a bound: in each of
 * its two phases a rank gets at most one vector from each rank of the largest node, and one from another node. */
static size_t landing_slices(const peal_comm *comm, size_t bytes)
{
    size_t vectors = 2 * ((size_t)comm->largest_node + 1);
    return comm->layout.push ? ceil_div(bytes * vectors, comm->layout.land_bytes / 2) : 1;
}

int peali_select_size(const peal_comm *comm, peal_kind kind, const peali_job *job)
{
    return 63 - __builtin_clzll(peali_comm_bytes(comm, kind, job->count, job->type) | 1);
}

/* Were the buffers that count (lower.h, tells) seen in the last call of this size? All ranks know it. */
static bool seen(const peal_comm *comm, peal_kind kind, const peali_job *job)
{
    return comm->reach.nranks == comm->nranks && (comm->seen[kind] >> peali_select_size(comm, kind, job) & 1);
}

/*
 * Readers fetch in place what they see; and what is small, or lies where they cannot see it, is pushed through the landing areas.
 * What was seen is, as a rule, seen again; where it is not, it is staged. Across nodes all ranks pull: one that pushes counts on
 * its peers elsewhere to post all receives of a slice at its begin, as it does itself.
 */
static peali_mode mode(const peal_comm *comm, peal_kind kind, size_t bytes, const peali_job *job)
{
    bool small = job->slices == 1 && bytes <= (size_t)1 << peali_select_pushed(kind);
    if (comm->layout.push)
        return PEALI_PUSH;
    bool pulls = comm->reach.nranks < comm->nranks || comm->layout.pull || (seen(comm, kind, job) && !small);
    return pulls ? PEALI_PULL : PEALI_PUSH;
}

/*
 * Slices take the network's devices in turn, so there is a multiple of as many. All ranks have the same number of rails, and each
 * of them sends on some.
 */
static size_t on_rails(const peal_comm *comm, size_t bytes, size_t slices)
{
    size_t rails = comm->reach.nranks < comm->nranks && comm->net->rails > 1 ? (size_t)comm->net->rails : 1;
    rails = rails < bytes / RAIL_BYTES ? rails : bytes / RAIL_BYTES;
    return rails > 1 ? ceil_div(slices, rails) * rails : slices;
}

/*
 * In one slice the whole vector would be staged, and what is staged is kept for the next call. Across hosts the table alone
 * decides: an allgather in slices sends block by block, and may be among thousands.
 */
static size_t staged_slices(const peal_comm *comm, peal_kind kind, size_t bytes, const peali_job *job)
{
    bool rooted = kind == PEAL_BROADCAST || kind == PEAL_REDUCE; /* seen says the root's alone; or that it was, once */
    bool stages = comm->reach.nranks > 1 && comm->reach.nranks == comm->nranks && (rooted || !seen(comm, kind, job));
    return stages ? ceil_div(bytes, PEALI_TUNING_STAGED) : 1;
}

static void cut(const peal_comm *comm, size_t bytes, size_t slice_bytes, size_t least, peali_job *job)
{
    size_t slices = comm->layout.slices ? (size_t)comm->layout.slices : peali_tuning_slices(bytes, slice_bytes);
    slices = slices > least ? slices : least;
    slices = on_rails(comm, bytes, slices);
    slices = slices < job->count ? slices : job->count;
    slices = slices < PEALI_TUNING_SLICES ? slices : PEALI_TUNING_SLICES;
    job->slices = slices > 1 ? (int32_t)slices : 1;
}

bool peali_select(const peal_comm *comm, peal_kind kind, peali_job *job)
{
    size_t bytes = peali_comm_bytes(comm, kind, job->count, job->type);
    peal_problem problem = peali_comm_problem(comm, kind, job->op, job->root);
    peali_tuning_choice choice = {.algo = comm->forced[kind]};
    if (!choice.algo)
        choice = peali_tuning_choose(comm->tuned[seen(comm, kind, job)][kind], &problem, bytes);
    job->kind = kind;
    job->algo = choice.algo;
    if (!choice.algo)
        return false;
    size_t lands = landing_slices(comm, bytes), staged = staged_slices(comm, kind, bytes, job);
    size_t slice_bytes = comm->slice_bytes ? comm->slice_bytes : choice.slice_bytes;
    cut(comm, bytes, slice_bytes, lands > staged ? lands : staged, job);
    job->mode = mode(comm, kind, bytes, job);
    int window = comm->layout.window ? comm->layout.window : PEALI_TUNING_WINDOW;
    window = job->mode == PEALI_PUSH ? peali_comm_landings(comm) : window;
    job->window = job->slices < window ? job->slices : window;
    return true;
}
