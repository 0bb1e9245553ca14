/*
 * Selection by the tuning table. Its slices are for its own choice: an algorithm that was forced is cut where slices are forced
 * too.
 */
#include "comm/select.h"

enum {
    /* Tags tell 2^16 slices apart; half of them keeps a fast rank's next call apart too. */
    MOST_SLICES = 1 << 15,
    MOST_PUSHED = 4 << 10, /* larger ones cost less where readers fetch them: bench/results */
};

peal_status peali_select_begin(peal_comm *comm)
{
    const peali_tuning *tuning = peali_tuning_get();
    if (!tuning)
        return PEAL_ERR_CONFIG;
    for (int kind = 0; kind < PEAL_KIND_COUNT; kind++) {
        peal_kind from = peali_comm_schedules((peal_kind)kind);
        comm->tuned[kind] = peali_tuning_find(tuning, from, peal_comm_transport(comm), comm->nranks);
    }
    return PEAL_OK;
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

static void cut(const peal_comm *comm, size_t bytes, size_t slice_bytes, peali_job *job)
{
    size_t slices = comm->layout.slices ? (size_t)comm->layout.slices : peali_tuning_slices(bytes, slice_bytes);
    size_t least = landing_slices(comm, bytes);
    slices = slices > least ? slices : least;
    slices = slices < job->count ? slices : job->count;
    slices = slices < MOST_SLICES ? slices : MOST_SLICES;
    job->slices = slices > 1 ? (int32_t)slices : 1;
    job->window = job->slices < comm->layout.window ? job->slices : comm->layout.window;
    bool small = job->slices == 1 && bytes <= MOST_PUSHED && comm->reach.nranks > 1 && !comm->layout.pull;
    job->mode = comm->layout.push || small ? PEALI_PUSH : PEALI_PULL;
}

bool peali_select(const peal_comm *comm, peal_kind kind, peali_job *job)
{
    bool one_vector = kind != PEAL_ALLGATHER && kind != PEAL_REDUCE_SCATTER;
    size_t bytes = job->count * peal_type_bytes(job->type) * (one_vector ? 1 : (size_t)comm->nranks);
    peal_problem problem = peali_comm_problem(comm, kind, job->op, job->root);
    peali_tuning_choice choice = {.algo = comm->forced[kind]};
    if (!choice.algo)
        choice = peali_tuning_choose(comm->tuned[kind], &problem, bytes);
    job->kind = kind;
    job->algo = choice.algo;
    if (choice.algo)
        cut(comm, bytes, comm->slice_bytes ? comm->slice_bytes : choice.slice_bytes, job);
    return choice.algo != NULL;
}
