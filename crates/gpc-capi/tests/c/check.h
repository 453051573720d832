/* What the test programs have in common: checks, and contexts that know each other. */
#ifndef CHECK_H
#define CHECK_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chained_gpc.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            explain(); \
            abort(); \
        } \
    } while (0)

/* Prints the last error of this thread. */
static void explain(void) {
    cgpc_error error;
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    cgpc_last_error(&error);
    fprintf(stderr, "last error: %d (%s): %s\n", error.status, cgpc_strerror(error.status), error.message);
}

/* Whether a function has this status; prints the last error if not. */
#define IS(status, function) \
    do { \
        int is = (function); \
        if (is != (status)) { \
            fprintf(stderr, "%s:%d: %s is %d, not %s\n", __FILE__, __LINE__, #function, is, #status); \
            explain(); \
            abort(); \
        } \
    } while (0)

#define OK(function) IS(CGPC_OK, function)

#define NODES_MAX 16

/* Starts contexts of ids 0 to count - 1 that know each other; `flags` of the first one. */
/* Not every program has several contexts. */
#if defined(__GNUC__)
__attribute__((unused))
#endif
static void start_all(cgpc_context **contexts, uint32_t count, uint32_t flags) {
    static int starts;
    char peers[NODES_MAX * 64];
    size_t length = 0;
    uint32_t id;
    starts++;
    for (id = 0; id < count; id++) {
        length += (size_t)snprintf(peers + length, sizeof peers - length, "%u unix:@capi-%ld-%d-%u\n", (unsigned)id,
                                   (long)getpid(), starts, (unsigned)id);
    }
    for (id = 0; id < count; id++) {
        char listen[64];
        cgpc_options options;
        OK(cgpc_options_init(&options, sizeof options));
        snprintf(listen, sizeof listen, "unix:@capi-%ld-%d-%u", (long)getpid(), starts, (unsigned)id);
        options.id = id;
        options.listen = listen;
        options.peers = peers;
        options.flags = id == 0 ? flags : 0;
        OK(cgpc_start(contexts[id], &options));
    }
}

#if defined(__GNUC__)
__attribute__((unused))
#endif
static void finalize_all(cgpc_context **contexts, uint32_t count) {
    uint32_t id;
    for (id = 0; id < count; id++) {
        OK(cgpc_finalize(contexts[id], 1000000));
    }
}

/* Number of threads of this process. */
#if defined(__GNUC__)
__attribute__((unused))
#endif
static int thread_count(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL) {
        count += task->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

#endif
