/*
 * Which algorithm a call takes, and in what slices. A pure function of what MPI makes equal on all ranks and of the tuning table,
 * which all ranks have alike; never of a pointer or of this rank's memory.
 */
#ifndef PEALI_SELECT_H
#define PEALI_SELECT_H

#include "comm/comm_private.h"

/* Finds COMM's rows of this process' table, which there is. */
void peali_select_begin(peal_comm *comm);

/*
 * Fills kind, algo, slices and window of JOB, a call of KIND, from the rest of it: as COMM's layout and what was forced have it,
 * else by the table. False where no algorithm fits. Threads: any.
 */
bool peali_select(const peal_comm *comm, peal_kind kind, peali_job *job);

/* The class of a job's size, 0 to 63: what is known of the memory of calls is kept for each. Below PUSHED all are pushed. */
enum { PEALI_SELECT_PUSHED = 12 };
int peali_select_size(const peal_comm *comm, peal_kind kind, const peali_job *job);

#endif
