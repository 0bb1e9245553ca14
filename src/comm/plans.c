/* Two levels, as in LOWERING: symbolic programs without a count, and plans in a set-associative cache. */
#include "comm/plans.h"

#include "topo/machine.h"

struct peali_program_entry {
    const peal_algo *algo;
    int32_t root;
    peali_mode mode;
    peali_program *program;
    struct peali_program_entry *next;
};

/* True where flags and landing slots are enough for PROGRAM; a function of what all ranks within reach know alike. */
static bool within_limits(const peali_program *p)
{
    bool ok = p->most_flags <= PEALI_REACH_FLAGS;
    for (int32_t k = 0; k < p->nland; k++)
        ok &= p->land_line[k] < PEALI_REACH_SLOTS;
    return ok;
}

static peal_status lower(const peali_task *task, const peali_job *job, peali_program **out)
{
    peali_reach reach = {task->reach->nranks, task->reach->ranks, job->mode};
    peal_status status = peali_lower(job->algo, task->problem, &reach, task->rank, out);
    if (status != PEAL_OK || within_limits(*out))
        return status;
    int32_t alone = task->rank;
    peali_program_free(out);
    return peali_lower(job->algo, task->problem, &(peali_reach){1, &alone, PEALI_PULL}, task->rank, out);
}

static peal_status program_of(peali_plans *plans, const peali_task *task, const peali_job *job, peali_program **out)
{
    for (struct peali_program_entry *e = plans->programs; e; e = e->next)
        if (e->algo == job->algo && e->root == job->root && e->mode == job->mode) {
            *out = e->program;
            return PEAL_OK;
        }
    struct peali_program_entry *e = peali_alloc(1, sizeof *e);
    if (!e)
        return PEAL_ERR_MEMORY;
    peal_status status = lower(task, job, &e->program);
    if (status != PEAL_OK) {
        peali_free(e);
        return status;
    }
    e->algo = job->algo;
    e->root = job->root;
    e->mode = job->mode;
    e->next = plans->programs;
    plans->programs = e;
    *out = e->program;
    return PEAL_OK;
}

static bool same(const peali_job *a, const peali_job *b)
{
    return a->kind == b->kind && a->count == b->count && a->algo == b->algo && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->slices == b->slices && a->window == b->window && a->mode == b->mode;
}

static unsigned set_of(const peali_job *job)
{
    uint64_t h = job->count * 0x9e3779b97f4a7c15u + (uint64_t)job->type * 31 + (uint64_t)job->op * 7 + (uint64_t)job->root;
    return (unsigned)(h >> 40 ^ h) % PLAN_SETS;
}

/* Ranks within reach find the same landings, so where these are too many, or too large, all of them pull. */
static peal_status make_fitting(peali_plans *plans, const peali_task *task, const peali_job *job, peali_plan **out)
{
    peali_program *program;
    peali_job pulls = *job;
    peal_status status = program_of(plans, task, job, &program);
    if (status != PEAL_OK)
        return status;
    if (job->mode != PEALI_PUSH || program->nreach == task->reach->nranks) {
        status = peali_plan_make(program, job, out);
        if (status != PEAL_OK || (*out)->land_bytes <= task->lands->bytes)
            return status;
        peali_plan_free(out);
    }
    pulls.mode = PEALI_PULL;
    status = program_of(plans, task, &pulls, &program);
    return status == PEAL_OK ? peali_plan_make(program, job, out) : status;
}

enum {
    STREAM_LEAST = 8 << 20, /* bytes that any last-level caches hold: to ask for their size takes tens of milliseconds */
    STREAM_RANKS = 4,
    STREAM_COLD = 16 << 10,
    STREAM_LONG = 8 << 20, /* bytes of a rank's IN or OUT: of more than that it finds little in the caches, whatever they hold */
};

/*
 * How many such calls, with their buffers and the areas they land in, the caches of the host have room for. On 2 cores of EPYC 9004
 * with 32 MiB of L3, calls in turn, streaming was faster where that is none, in buffers that peers see and in all of 2 to 64 MiB:
 * allreduce of 4 ranks by 1.05 to 1.3, of 8 by 1.4, allgather and reduce-scatter of 4 by 1.2; 2 and 3 ranks lost 0.8 to 1. A user
 * who reads the result at once loses up to 0.65 in half of L3, and from all of it nothing. A quarter is left to what else there is:
 * 4 MiB on 32 ranks of 64 cores of Xeon, 256 of the 300 MiB of L3, took 2.5 to 2.7 ms where the buffers of other programs had been
 * in it before, and 1.6 to 1.8 streamed; 1.3 to 1.5, and 1.4 to 1.6, where those of one had.
 */
static size_t calls_in_caches(const peali_plan *plan, const peali_task *task)
{
    size_t ranks = (size_t)task->reach->nranks, lands = plan->land_bytes * (size_t)task->lands->areas;
    size_t bytes = (plan->given.bytes + plan->wanted.bytes + lands) * ranks;
    return bytes > STREAM_LEAST ? peali_machine_cache() / 4 * 3 / bytes : SIZE_MAX;
}

/*
 * Ranks need not agree: what is written is the same either way. An average is read once more. Others stream into buffers that
 * were not written lately, too: allreduce by two_shot on 32 cores of Xeon, us in the same buffers over and over and in ever other
 * ones, without and with streaming:
 *
 *     ranks   16 KiB                 256 KiB              1 MiB
 *         4   4.3  5.3    4.6 4.0    28  49     40  29    107 203    144 109
 *        16   10.5 12.6   9.4 8.0    70  108    82  69    287 495    245 290
 *        32   13.1 18.2   11.8 12.5  104 195    116 135   325 674    360 467
 *
 * Ordinary memory, into which each rank copies what has landed for it, took 0.83, 0.86 and 0.85 of the time in ever other buffers
 * of 256 KiB, 1 and 4 MiB on 4 ranks of those cores, 0.83, 0.85 and 0.83 on 16, and 0.79, 0.78 and 0.76 on 30, and as long in the
 * same; but 0.88 in the same of 4 MiB on 30, which with the areas are a bit more than the 300 MiB of those caches.
 *
 * The caches of a host are not one rank's: long vectors stream also where few ranks would leave them room. The same buffers over
 * and over, streamed, by time of a call, and of a call and of reading its result (16 cores of a virtual machine, of whose host the
 * 300 MiB are; vectors of 8, 16 and 32 MiB, of all ranks for allgather and reduce-scatter):
 *
 *     ranks   seen: allreduce                   broadcast                         ordinary: allreduce
 *         2   0.64 0.98  0.59 0.74  0.63 0.78   0.94 1.38  0.79 1.14  0.60 0.82   0.87 0.95  0.81 0.82  0.94 0.96
 *         3   0.90 1.23  0.68 0.79  0.80 0.91   1.00 1.12  0.74 0.94  0.68 0.81   0.80 0.83  0.92 0.97  0.79 0.83
 *         4   0.73 1.09  0.61 0.77  streams     1.00 1.50  0.64 0.88  0.67 0.79   0.87 0.98  0.80 0.84  streams
 *             allgather                         reduce-scatter                    reduce
 *         4   0.77 0.98  0.68 0.85  0.77 0.89   0.85 1.00  0.85 0.93  0.87 0.94   0.86 1.09  0.84 0.92  streams
 */
static void choose_stream(const peali_task *task, peali_plan *plan)
{
    const bool few = plan->divide || task->reach->nranks < STREAM_RANKS;
    const bool cold = plan->job.kind == PEAL_ALLREDUCE && plan->wanted.bytes >= STREAM_COLD;
    const size_t longer = plan->given.bytes > plan->wanted.bytes ? plan->given.bytes : plan->wanted.bytes;
    const bool longs = !plan->divide && task->reach->nranks > 1 && longer > STREAM_LONG;
    const bool all = task->stream || longs;
    plan->warm = few || all ? 0 : calls_in_caches(plan, task);
    if (all || (!few && plan->warm == 0))
        plan->stream = PEALI_STREAM_ALL;
    else
        plan->stream = !few && cold ? PEALI_STREAM_COLD : PEALI_STREAM_NONE;
}

static peal_status make(peali_plans *plans, const peali_task *task, const peali_job *job, peali_plan **out)
{
    peal_status status = make_fitting(plans, task, job, out);
    if (status != PEAL_OK)
        return status;
    choose_stream(task, *out);
    status = peali_runner_fit(task->runner, *out);
    if (status != PEAL_OK)
        peali_plan_free(out);
    return status;
}

peal_status peali_plans_get(peali_plans *plans, const peali_task *task, const peali_job *job, const peali_plan **out)
{
    unsigned set = set_of(job);
    for (int w = 0; w < PLAN_WAYS; w++) {
        const peali_plan *plan = plans->plan[set][w];
        if (plan && same(&plan->job, job)) {
            *out = plan;
            return PEAL_OK;
        }
    }
    peali_plan *plan;
    peal_status status = make(plans, task, job, &plan);
    if (status != PEAL_OK)
        return status;
    plans->made++;
    peali_plan **way = &plans->plan[set][plans->next[set]++ % PLAN_WAYS];
    peali_plan_free(way);
    *way = plan;
    *out = plan;
    return PEAL_OK;
}

void peali_plans_free(peali_plans *plans)
{
    for (int s = 0; s < PLAN_SETS; s++)
        for (int w = 0; w < PLAN_WAYS; w++)
            peali_plan_free(&plans->plan[s][w]);
    while (plans->programs) {
        struct peali_program_entry *e = plans->programs;
        plans->programs = e->next;
        peali_program_free(&e->program);
        peali_free(e);
    }
}
