/* How long a fence takes, by PMI-1 without a library: each round every process puts one value, comes to a barrier, and gets what all have put. Rank 0 prints a line for each round, in microseconds: a barrier to which nobody brings anything; put and barrier; all gets.
   Arguments: rounds, bytes of a value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int descriptor;
static char said[8192];

static void fail(const char *what) {
  fprintf(stderr, "fence.c: %s: `%s`\n", what, said);
  exit(3);
}

static void ask(const char *line, const char *start) {
  size_t length = strlen(line), there = 0;
  if (write(descriptor, line, length) != (ssize_t) length) fail("the server does not read");
  do {
    ssize_t got = read(descriptor, said + there, sizeof said - 1 - there);
    if (got <= 0) fail("the server has closed its end");
    there += (size_t) got;
    said[there] = '\0';
  } while (!strchr(said, '\n') && there + 1 < sizeof said);
  if (strncmp(said, start, strlen(start)) != 0) fail(start);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

static int number(const char *name) {
  const char *text = getenv(name);
  if (!text) fail(name);
  return atoi(text);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20, bytes = argc > 2 ? atoi(argv[2]) : 1000;
  descriptor = number("PMI_FD");
  int rank = number("PMI_RANK"), size = number("PMI_SIZE");
  char name[512], line[8192], value[4096];
  if (bytes < 1 || bytes >= (int) sizeof value) fail("bytes of a value");
  memset(value, 'v', (size_t) bytes);
  value[bytes] = '\0';
  ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
  ask("cmd=get_my_kvsname\n", "cmd=my_kvsname");
  const char *called = strstr(said, " kvsname=");
  if (!called || sscanf(called, " kvsname=%500s", name) != 1) fail("what the database is called");
  for (int round = 0; round < rounds; round++) {
    double begun, alone, fenced, got;
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    begun = now();
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    alone = now();
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=r%d-%d value=%s\n", name, round, rank, value);
    ask(line, "cmd=put_result rc=0");
    ask("cmd=barrier_in\n", "cmd=barrier_out");
    fenced = now();
    for (int other = 0; other < size; other++) {
      snprintf(line, sizeof line, "cmd=get kvsname=%s key=r%d-%d\n", name, round, other);
      ask(line, "cmd=get_result rc=0");
      const char *found = strstr(said, " value=");
      if (!found || strncmp(found + 7, value, (size_t) bytes) != 0) fail("another value");
    }
    got = now();
    if (rank == 0) printf("%.1f %.1f %.1f\n", alone - begun, fenced - alone, got - fenced);
  }
  ask("cmd=finalize\n", "cmd=finalize_ack");
  return 0;
}
