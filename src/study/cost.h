/*
 * What an algorithm takes, in closed form: a LogGP-like model with one set of figures for each class of peers, and the number of
 * slices and window that the model finds best.
 *
 * A message of m bytes keeps its sender's port busy for send_ns + m byte_ns and its receiver's for m byte_ns + recv_ns, and is
 * there send_ns + latency_ns + m byte_ns + recv_ns after it began. Ports are full duplex; each class of peers has its own. With
 * latency_ns and recv_ns 0 this is the model of Chan, Heimlich, Purkayastha and van de Geijn (Concurrency Computat. 19, 2007):
 * alpha is send_ns, beta is byte_ns.
 *
 * Slices: the first one takes what the schedule takes; each further one comes out after what the busiest port or arithmetic of any
 * rank needs for one.
 */
#ifndef PEALI_COST_H
#define PEALI_COST_H

#include <stddef.h>

#include <peal/algo.h>

/* Classes of peers: on the same node, and on others. */
enum peali_peers { PEALI_NEAR, PEALI_FAR, PEALI_PEERS };

typedef struct peali_link_cost {
    double latency_ns; /* from port to port */
    double send_ns;    /* a message keeps the sender's port busy, beside its bytes */
    double recv_ns;    /* likewise the receiver's */
    double byte_ns;
} peali_link_cost;

typedef struct peali_cost_params {
    peali_link_cost link[PEALI_PEERS];
    double reduce_byte_ns; /* for each byte of each source but the first */
    double copy_byte_ns;   /* for each byte stored by a copy */
    double step_ns;        /* for each reduction and each copy. Closed forms leave copies and steps out. */
    size_t eager_bytes;    /* longer messages start when their receive was posted, too */
    int ports;             /* of a rank to each class of peers; lane i uses port i mod ports. Closed forms are for one port. */
} peali_cost_params;

/* Fills PARAMS with LATENCY_US and GBS of both classes, and no cost of arithmetic: the start of every set of figures. */
void peali_cost_uniform(peali_cost_params *params, double latency_us, double gbs);

/* Figures of no machine in particular, where none were measured. */
#define PEALI_COST_EXAMPLE "1 us and 10 GB/s within a node, 2 us and 10 GB/s between nodes, sums at 20 GB/s"
void peali_cost_example(peali_cost_params *params);

/*
 * The nanoseconds that ALGO needs for a vector of BYTES (allgather, reduce-scatter: of all ranks) in SLICES slices with a window
 * that never holds them up. Ranks on several nodes: a flat algorithm's every round is as slow as its messages between nodes.
 *
 * Threads: any.
 */
double peali_cost(const peal_algo *algo, const peal_problem *problem, size_t bytes, const peali_cost_params *params, int slices);

typedef struct peali_slicing {
    int slices, window; /* K, and W large enough not to hold slices up */
    double ns;          /* by the model */
} peali_slicing;

enum { PEALI_COST_SLICES = 1 << 12 }; /* the most that are tried */

peali_slicing peali_cost_best_slices(const peal_algo *algo, const peal_problem *problem, size_t bytes,
                                     const peali_cost_params *params);

#endif
