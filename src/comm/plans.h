/*
 * The plans and programs of one communicator. A plan that is there costs a lookup; a new one is made once.
 */
#ifndef PEALI_PLANS_H
#define PEALI_PLANS_H

#include "exec/run.h"

enum { PLAN_SETS = 32, PLAN_WAYS = 4 }; /* 128 plans: more than the sizes of a program's inner loop, and bounded */

typedef struct peali_plans {
    struct peali_program_entry *programs; /* one for each (algorithm, root, mode) in use */
    peali_plan *plan[PLAN_SETS][PLAN_WAYS];
    uint64_t made;           /* plans so far; until it grows, none is freed */
    uint8_t next[PLAN_SETS]; /* which way the next new plan of a set replaces */
} peali_plans;

/* For whom a plan is made. */
typedef struct peali_task {
    const peal_problem *problem;
    const peali_reach *reach; /* its mode is the job's */
    int rank;
    peali_runner *runner;
    const peali_lands *lands; /* push: where a slice's landings take more, the plan is one of pull */
    bool stream;              /* in every call */
} peali_task;

/*
 * The plan of JOB for TASK, made and fitted to its runner where there is none yet.
 *
 * Returns: PEAL_OK; PEAL_ERR_MEMORY; PEAL_ERR_INVALID the algorithm wrote a wrong schedule (logged).
 */
PEAL_MUST_CHECK peal_status peali_plans_get(peali_plans *plans, const peali_task *task, const peali_job *job,
                                            const peali_plan **out);
void peali_plans_free(peali_plans *plans);

#endif
