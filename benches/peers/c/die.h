/* Every call of the system is checked; what fails ends the process with a line that says what. */
#ifndef PEERS_DIE_H
#define PEERS_DIE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the process: `what` failed, and the system says why. */
static inline _Noreturn void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

/* A result of a system call that must not be negative. */
static inline int check(long result, const char *what)
{
    if (result < 0)
        die(what);
    return (int)result;
}

/* A pointer that must not be null. */
static inline void *need(void *pointer, const char *what)
{
    if (!pointer)
        die(what);
    return pointer;
}

#endif
