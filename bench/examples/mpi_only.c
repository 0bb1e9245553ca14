/*
 * A program that knows nothing of Peal: conjugate gradients on a one-dimensional Poisson problem, two dot products a step by
 * MPI_Allreduce. Under LD_PRELOAD=libpeal_mpi.so these run on Peal's schedules.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

enum { LOCAL = 2000, STEPS = 20000 };

static int rank, nranks;

static double dot(const double *a, const double *b)
{
    double mine = 0, all;
    for (int i = 1; i <= LOCAL; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Q = A P, with the neighbours' edges of P; beyond the ends P is 0. */
static void apply(double *p, double *q)
{
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < nranks - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&p[1], 1, MPI_DOUBLE, left, 0, &p[LOCAL + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&p[LOCAL], 1, MPI_DOUBLE, right, 1, &p[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 1; i <= LOCAL; i++)
        q[i] = 2 * p[i] - p[i - 1] - p[i + 1];
}

/* Solves A x = 1 from x = 0; returns the steps taken, and the rest of the residual in *REST. */
static int solve(double *x, double *r, double *p, double *q, double *rest)
{
    for (int i = 1; i <= LOCAL; i++)
        r[i] = p[i] = 1;
    double old = dot(r, r), first = old;
    int step = 0;
    for (; step < STEPS && old > 1e-20 * first; step++) {
        apply(p, q);
        double a = old / dot(p, q);
        for (int i = 1; i <= LOCAL; i++) {
            x[i] += a * p[i];
            r[i] -= a * q[i];
        }
        double now = dot(r, r);
        for (int i = 1; i <= LOCAL; i++)
            p[i] = r[i] + now / old * p[i];
        old = now;
    }
    *rest = sqrt(old / first);
    return step;
}

int main(int argc, char **argv)
{
    static double x[LOCAL + 2], r[LOCAL + 2], p[LOCAL + 2], q[LOCAL + 2];
    double rest;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    double start = MPI_Wtime();
    int steps = solve(x, r, p, q, &rest);
    if (rank == 0)
        printf("conjugate gradients, %d ranks: %d steps, residual %.1e, %.2f s\n", nranks, steps, rest, MPI_Wtime() - start);
    MPI_Finalize();
    return !(rest <= 1e-10);
}
