/* must.h: ends the program with the library's message if one of its functions has failed. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#include <chained_gpc.h>

static inline int must(int status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", cgpc_strerror(status), cgpc_last_message());
        exit(1);
    }
    return status;
}

#endif
