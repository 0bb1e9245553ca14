/*
 * A child of a process that has messages over UCX leaves them alone: it neither takes in what comes for its parent while it waits
 * in a call of its own, nor ends its parent's connections when it ends; and has no messages over UCX itself.
 */
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "team.h"
#include "world.h"

enum { CALLS = 2000, COUNT = 20000 };

/* CALLS in which the sum is right on this rank. */
static int sums(peal_comm *comm)
{
    static int in[COUNT], out[COUNT];
    int right = 0;
    for (int k = 0; k < CALLS; k++) {
        const size_t count = k % 8 ? 5 : COUNT;
        in[count - 1] = peal_comm_rank(comm) + k;
        right += peal_allreduce(in, out, count, PEAL_INT32, PEAL_SUM, comm, NULL) == PEAL_OK && out[count - 1] == 1 + 2 * k;
    }
    return right;
}

/* Rank 0 waits, and drives what it has to drive. */
static void wait_often(peal_comm *comm, int rank, void *ctx)
{
    for (int k = 0; k < 200; k++) {
        if (rank == 1)
            nanosleep(&(struct timespec){0, 2000000}, NULL);
        if (peal_barrier(comm, NULL) != PEAL_OK)
            *(int *)ctx = 1;
    }
}

static int child(void)
{
    const peali_layout over[2] = {{.net = "ucx", .apart = true}, {.net = "ucx", .apart = true}};
    int wrong = 0;
    alarm(60);
    if (team_run(2, wait_often, &wrong) != PEAL_OK || wrong)
        return 1;
    return team_run_in(2, over, wait_often, &wrong) == PEAL_ERR_CONFIG ? 0 : 2;
}

/* Rank 0 has a child beside its calls; as many come after it. */
int main(int argc, char **argv)
{
    const peali_layout over = {.net = "ucx", .apart = true};
    peal_comm *comm;
    int ended = 0;
    world_start(&argc, &argv);
    if (world_comm(&over, 2, world_rank, &comm) != PEAL_OK || sums(comm) != CALLS)
        return 1;
    fflush(NULL);
    pid_t pid = world_rank == 0 ? fork() : -1;
    if (pid == 0)
        exit(child());
    int right = sums(comm);
    if (pid > 0)
        waitpid(pid, &ended, 0);
    right += sums(comm);
    if (right != 2 * CALLS || ended)
        fprintf(stderr, "rank %d: %d of %d calls are right; the child ended with %d\n", world_rank, right, 2 * CALLS, ended);
    peal_comm_destroy(&comm);
    const int all = world_all(right == 2 * CALLS && !ended);
    MPI_Finalize();
    return !all;
}
