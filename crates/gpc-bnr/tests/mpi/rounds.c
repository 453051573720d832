/* Starts, sends around a ring, sums up, waits for all, ends. Each rank prints one line:
   rank R of N: from LEFT sum SUM */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000

int main(int argc, char **argv)
{
    int rank, size, from = -1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    MPI_Sendrecv(&rank, 1, MPI_INT, right, 7, &from, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    /* Too long to be sent as one eager message. */
    int *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in);
    for (int i = 0; i < COUNT; i++)
        out[i] = rank ^ i;
    MPI_Sendrecv(out, COUNT, MPI_INT, right, 8, in, COUNT, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++)
        if (in[i] != (left ^ i)) {
            fprintf(stderr, "rank %d: element %d is %d\n", rank, i, in[i]);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    free(out);
    free(in);

    MPI_Allreduce(&from, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d: from %d sum %d\n", rank, size, from, sum);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
