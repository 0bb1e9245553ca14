/* Selection by thresholds; tables of measurements come later. */
#include "comm/select.h"

#include "base/config.h"

enum {
    /* Up to here the rounds count, beyond it the bytes. bench/quickstart.sh: 4 ranks on 2 cores, net_mpi over Open MPI 4.1.4. */
    SMALL_BYTES = 16 << 10,
    /* Tags tell 2^16 slices apart; half of them keeps a fast rank's next call apart too. */
    MOST_SLICES = 1 << 15,
};

static const peal_algo *first_fit(const peal_problem *problem)
{
    for (const peal_algo *const *a = peali_algos; *a; a++)
        if (peali_algo_fits(*a, problem))
            return *a;
    return NULL;
}

const peal_algo *peali_select(const peal_problem *problem, size_t bytes)
{
    const char *name = bytes <= SMALL_BYTES ? "recursive_doubling" : "ring";
    const peal_algo *algo = peali_algo_find(problem->kind, name);
    return algo && peali_algo_fits(algo, problem) ? algo : first_fit(problem);
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

void peali_select_slices(const peal_comm *comm, peali_job *job)
{
    bool one_vector = job->algo->kind != PEAL_ALLGATHER && job->algo->kind != PEAL_REDUCE_SCATTER;
    size_t bytes = job->count * peal_type_bytes(job->type) * (one_vector ? 1 : (size_t)comm->nranks);
    size_t slice = (size_t)peali_config_get()->slice_bytes;
    size_t slices = comm->layout.slices ? (size_t)comm->layout.slices : slice ? ceil_div(bytes, slice) : 1;
    size_t least = landing_slices(comm, bytes);
    slices = slices > least ? slices : least;
    slices = slices < job->count ? slices : job->count;
    slices = slices < MOST_SLICES ? slices : MOST_SLICES;
    job->slices = slices > 1 ? (int32_t)slices : 1;
    job->window = job->slices < comm->layout.window ? job->slices : comm->layout.window;
}
