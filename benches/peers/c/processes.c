#define _GNU_SOURCE
#include "processes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "die.h"

/* The two ends of an edge. */
struct edge {
    int parent, child;
};

static int tcp_listener(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(bind(listener, (struct sockaddr *)address, length), "bind");
    check(listen(listener, 16), "listen");
    check(getsockname(listener, (struct sockaddr *)address, &length), "getsockname");
    return listener;
}

static void no_delay(int socket)
{
    int yes = 1;
    check(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), "TCP_NODELAY");
}

static struct edge tcp_edge(int listener, const struct sockaddr_in *address)
{
    struct edge edge;
    edge.child = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(connect(edge.child, (const struct sockaddr *)address, sizeof *address), "connect");
    edge.parent = check(accept(listener, 0, 0), "accept");
    no_delay(edge.child);
    no_delay(edge.parent);
    return edge;
}

static struct edge unix_edge(void)
{
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    return (struct edge){ends[0], ends[1]};
}

/* An edge from every id but the root to its parent; that of id is at [id]. */
static struct edge *edges(const struct options *options)
{
    struct edge *all = need(calloc((size_t)options->n, sizeof *all), "memory");
    struct rlimit files;
    check(getrlimit(RLIMIT_NOFILE, &files), "getrlimit");
    files.rlim_cur = files.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &files), "setrlimit");
    if (strcmp(options->link, "unix") == 0) {
        for (int id = 1; id < options->n; id++)
            all[id] = unix_edge();
        return all;
    }
    struct sockaddr_in address;
    int listener = tcp_listener(&address);
    for (int id = 1; id < options->n; id++)
        all[id] = tcp_edge(listener, &address);
    close(listener);
    return all;
}

/* Forks the others; returns the id of this one. None outlives the root. */
static int fork_all(int n, pid_t *all)
{
    pid_t root = all[0] = getpid();
    for (int id = 1; id < n; id++) {
        all[id] = check(fork(), "fork");
        if (all[id] == 0) {
            check(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
            if (getppid() != root)
                exit(1);
            return id;
        }
    }
    return 0;
}

/* Keeps the ends that are this process's own, and closes the others. */
static void keep(struct process *process, struct edge *all, int n)
{
    const struct place *place = &process->place;
    process->to_parent = place->parent < 0 ? -1 : all[place->id].child;
    for (int i = 0; i < place->child_count; i++) {
        struct edge *edge = &all[place->children[i].start];
        process->to_children[i] = edge->parent;
        edge->parent = -1;
    }
    for (int id = 1; id < n; id++) {
        if (all[id].parent >= 0)
            close(all[id].parent);
        if (id != place->id)
            close(all[id].child);
    }
    free(all);
}

struct process processes_start_bare(const struct options *options)
{
    struct process process = {.to_parent = -1};
    process.all = need(malloc(sizeof(pid_t) * (size_t)options->n), "memory");
    int id = fork_all(options->n, process.all);
    process.place = tree_place(options->tree, options->n, id);
    process.to_children = need(malloc(sizeof(int) * (size_t)options->n), "memory");
    return process;
}

struct process processes_start(const struct options *options)
{
    if (strcmp(options->link, "tcp") && strcmp(options->link, "unix")) {
        fprintf(stderr, "--link %s: must be tcp or unix\n", options->link);
        exit(2);
    }
    struct edge *all = edges(options);
    struct process process = processes_start_bare(options);
    keep(&process, all, options->n);
    return process;
}

void processes_wait(const struct process *process, int n)
{
    for (int id = 1; id < n; id++) {
        int status;
        check(waitpid(process->all[id], &status, 0), "waitpid");
        if (status != 0) {
            fprintf(stderr, "id %d ended with status %d\n", id, status);
            exit(1);
        }
    }
}
