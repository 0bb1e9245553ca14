/*
 * Collectives on ordinary and shared memory until it is killed, for shm_kill.sh: shm_endless FOLDER calls|comms. With `comms`,
 * communicators come and go between them. Once all ranks are at work, each writes its process to FOLDER/rank.R. A call that fails
 * ends it, in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <peal/mpi.h>

enum { LONGEST = 100000 };

static double *memory[2][2]; /* ordinary and shared, in and out */
static int rank;

static peal_status some_calls(peal_comm *comm)
{
    static size_t count = 1;
    peal_status status = PEAL_OK;
    for (int k = 0; k < 16 && status == PEAL_OK; k++) {
        double **at = memory[k / 4 % 2];
        count = count * 5 % LONGEST + 1;
        status = k % 2 ? peal_allreduce(at[0], at[1], count, PEAL_DOUBLE, PEAL_SUM, comm, NULL) :
                         peal_broadcast(at[0], count, PEAL_DOUBLE, k % 3 % peal_comm_size(comm), comm, NULL);
    }
    return status;
}

static void announce(const char *folder)
{
    char path[512], whole[520];
    snprintf(whole, sizeof whole, "%s/rank.%d", folder, rank);
    snprintf(path, sizeof path, "%s/new.%d", folder, rank);
    FILE *f = fopen(path, "w");
    if (!f)
        exit(2);
    fprintf(f, "%ld\n", (long)getpid());
    fclose(f);
    rename(path, whole);
}

int main(int argc, char **argv)
{
    peal_comm *comm = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 2; k++) {
        memory[0][k] = calloc(LONGEST, sizeof(double));
        memory[1][k] = peal_mem_alloc(LONGEST * sizeof(double));
    }
    peal_status status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
    for (int turn = 0; status == PEAL_OK; turn++) {
        status = some_calls(comm);
        if (turn == 10)
            announce(argv[1]);
        if (status == PEAL_OK && turn > 10 && strcmp(argv[2], "comms") == 0) {
            peal_comm_destroy(&comm);
            status = peal_comm_create_mpi(MPI_COMM_WORLD, &comm);
        }
    }
    printf("rank %d ends: %s\n", rank, peal_status_text(status));
    peal_comm_destroy(&comm);
    for (int k = 0; k < 2; k++) {
        free(memory[0][k]);
        peal_mem_free(memory[1][k]);
    }
    fflush(stdout);
    _exit(0); /* MPI_Finalize would wait for those who are gone */
}
