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

/*
 * The class of a job's size, 0 to 63: what is known of the memory of calls is kept for each. Below that of peali_select_pushed all
 * are pushed: where data moves once, that ends one wait earlier than where readers fetch it, and tell when they have. An allreduce
 * of more than that moves it twice, and ranks wait twice either way. By 16 ranks and two_shot, us, pushed and fetched: 1 KiB 3.7
 * 3.5, 2 KiB 3.7 3.7, 4 KiB 5.1 3.8; by 4, one_shot pushed and two_shot fetched: 1 KiB 1.3 1.35, 2 KiB 1.9 1.4.
 */
static inline int peali_select_pushed(peal_kind kind)
{
    return kind == PEAL_ALLREDUCE ? 10 : 12;
}
int peali_select_size(const peal_comm *comm, peal_kind kind, const peali_job *job);

#endif
