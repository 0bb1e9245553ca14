/*
 * Allreduces of blocks that libpeal_heap gives, while another thread takes and frees such blocks: heap INTERPOSER [ROUNDS]. What
 * the heap gives must be shared memory to the libpeal that INTERPOSER uses.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "pmpi.h"

enum { LEAST = 1 << 17, MOST = 1 << 19, CALLS = 4 }; /* doubles: from 1 MiB on */

static int done;

static void *churn(void *arg)
{
    for (int i = 0; !__atomic_load_n(&done, __ATOMIC_RELAXED); i++) {
        size_t bytes = (size_t)(500000 + i % 7 * 500000);
        char *zeros = calloc(1, bytes);
        CHECK(zeros && zeros[0] == 0 && zeros[bytes / 2] == 0 && zeros[bytes - 1] == 0);
        memset(zeros, 1, bytes);
        free(zeros);
    }
    return NULL;
}

static void sum_blocks(int count, double add, bool (*holds)(const void *at, size_t bytes))
{
    size_t bytes = (size_t)count * sizeof(double);
    double *in = malloc(bytes), *out = calloc(1, bytes);
    CHECK(in && out && holds(in, bytes) && holds(out, bytes));
    for (int i = 0; i < count; i++)
        in[i] = rank + i + add;
    CHECK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == nranks * (i + add) + nranks * (nranks - 1) / 2.0);
    free(in);
    free(out);
}

static long faults(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

/* What this process maps of the others' blocks at first use, it maps in pieces of 64 KiB, not page by page: that were 256 and more. */
static void few_faults(void)
{
    enum { COUNT = 1 << 18 };
    long least = 1 << 20;
    char *in = malloc(CALLS * COUNT * sizeof(float)), *out = malloc(CALLS * COUNT * sizeof(float));
    CHECK(in && out);
    memset(in, 1, CALLS * COUNT * sizeof(float));
    memset(out, 1, CALLS * COUNT * sizeof(float));
    for (size_t i = 0; i < CALLS; i++) {
        size_t at = i * COUNT * sizeof(float);
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        long before = faults();
        CHECK(MPI_Allreduce(in + at, out + at, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        long now = faults() - before;
        least = now < least ? now : least;
    }
    CHECK(least < 128);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 10;
    pthread_t thread;
    bool (*holds)(const void *at, size_t bytes) = NULL;
    start(&argc, &argv);
    void *interposer = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    CHECK(interposer);
    *(void **)&holds = dlsym(interposer, "peali_pool_holds");
    CHECK(holds);
    few_faults();
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0);
    for (int i = 0; i < rounds; i++)
        sum_blocks(LEAST + i * 50021 % (MOST - LEAST), i, holds);
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    expect("taken", rounds + 2 * CALLS);
    MPI_Finalize();
    return 0;
}
