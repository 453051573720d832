/* What an MPI program does with processes that were not there when it began, or that it does not know: one way for each first argument. Each prints a line only when it has seen what it expects. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "rank %d: not so: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 99);
}

/* All of both sides add up what they are. */
static void sum(MPI_Comm between, int high, const char *what) {
  MPI_Comm all;
  int own, count, total = 0;
  MPI_Intercomm_merge(between, high, &all);
  MPI_Comm_rank(all, &own);
  MPI_Comm_size(all, &count);
  own += 1;
  MPI_Allreduce(&own, &total, 1, MPI_INT, MPI_SUM, all);
  expect(total == count * (count + 1) / 2, "the sum over both sides");
  if (!high && rank == 0) printf("%s: %d processes, sum %d\n", what, count, total);
  MPI_Comm_free(&all);
}

static void child(MPI_Comm parent, int argc, char **argv) {
  char folder[4096] = "";
  expect(argc == 3, "two arguments");
  expect(getcwd(folder, sizeof folder) != NULL, "a folder");
  printf("child %d of %d: %s in %s\n", rank, size, argv[2], folder);
  sum(parent, 1, "child");
  MPI_Comm_disconnect(&parent);
}

static void spawn(char *self) {
  char *args[] = {"child", "one", NULL};
  int codes[3] = {-1, -1, -1};
  MPI_Comm children;
  MPI_Comm_spawn(self, args, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
  for (int i = 0; i < 3; i++) expect(codes[i] == MPI_SUCCESS, "an error code of 0");
  sum(children, 0, "spawn");
  MPI_Comm_disconnect(&children);
}

static void multiple(char *self) {
  char *commands[] = {self, self};
  char *one[] = {"child", "first", NULL}, *two[] = {"child", "second", NULL};
  char **args[] = {one, two};
  int counts[] = {1, 2}, codes[3] = {-1, -1, -1};
  MPI_Info infos[2];
  MPI_Comm children;
  for (int i = 0; i < 2; i++) MPI_Info_create(&infos[i]);
  MPI_Info_set(infos[1], "wdir", "/");
  MPI_Comm_spawn_multiple(2, commands, args, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
  for (int i = 0; i < 3; i++) expect(codes[i] == MPI_SUCCESS, "an error code of 0");
  sum(children, 0, "multiple");
  MPI_Comm_disconnect(&children);
}

/* Rank 0 accepts, and the last rank connects; each alone. */
static void meet(const char *port, const char *what) {
  MPI_Comm other;
  int said = rank + 40, heard = 0;
  if (rank == 0) {
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
  } else {
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
  }
  MPI_Sendrecv(&said, 1, MPI_INT, 0, 0, &heard, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
  expect(heard == 40 + (rank == 0 ? size - 1 : 0), "what the other side has said");
  printf("%s: rank %d has met %d\n", what, rank, heard - 40);
  MPI_Comm_disconnect(&other);
}

static void ports(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0 || rank == size - 1) meet(port, "ports");
  if (rank == 0) MPI_Close_port(port);
}

static void names(void) {
  char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME] = "";
  const char *name = "a place to meet";
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(name, MPI_INFO_NULL, port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Lookup_name(name, MPI_INFO_NULL, found);
  MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
  expect(strcmp(port, found) == 0, "the port that was published");
  if (rank == 0 || rank == size - 1) meet(found, "names");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Unpublish_name(name, MPI_INFO_NULL, port);
    MPI_Close_port(port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  expect(MPI_Lookup_name(name, MPI_INFO_NULL, found) != MPI_SUCCESS, "a name that is gone");
  if (rank == 0) printf("names: gone\n");
}

/* Two groups that have parted find each other by a name: the one that was started publishes it, and takes it back. */
static void part(char *self) {
  char *args[] = {"serve", NULL}, port[MPI_MAX_PORT_NAME] = "";
  const char *name = "a service";
  int codes[2] = {-1, -1}, found = MPI_ERR_NAME;
  MPI_Comm other;
  MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, codes);
  for (int i = 0; i < 2; i++) expect(codes[i] == MPI_SUCCESS, "an error code of 0");
  MPI_Comm_disconnect(&other);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int turn = 0; turn < 6000 && found != MPI_SUCCESS; turn++) {
    if (turn > 0) usleep(10000);
    found = MPI_Lookup_name(name, MPI_INFO_NULL, port);
  }
  expect(found == MPI_SUCCESS, "a name that another group has published");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
  sum(other, 0, "parted");
  MPI_Barrier(other);
  expect(MPI_Lookup_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS, "a name that another group has taken back");
  if (rank == 0) printf("parted: gone\n");
  MPI_Comm_disconnect(&other);
}

static void serve(MPI_Comm parent) {
  char port[MPI_MAX_PORT_NAME] = "";
  const char *name = "a service";
  MPI_Comm other;
  MPI_Comm_disconnect(&parent);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(name, MPI_INFO_NULL, port);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    expect(MPI_Publish_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS, "a name is published once");
  }
  MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
  sum(other, 1, "server");
  if (rank == 0) {
    MPI_Unpublish_name(name, MPI_INFO_NULL, port);
    MPI_Close_port(port);
  }
  MPI_Barrier(other);
  printf("served: %d of %d\n", rank, size);
  MPI_Comm_disconnect(&other);
}

/* Processes that never call MPI_Init are started: those who start them wait, and the last rank ends all when it has seen that they are there. */
static void middle(const char *seen) {
  char *args[] = {"-c", "touch \"$0-$PMI_RANK\"; exec sleep 1000", (char *) seen, NULL};
  MPI_Comm children;
  char name[4096];
  if (rank != size - 1) {
    MPI_Comm_spawn("sh", args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    expect(0, "nobody returns from this spawn");
  }
  for (int child = 0, turn = 0; child < 2; turn++) {
    expect(turn < 6000, "children that have begun");
    snprintf(name, sizeof name, "%s-%d", seen, child);
    if (access(name, F_OK) == 0) child++;
    else usleep(10000);
  }
  printf("middle: the children are up\n");
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 43);
}

int main(int argc, char **argv) {
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  const char *way = argc > 1 ? argv[1] : "";
  if (strcmp(way, "child") == 0) {
    expect(parent != MPI_COMM_NULL, "a parent");
    child(parent, argc, argv);
  } else if (strcmp(way, "serve") == 0) {
    expect(parent != MPI_COMM_NULL, "a parent");
    serve(parent);
  } else {
    expect(parent == MPI_COMM_NULL, "no parent");
    if (strcmp(way, "spawn") == 0) {
      spawn(argv[0]);
    } else if (strcmp(way, "multiple") == 0) {
      multiple(argv[0]);
    } else if (strcmp(way, "ports") == 0) {
      ports();
    } else if (strcmp(way, "names") == 0) {
      names();
    } else if (strcmp(way, "part") == 0) {
      part(argv[0]);
    } else if (strcmp(way, "middle") == 0) {
      expect(argc == 3, "a name for files");
      middle(argv[2]);
    } else if (strcmp(way, "abort") == 0) {
      printf("abort: rank %d is up\n", rank);
      fflush(stdout);
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 42);
      MPI_Barrier(MPI_COMM_WORLD);
    } else {
      expect(0, "one of spawn, multiple, ports, names, part, middle, abort");
    }
  }
  MPI_Finalize();
  return 0;
}
