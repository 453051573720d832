/* Starts copies of itself, and exchanges numbers with them: once with MPI_Comm_spawn, once with MPI_Comm_spawn_multiple.
   Rank 0 of the parents prints a line after each spawn, once the children have answered:
   spawned N
   and each child of the second spawn prints which of the programs it is:
   child R of N is program A with B
   A program that cannot be started is an error, reported as:
   refused
   Arguments of the parents: number of children (default 2); "refused" also tries a program that does not exist. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int whether, const char *what)
{
    if (!whether) {
        fprintf(stderr, "spawn.c: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static int children(MPI_Comm parents, const char *word)
{
    int rank, size, remote, *appnum, flag, sum = 0, told = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parents, &remote);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    check(flag, "a child has no number of its program");

    /* Parent 0 broadcasts a number; each child adds its rank; child 0 returns the sum. */
    MPI_Comm both;
    MPI_Intercomm_merge(parents, 1, &both);
    MPI_Bcast(&told, 1, MPI_INT, 0, both);
    int mine = told + rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Send(&sum, 1, MPI_INT, 0, 9, parents);
    if (strcmp(word, "only") != 0)
        printf("child %d of %d is program %d with %s\n", rank, size, *appnum, word);
    fflush(stdout);
    MPI_Barrier(both);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&parents);
    return 0;
}

/* The parents' side of an exchange with the children. */
static void parents(MPI_Comm kids, int count)
{
    int rank, remote, told = 1000, answer = 0, wrong = 0;
    MPI_Comm both;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_remote_size(kids, &remote);
    check(remote == count, "there are not as many children as were asked for");
    MPI_Intercomm_merge(kids, 0, &both);
    MPI_Bcast(&told, 1, MPI_INT, 0, both);
    if (rank == 0) {
        MPI_Recv(&answer, 1, MPI_INT, 0, 9, kids, MPI_STATUS_IGNORE);
        wrong = answer != 1000 * count + count * (count - 1) / 2;
        check(!wrong, "the children have added up something else");
        printf("spawned %d\n", count);
        fflush(stdout);
    }
    MPI_Barrier(both);
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&kids);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, kids;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int code = children(parent, argc > 2 && strcmp(argv[1], "child") == 0 ? argv[2] : "nothing");
        MPI_Finalize();
        return code;
    }
    int count = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 2;
    /* The program works from any directory. */
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    check(length > 0, "the program does not find itself");
    self[length] = '\0';
    int *errors = malloc((count + 1) * sizeof *errors);

    char *only[] = { "child", "only", NULL };
    MPI_Comm_spawn(self, only, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &kids, errors);
    for (int i = 0; i < count; i++)
        check(errors[i] == MPI_SUCCESS, "a child has an error of its own");
    parents(kids, count);

    /* Two programs, the second with one process: they form one group. */
    char *commands[] = { self, self };
    char *first[] = { "child", "a word with blanks", NULL }, *second[] = { "child", "second", NULL };
    char **words[] = { first, second };
    int counts[] = { count, 1 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    MPI_Info_create(&infos[1]);
    MPI_Info_set(infos[1], "wdir", "/");
    MPI_Comm_spawn_multiple(2, commands, words, counts, infos, 0, MPI_COMM_WORLD, &kids, errors);
    parents(kids, count + 1);
    MPI_Info_free(&infos[1]);

    if (argc > 2 && strcmp(argv[2], "refused") == 0) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = MPI_Comm_spawn("/there/is/no/such/program", MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                                  &kids, errors);
        if (rank == 0)
            printf("%s\n", code == MPI_SUCCESS ? "not refused" : "refused");
        fflush(stdout);
    }
    free(errors);
    MPI_Finalize();
    return 0;
}
