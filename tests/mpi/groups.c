/* Communicators made of groups, without a communicator of all (MPI 4). Each rank prints one line:
 *   groups: rank R of N: sum SUM, MERGED in both halves
 * With an argument, the last rank ends by SIGKILL instead of making the first one.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, sum = 0, both = 0;
    char tag[32];
    MPI_Group all, halves[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (argc > 1 && rank == size - 1) raise(SIGKILL);
    for (int round = 0; round < 3; round++) {
        MPI_Comm comm;
        snprintf(tag, sizeof tag, "all-%d", round);
        MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        MPI_Comm_free(&comm);
    }
    int first[1][3] = {{0, size / 2 - 1, 1}}, second[1][3] = {{size / 2, size - 1, 1}}, high = rank >= size / 2;
    MPI_Group_range_incl(all, 1, first, &halves[0]);
    MPI_Group_range_incl(all, 1, second, &halves[1]);
    MPI_Comm between, merged;
    MPI_Intercomm_create_from_groups(halves[high], 0, halves[!high], 0, "between", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                     &between);
    MPI_Intercomm_merge(between, high, &merged);
    MPI_Allreduce(&rank, &both, 1, MPI_INT, MPI_SUM, merged);
    printf("groups: rank %d of %d: sum %d, %d in both halves\n", rank, size, sum, both);
    fflush(stdout);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Finalize();
    return 0;
}
