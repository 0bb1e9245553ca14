/*
 * Which algorithm a call takes. A pure function of what MPI makes equal on all ranks; never of a pointer or of this rank's memory.
 */
#ifndef PEALI_SELECT_H
#define PEALI_SELECT_H

#include "comm/comm_private.h"

/* The algorithm for BYTES of PROBLEM, where nothing is forced. Never NULL where any algorithm fits. Threads: any. */
const peal_algo *peali_select(const peal_problem *problem, size_t bytes);

/* Fills slices and window of JOB from its size, PEAL_SLICE, and what COMM's layout asks for. Threads: any. */
void peali_select_slices(const peal_comm *comm, peali_job *job);

#endif
