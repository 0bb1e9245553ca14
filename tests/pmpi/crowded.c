/*
 * More ranks than cores: Peal's allreduce against that of Open MPI behind it, which yields too, in turns within one run. All ranks
 * share two cores, however many there are: in one communicator, and in communicators of two, which for themselves have cores
 * enough. crowded [WORST]: the most that the geometric mean of the ratios may be; without it nothing is asked for.
 */
#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, MOST = 1 << 20 };
static const double ROUND_S = 0.02; /* many turns of the scheduler */
typedef int allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

static int rank, wrong;
static MPI_Comm comm;
static float *in, *out;

static void share_two_cores(void)
{
    cpu_set_t may, set;
    int n = 0;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof may, &may) != 0)
        return;
    for (int c = 0; c < CPU_SETSIZE && n < 2; c++)
        if (CPU_ISSET(c, &may)) {
            CPU_SET(c, &set);
            n++;
        }
    sched_setaffinity(0, sizeof set, &set);
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
}

static double loop(allreduce *f, int count, int calls)
{
    int me, size;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), mine, all;
    for (int i = 0; i < calls; i++) {
        for (int k = 0; k < count; k++)
            in[k] = (float)(me + i % 3);
        f(in, out, count, MPI_FLOAT, MPI_SUM, comm);
        float want = (float)(size * (size - 1) / 2 + size * (i % 3));
        wrong |= out[0] != want || out[count - 1] != want;
    }
    mine = (MPI_Wtime() - start) / calls;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds a call of both, the median of all rounds. */
static void race(allreduce *const way[2], int count, double median[2])
{
    double s[2][ROUNDS];
    for (int w = 0; w < 2; w++)
        loop(way[w], count, 3);
    double call_s = fmin(loop(way[0], count, 10), loop(way[1], count, 10));
    int calls = 1 + (int)(ROUND_S / call_s);
    for (int r = 0; r < ROUNDS; r++)
        for (int w = 0; w < 2; w++)
            s[w][r] = loop(way[w], count, calls);
    for (int w = 0; w < 2; w++) {
        qsort(s[w], ROUNDS, sizeof(double), by_size);
        median[w] = s[w][ROUNDS / 2];
    }
}

/* The geometric mean of the ratios of all sizes. */
static double races(allreduce *const way[2])
{
    double logs = 0;
    int sizes = 0;
    for (int bytes = 8; bytes <= MOST; bytes *= bytes < MOST / 4 ? 8 : 4, sizes++) {
        double s[2];
        race(way, bytes / (int)sizeof(float), s);
        logs += log(s[0] / s[1]);
        if (rank == 0)
            printf("%7d bytes: %8.1f us, MPI alone %8.1f us, ratio %.2f\n", bytes, s[0] * 1e6, s[1] * 1e6, s[0] / s[1]);
    }
    double mean = exp(logs / sizes);
    if (rank == 0)
        printf("geometric mean %.2f\n", mean);
    return mean;
}

int main(int argc, char **argv)
{
    double worst = argc > 1 ? atof(argv[1]) : INFINITY;
    share_two_cores();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    in = malloc(MOST);
    out = malloc(MOST);
    void *mpi = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
    allreduce *const way[2] = {MPI_Allreduce, mpi ? (allreduce *)dlsym(mpi, "PMPI_Allreduce") : NULL};
    if (!in || !out || !way[1] || way[0] == way[1])
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &comm);
    double pairs = races(way);
    MPI_Comm_free(&comm);
    comm = MPI_COMM_WORLD;
    double all = races(way);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong || !(pairs <= worst) || !(all <= worst);
}
