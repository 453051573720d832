/* The processes of a tree on one machine, and the sockets between them. */
#ifndef PEERS_PROCESSES_H
#define PEERS_PROCESSES_H

#include <sys/types.h>

#include "measure.h"

/* One process: its place, and its sockets. */
struct process {
    struct place place;
    int to_parent;   /* -1 at the root */
    int *to_children; /* in the order of the place's children */
    pid_t *all;      /* at the root: the processes by id, itself first */
};

/* Connects the edges of the tree, forks n-1 processes, and returns in each of the n with its own place. */
struct process processes_start(const struct options *options);

/* The same, without sockets. */
struct process processes_start_bare(const struct options *options);

/* At the root, after it has closed or said what makes the others end: waits for them, and ends badly if one did. */
void processes_wait(const struct process *process, int n);

#endif
