/* Reductions by MPI: a broadcast of 64 bytes, as a call has a request, and MPI_Reduce of an array of double.
 * Prints the median time of a round in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int count = atoi(argv[1]) / (int)sizeof(double), rounds = atoi(argv[2]), me;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    double *own = calloc((size_t)count, sizeof *own), *sum = calloc((size_t)count, sizeof *sum);
    double *times = calloc((size_t)rounds, sizeof *times);
    if (!own || !sum || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    char request[64] = {0};
    for (int round = 0; round < rounds; round++) {
        double begun = MPI_Wtime();
        MPI_Bcast(request, (int)sizeof request, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Reduce(own, sum, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        times[round] = MPI_Wtime() - begun;
    }
    qsort(times, (size_t)rounds, sizeof *times, compare);
    if (me == 0)
        printf("%.0f\n", times[rounds / 2] * 1e6);
    MPI_Finalize();
    return 0;
}
