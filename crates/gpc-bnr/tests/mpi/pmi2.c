/* PMI-2 through a library written by others, such as Slurm's libpmi2: databases, attributes of the node and of the job,
   names. Each rank prints one line at its end:
   rank R of N: all is there
   Each node has at least one process of an odd rank.
   Argument: the library (default libpmi2.so.0). Without it the program reports that it was skipped, and exits with 77. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;

static void fail(const char *what)
{
    fprintf(stderr, "pmi2.c: %s\n", what);
    exit(3);
}

static void *function(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        fail(name);
    return found;
}

#define FUNCTION(name, ...) int (*name)(__VA_ARGS__) = (int (*)(__VA_ARGS__)) function(#name)

static void check(int whether, const char *what)
{
    if (!whether)
        fail(what);
}

int main(int argc, char **argv)
{
    library = dlopen(argc > 1 ? argv[1] : "libpmi2.so.0", RTLD_NOW);
    if (!library) {
        printf("skipped: needs libpmi2.so.0\n");
        return 77;
    }
    FUNCTION(PMI2_Init, int *, int *, int *, int *);
    FUNCTION(PMI2_Job_GetId, char *, int);
    FUNCTION(PMI2_KVS_Put, const char *, const char *);
    FUNCTION(PMI2_KVS_Fence, void);
    FUNCTION(PMI2_KVS_Get, const char *, int, const char *, char *, int, int *);
    FUNCTION(PMI2_Info_PutNodeAttr, const char *, const char *);
    FUNCTION(PMI2_Info_GetNodeAttr, const char *, char *, int, int *, int);
    FUNCTION(PMI2_Info_GetJobAttr, const char *, char *, int, int *);
    FUNCTION(PMI2_Nameserv_publish, const char *, void *, const char *);
    FUNCTION(PMI2_Nameserv_lookup, const char *, void *, char *, int);
    FUNCTION(PMI2_Nameserv_unpublish, const char *, void *);
    FUNCTION(PMI2_Finalize, void);

    int spawned, size, rank, appnum, length, found;
    char job[1024], key[64], value[1024], expected[64];
    check(PMI2_Init(&spawned, &size, &rank, &appnum) == 0, "PMI2_Init");
    /* With a port, the variables are not set, and only the server knows the rank. */
    const char *told = getenv("PMI_RANK"), *count = getenv("PMI_SIZE");
    check((!told || rank == atoi(told)) && (!count || size == atoi(count)) && rank < size, "which rank this is");
    check(!spawned && appnum == 0, "who has started this");
    check(PMI2_Job_GetId(job, sizeof job) == 0 && job[0], "PMI2_Job_GetId");

    for (int fence = 0; fence < 3; fence++) {
        snprintf(key, sizeof key, "key-%d-%d", fence, rank);
        snprintf(value, sizeof value, "value of %d; in %d", rank, fence);
        check(PMI2_KVS_Put(key, value) == 0, "PMI2_KVS_Put");
        check(PMI2_KVS_Fence() == 0, "PMI2_KVS_Fence");
        for (int other = 0; other < size; other++) {
            snprintf(key, sizeof key, "key-%d-%d", fence, other);
            snprintf(expected, sizeof expected, "value of %d; in %d", other, fence);
            check(PMI2_KVS_Get(job, other, key, value, sizeof value, &length) == 0, "PMI2_KVS_Get");
            check(strcmp(value, expected) == 0 && length == (int) strlen(expected), "another value");
        }
    }

    /* Odd ranks, or a single process, put the attribute that the others wait for. */
    if (rank % 2 == 1 || size == 1)
        check(PMI2_Info_PutNodeAttr("segment", "/shared by all") == 0, "PMI2_Info_PutNodeAttr");
    check(PMI2_Info_GetNodeAttr("segment", value, sizeof value, &found, 1) == 0 && found, "PMI2_Info_GetNodeAttr");
    check(strcmp(value, "/shared by all") == 0, "another attribute of the node");
    check(PMI2_Info_GetNodeAttr("none", value, sizeof value, &found, 0) == 0 && !found, "an attribute that there is not");
    check(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == 0 && found, "PMI2_Info_GetJobAttr");
    check(strncmp(value, "(vector,(", 9) == 0, "another mapping");

    if (rank == 0) {
        check(PMI2_Nameserv_publish("a name", NULL, "a port") == 0, "PMI2_Nameserv_publish");
        check(PMI2_Nameserv_lookup("a name", NULL, value, sizeof value) == 0, "PMI2_Nameserv_lookup");
        check(strcmp(value, "a port") == 0, "another port");
        check(PMI2_Nameserv_unpublish("a name", NULL) == 0, "PMI2_Nameserv_unpublish");
        check(PMI2_Nameserv_lookup("a name", NULL, value, sizeof value) != 0, "a name that was taken back");
    }
    check(PMI2_KVS_Fence() == 0, "the last PMI2_KVS_Fence");
    check(PMI2_Finalize() == 0, "PMI2_Finalize");
    printf("rank %d of %d: all is there\n", rank, size);
    return 0;
}
