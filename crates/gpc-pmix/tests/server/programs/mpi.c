// Programs of MPI for tests: hello, ring, allreduce, window, name, spawn, abort, late.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void ring(void) {
  int token = 0;
  if (rank == 0) {
    token = 1;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("ring %d\n", token);
  } else {
    MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += 1;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
  }
}

static void allreduce(void) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %d\n", sum);
}

static void window(void) {
  int *memory;
  MPI_Win win;
  MPI_Win_allocate(sizeof(int) * (size_t)size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Win_fence(0, win);
  for (int to = 0; to < size; to++) MPI_Put(&rank, 1, MPI_INT, to, rank, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  int sum = 0;
  for (int from = 0; from < size; from++) sum += memory[from];
  if (rank == size - 1) printf("window %d\n", sum);
  MPI_Win_free(&win);
}

static void name(void) {
  char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name("service", MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Lookup_name("service", MPI_INFO_NULL, found);
  MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  printf("name %s\n", strcmp(port, found) == 0 ? "found" : found);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Unpublish_name("service", MPI_INFO_NULL, port);
}

static void spawn(char *program) {
  MPI_Comm parent, children;
  MPI_Comm_get_parent(&parent);
  int sum = 0, value = rank + 1;
  if (parent == MPI_COMM_NULL) {
    char *arguments[] = {"spawn", NULL};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, children);
    if (rank == 0) printf("children sum %d\n", sum);
    MPI_Comm_disconnect(&children);
  } else {
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, parent);
    if (rank == 0) printf("parents sum %d\n", sum);
    MPI_Comm_disconnect(&parent);
  }
}

// Creates a file beside the program and stays.
static void late(const char *program) {
  char path[4096];
  snprintf(path, sizeof path, "%.*s/late", (int)(strrchr(program, '/') - program), program);
  fclose(fopen(path, "w"));
  pause();
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "hello";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "hello") == 0) printf("hello %d of %d\n", rank, size);
  if (strcmp(what, "ring") == 0) ring();
  if (strcmp(what, "allreduce") == 0) allreduce();
  if (strcmp(what, "window") == 0) window();
  if (strcmp(what, "name") == 0) name();
  if (strcmp(what, "spawn") == 0) spawn(argv[0]);
  if (strcmp(what, "abort") == 0 && rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(what, "abort") == 0) pause();
  if (strcmp(what, "late") == 0 && rank == 1) late(argv[0]);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
