/* Two halves of the processes, or two jobs, connect by a name. Rank 0 opens a port, publishes it under the name in the
   first argument and accepts the connection; the others look the name up.
   ports NAME          both halves in one job of at least two processes
   ports NAME accept   the side that accepts the connection
   ports NAME connect  the side that connects
   Each half prints one line when a number has been sent there and back:
   accepted N
   connected N
   and the publisher prints, after the name was withdrawn:
   NAME is gone */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int whether, const char *what)
{
    if (!whether) {
        fprintf(stderr, "ports.c: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void accepts(const char *name, MPI_Comm half)
{
    char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
    int rank, remote, number = 0;
    MPI_Comm other;
    MPI_Comm_rank(half, &rank);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(name, MPI_INFO_NULL, port);
        MPI_Lookup_name(name, MPI_INFO_NULL, found);
        check(strcmp(port, found) == 0, "the name leads to another port");
        check(MPI_Publish_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS, "the name could be published twice");
    }
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
    MPI_Comm_remote_size(other, &remote);
    if (rank == 0) {
        MPI_Recv(&number, 1, MPI_INT, 0, 5, other, MPI_STATUS_IGNORE);
        number++;
        MPI_Send(&number, 1, MPI_INT, 0, 6, other);
        check(number == 4712, "another number has come");
        printf("accepted %d\n", remote);
    }
    MPI_Comm_disconnect(&other);
    if (rank == 0) {
        MPI_Unpublish_name(name, MPI_INFO_NULL, port);
        MPI_Close_port(port);
        check(MPI_Lookup_name(name, MPI_INFO_NULL, found) != MPI_SUCCESS, "the name is still there");
        printf("%s is gone\n", name);
        fflush(stdout);
    }
}

static void connects(const char *name, MPI_Comm half)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, remote, number = 4711;
    MPI_Comm other;
    MPI_Comm_rank(half, &rank);
    if (rank == 0) {
        /* The name is published at some time; the alarm bounds the wait. */
        alarm(120);
        while (MPI_Lookup_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS)
            usleep(10000);
        alarm(0);
    }
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
    MPI_Comm_remote_size(other, &remote);
    if (rank == 0) {
        MPI_Send(&number, 1, MPI_INT, 0, 5, other);
        MPI_Recv(&number, 1, MPI_INT, 0, 6, other, MPI_STATUS_IGNORE);
        check(number == 4712, "another number has come back");
        printf("connected %d\n", remote);
        fflush(stdout);
    }
    MPI_Comm_disconnect(&other);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm half;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(argc > 1, "it needs a name");
    check(argc > 2 || size > 1, "it needs at least two processes");
    int first = argc > 2 ? strcmp(argv[2], "accept") == 0 : rank < size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &half);
    if (first)
        accepts(argv[1], half);
    else
        connects(argv[1], half);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
