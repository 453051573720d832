/* What programs with ARMCI's interface check with. */
#ifndef ARMCI_CHECK_H
#define ARMCI_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "armci.h"
#include "chained_gpc.h"
#include "gpc.h"
#include "message.h"

static int me, count;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%d: line %d: not so: %s (%s)\n", me, __LINE__, #condition, last_message()); \
            abort(); \
        } \
    } while (0)

static const char *last_message(void) {
    cgpc_error error;
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    return cgpc_last_error(&error) == CGPC_OK && error.message != NULL ? error.message : "";
}

/* A plain handler with this name. */
#define HANDLER(name) \
    static int name(int to, int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, int *rhsize, \
                    void *rdata, int rdlen, int *rdsize, int rtype)

#define UNUSED \
    ((void)to, (void)from, (void)hdr, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rhsize, \
     (void)rdata, (void)rdlen, (void)rdsize, (void)rtype)

static int registers(gpc_handler_t handler) {
    int number = ARMCI_Gpc_register((int (*)())handler);
    CHECK(number < 0);
    return number;
}

/* A call of a handler with a number as data, and one in reply. */
static int ask(int handler, int process, int number, int *reply) {
    return ARMCI_Gpc_exec(handler, process, NULL, 0, &number, sizeof number, NULL, 0, reply, reply ? sizeof *reply : 0, NULL);
}

#endif
