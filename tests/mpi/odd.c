/* An MPI program whose ranks behave badly after they have met. The first argument says how:
 *   silent    rank 1 ends with status 0 and has not finalized
 *   forks     rank 1 leaves a child behind, which sleeps with all descriptors
 *   closes    each rank closes all descriptors above standard error, and ends with status 0
 *   stays     no rank ever finalizes: each sleeps
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, sum;
    const char *way = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%s: rank %d of %d, sum %d\n", way, rank, size, sum);
    fflush(stdout);
    /* The end of one kills the others, which have written by then. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(way, "silent") == 0 && rank == 1) _exit(0);
    if (strcmp(way, "stays") == 0) sleep(1000);
    if (strcmp(way, "forks") == 0 && rank == 1 && fork() == 0) {
        execlp("sleep", "sleep", "1000", (char *)0);
        _exit(1);
    }
    if (strcmp(way, "closes") == 0) {
        for (int descriptor = 3; descriptor < 1024; descriptor++) close(descriptor);
        _exit(0);
    }
    MPI_Finalize();
    return 0;
}
