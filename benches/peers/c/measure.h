/* What every contestant measures in the same way: its options, the clock, rounds in flight, CPU time, what it prints. */
#ifndef PEERS_MEASURE_H
#define PEERS_MEASURE_H

#include <stdint.h>
#include <sys/types.h>

#include "tree.h"

/* What an id contributes to a reply, bytes; and the request, unless it is bulk. */
enum { PART = 64 };

struct options {
    int n;              /* processes, this one included */
    enum tree tree;
    const char *link;   /* tcp or unix */
    double spin_us;     /* how long to look before sleeping */
    int yielding;       /* between two looks the core is offered to others */
    int rounds, warmup; /* the warm-up is not counted */
    int window;         /* rounds in flight */
    double seconds;     /* no round begins after so long */
    size_t bytes;       /* of a request */
};

/* Reads the command line; ends the process where it is wrong. Every process ends by itself some time after `seconds`. */
struct options options_parse(int argc, char **argv);

double now_us(void);

/* The root's book of its rounds. Rounds are numbered from 0 and end in order. */
struct book {
    struct options options;
    const pid_t *processes; /* n of them, this one among them */
    uint32_t begun, ended;
    int counting;           /* the warm-up is over */
    uint32_t first;         /* round that counts */
    double *begun_us;       /* of those in flight */
    double *took_us;        /* of those that count */
    double start_us;        /* of the first round */
    double from_us, to_us;  /* the time that counts */
    double cpu_from_us;
};

struct book book_open(const struct options *options, const pid_t *processes);

/* Whether another round may begin. */
int book_wants(struct book *book);

/* A round begins; returns its number. */
uint32_t book_begin(struct book *book);

/* The oldest round has ended. */
void book_end(struct book *book, uint32_t round);

/* Prints one line of JSON; the processes are still there. */
void book_print(const struct book *book);

/* A request's last PART bytes say which round it is of; the rest is a pattern. */
void request_fill(char *request, size_t bytes, uint32_t round);

/* What id makes of a request: its last PART bytes, the id in front. */
void part_fill(char *part, const char *request, size_t bytes, uint32_t id);

/* Ends the process unless there is a part of every id, in order, and all are of this round. */
void parts_check(const char *parts, int n, uint32_t round);

#endif
