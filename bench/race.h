/*
 * The race: every variant in turn on the same buffers, each call timed on data that its owner has just written, verified at once.
 */
#ifndef PEALI_RACE_H
#define PEALI_RACE_H

#include "flags.h"
#include "study/cost.h"
#include "team.h"

/* One that runs: an algorithm of Peal, Peal's own choice, or the peer. */
typedef struct peali_runner {
    const char *impl;    /* "peal", or the peer's name */
    const char *variant; /* algorithm, "auto", or "default" for the peer */
    bool peal;
    size_t slice_bytes;  /* forced; 0: Peal's choice */
    const char *buffers; /* on GPUs: "plain", "registered", "symmetric" */
    bool graph;          /* on GPUs: replayed, not called */
    char label[40];      /* beside the others of its race, where that is more than a name */
} peali_runner;

/* Times are those of the slowest rank in each call, in microseconds; bandwidths in GB/s, of the median. */
typedef struct peali_row {
    size_t bytes; /* of the vector; allgather, reduce-scatter: of all ranks together */
    size_t count;
    peal_type type;
    peal_op op;
    bool inplace;
    const char *impl, *variant;
    const char *mode, *buffers; /* "eager", "graph"; what the buffers are */
    bool chosen; /* what Peal would take by itself */
    int samples;
    double min_us, median_us, p99_us, algbw, busbw;
    double predicted_us; /* by the cost model, from figures that did not come from this race; 0: not a schedule of Peal */
    double wrong;  /* elements over all calls, the most on any rank; ranks whose bits differ add 1 a call */
    bool verified; /* checked, and none wrong */
    int calls;     /* on GPUs: in a row, or in the graph, for each sample; the times are by events, for one of them. 0: no GPU */
    double host_us, enqueue_us; /* and by the host's clock, to the end and to when all were enqueued; medians */
    int ctas;      /* of a call */
    double ulp;    /* --ulp: the largest error of a call on data that rounds, in units in the last place of the exact result */
    double link;   /* busbw, over what the links gave to plain copies; 0: not known */
} peali_row;

/* What a race on GPUs ran on. */
typedef struct peali_race_gpu {
    char name[96];
    char driver[64];    /* of NVIDIA, in its own words; "": not known */
    int cuda_version;   /* of the driver */
    int nccl_version;   /* 0: not raced */
    const char *nvls;   /* NCCL_NVLS_ENABLE, and who set it */
    double link;        /* GB/s each way of plain copies between all GPUs at once; 0: not known */
} peali_race_gpu;

enum { PEALI_RUNNERS = 128 }; /* `peal tune`: of the allreduces between nodes, each with three lengths of slices and none, 72 */

typedef struct peali_race {
    const peali_flags *flags;
    peali_team *team;
    peali_runner runners[PEALI_RUNNERS];
    int nrunners;
    peali_row *rows;
    int nrows;
    const peali_race_gpu *gpu; /* NULL: ranks on host memory */
    peali_cost_params cost; /* of this machine, measured before the race */
} peali_race;

/*
 * Latency, bandwidth and speed of sums between neighbours, by ping-pong and exchange over communicators of two ranks, all pairs at
 * once; the slowest pair's. Collective.
 */
void peali_measure(peali_team *team, peali_cost_params *params);

/* Runs all that the flags ask for; rank 0's PRINT sees each row as it comes. 0; 1 where a result was wrong. */
int peali_race_run(peali_race *race, void (*print)(const peali_race *race, const peali_row *row));
void peali_race_end(peali_race *race);

/* One more runner; ends all ranks where there is no room. */
void peali_race_enter(peali_race *race, peali_runner runner);

/* What races on hosts and on GPUs share: what the flags ask for, one by one; */
typedef struct peali_race_visit {
    void (*type)(void *arg, peal_type type, peal_op op);
    void (*size)(void *arg, size_t count, bool inplace); /* COUNT as a call has it */
    void *arg;
} peali_race_visit;
void peali_race_types(const peali_race *race, const peali_race_visit *visit);
void peali_race_sizes(const peali_race *race, size_t elem, const peali_race_visit *visit);

/* Peal's runners, as the flags name them; */
void peali_race_algos(peali_race *race);

/* timed calls of each runner, where WARM_ROUNDS rounds of all took WARM_NS on this rank; */
int peali_race_iters(const peali_race *race, double warm_ns, int warm_rounds);

/* what N samples, which get sorted, come to in a row of so many bytes; */
void peali_row_times(peali_row *row, const peali_race *race, double *samples, int n);
double peali_median(double *samples, int n);

/* of how many parts, one for each rank, a vector is made: 1 where it is not; */
size_t peali_race_parts(const peali_race *race);

/* one more row; and an end of all ranks. */
void peali_race_keep(peali_race *race, peali_row row);
void peali_race_fail(peali_team *team, const char *who, const char *why);

/* The runners that were entered, on BYTES of floats. ROWS has one for each, the same on all ranks, and nothing is printed. */
void peali_race_heat(peali_race *race, size_t bytes);

#endif
