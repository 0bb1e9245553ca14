#include "comm/select.h"

#include "base/config.h"

enum {
    /* Up to here the rounds count, beyond it the bytes. bench/quickstart.sh: 4 ranks on 2 cores, net_mpi over Open MPI 4.1.4. */
    SMALL_BYTES = 16 << 10,
    /* A window of more slices than a pipeline is deep gains nothing; 4 covers the trees to 16 ranks (LOWERING, "Order of slices"). */
    WINDOW = 4,
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

void peali_select_slices(peali_job *job)
{
    size_t bytes = job->count * peal_type_bytes(job->type), slice = (size_t)peali_config_get()->slice_bytes;
    size_t slices = slice ? (bytes + slice - 1) / slice : 1;
    slices = slices < job->count ? slices : job->count;
    slices = slices < MOST_SLICES ? slices : MOST_SLICES;
    job->slices = slices > 1 ? (int32_t)slices : 1;
    job->window = job->slices < WINDOW ? job->slices : WINDOW;
}
