/* A session of IMPI: wrong uses, an event loop, several threads, and servers that are silent or close. */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "impi.h"
#include "interrupts.h"

#define LIMIT_US 60000000

static cgpc_impi *client;

static cgpc_impi *connected(const char *server) {
    cgpc_impi_options options = {.size = sizeof options};
    cgpc_impi *made;
    OK(cgpc_impi_connect(server, &options, LIMIT_US, &made));
    return made;
}

/* Waits by the descriptor until the call is not pending. */
static int polled(int status, int again(void)) {
    while (status == CGPC_PENDING) {
        struct pollfd descriptor = {.events = POLLIN};
        int writes;
        OK(cgpc_impi_fd(client, &descriptor.fd, &writes));
        if (writes) descriptor.events |= POLLOUT;
        CHECK(poll(&descriptor, 1, 60000) == 1);
        status = again();
    }
    return status;
}

static int joins(void) { return cgpc_impi_join(client, 0, NULL); }
static int says(void) { return cgpc_impi_exchange(client, 0x9000, "mine", 4, 0); }
static int ends(void) { return cgpc_impi_done(client, 0); }
static int leaves(void) { return cgpc_impi_fini(client, 0); }

static void *waits(void *arg) {
    int status;
    (void)arg;
    /* The broadcast never comes: the other client says nothing. The main thread uses the session now and then. */
    do status = cgpc_impi_exchange(client, 0x9001, NULL, 0, 5000000);
    while (status == CGPC_ERR_BUSY);
    return (void *)(intptr_t)status;
}

static void alone(const char *server) {
    IMPI_Uint8 pid = 0x1122334455667788, pids[2];
    IMPI_Int4 hosts = 2, found[2];
    IMPI_Uint4 mask;
    size_t count;
    char bytes[16];
    uint32_t clients;
    client = connected(server);
    IS(CGPC_ERR_STATE, cgpc_impi_exchange(client, IMPI_C_NHOSTS, "abcd", 4, 0));
    IS(CGPC_ERR_STATE, cgpc_impi_done(client, 0));
    OK(polled(joins(), joins));
    OK(cgpc_impi_join(client, 0, &clients));
    CHECK(clients == 1);
    mask = count = 7;
    IS(CGPC_NONE, cgpc_impi_values(client, IMPI_C_NHOSTS, &mask, bytes, sizeof bytes, &count));
    CHECK(mask == 0 && count == 0);
    IS(CGPC_ERR_LENGTH, cgpc_impi_exchange(client, IMPI_C_NHOSTS, "abc", 3, 0));
    IS(CGPC_ERR_LENGTH, cgpc_impi_exchange_int4(client, IMPI_P_PID, &hosts, 1, 0));
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_exchange(client, IMPI_NO_LABEL, "abcd", 4, 0));
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_exchange(client, IMPI_C_NHOSTS, NULL, 4, 0));
    OK(cgpc_impi_exchange_int4(client, IMPI_C_NHOSTS, &hosts, 1, LIMIT_US));
    OK(cgpc_impi_values_int4(client, IMPI_C_NHOSTS, &mask, found, 2, &count));
    CHECK(mask == 1 && count == 1 && found[0] == 2);
    OK(cgpc_impi_values(client, IMPI_C_NHOSTS, NULL, bytes, sizeof bytes, &count));
    CHECK(count == 4 && memcmp(bytes, "\0\0\0\2", 4) == 0);
    count = 0;
    IS(CGPC_ERR_TRUNCATED, cgpc_impi_values_int4(client, IMPI_C_NHOSTS, NULL, NULL, 0, &count));
    CHECK(count == 1);
    IS(CGPC_ERR_TRUNCATED, cgpc_impi_values(client, IMPI_C_NHOSTS, NULL, bytes, 3, &count));
    IS(CGPC_ERR_DATA, cgpc_impi_values_uint8(client, IMPI_C_NHOSTS, NULL, pids, 2, &count));
    OK(cgpc_impi_exchange_uint8(client, IMPI_P_PID, &pid, 1, LIMIT_US));
    OK(cgpc_impi_values_uint8(client, IMPI_P_PID, NULL, pids, 2, &count));
    CHECK(count == 1 && pids[0] == pid);
    /* A label of one's own. */
    OK(polled(says(), says));
    OK(cgpc_impi_values(client, 0x9000, &mask, bytes, sizeof bytes, &count));
    CHECK(mask == 1 && count == 4 && memcmp(bytes, "mine", 4) == 0);
    IS(CGPC_ERR_STATE, cgpc_impi_fini(client, 0));
    OK(polled(ends(), ends));
    IS(CGPC_ERR_STATE, cgpc_impi_exchange(client, 0x9002, "x", 1, 0));
    OK(polled(leaves(), leaves));
    OK(cgpc_impi_fini(client, 0));
    OK(cgpc_impi_values(client, 0x9000, &mask, bytes, sizeof bytes, &count));
    OK(cgpc_impi_free(client));
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_free(client));
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_join(client, 0, NULL));
}

/* Of a session of two, whose other client does not come. */
static void shared(const char *server) {
    pthread_t thread;
    void *result;
    int status, busy = 0;
    pid_t child;
    client = connected(server);
    while (cgpc_impi_join(client, 1000000, NULL) == CGPC_PENDING) {
    }
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    while (!busy) busy = cgpc_impi_fd(client, &status, NULL) == CGPC_ERR_BUSY;
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        IS(CGPC_ERR_FORKED, cgpc_impi_done(client, 0));
        IS(CGPC_ERR_FORKED, cgpc_impi_free(client));
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(pthread_join(thread, &result) == 0 && (intptr_t)result == CGPC_PENDING);
    /* The child has not touched the connection. */
    IS(CGPC_PENDING, cgpc_impi_exchange(client, 0x9001, NULL, 0, 0));
    OK(cgpc_impi_free(client));
}

int main(void) {
    cgpc_impi_options options = {.size = sizeof options};
    cgpc_impi *none = NULL;
    alone(getenv("SERVER"));
    shared(getenv("SERVER_OF_TWO"));
    /* A server that says nothing, one that closes, and one that sends nonsense. */
    client = connected(getenv("SILENT"));
    LASTS(50000, CGPC_PENDING, cgpc_impi_join(client, 50000, NULL));
    OK(cgpc_impi_free(client));
    client = connected(getenv("CLOSING"));
    IS(CGPC_ERR_SERVER, cgpc_impi_join(client, LIMIT_US, NULL));
    IS(CGPC_ERR_SERVER, cgpc_impi_join(client, LIMIT_US, NULL));
    IS(CGPC_ERR_SERVER, cgpc_impi_done(client, LIMIT_US));
    OK(cgpc_impi_free(client));
    client = connected(getenv("NONSENSE"));
    IS(CGPC_ERR_SERVER, cgpc_impi_join(client, LIMIT_US, NULL));
    CHECK(strstr(cgpc_last_message(), "is it an IMPI server?") != NULL);
    OK(cgpc_impi_free(client));
    /* Wrong options. */
    options.rank = 32;
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_connect("127.0.0.1:1", &options, 1000000, &none));
    options.rank = 0;
    options.key = "no number";
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_connect("127.0.0.1:1", &options, 1000000, &none));
    options.key = "17";
    options.without_key = 7;
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_connect("127.0.0.1:1", &options, 1000000, &none));
    options.without_key = 1;
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_connect("no port", &options, 1000000, &none));
    IS(CGPC_ERR_SERVER, cgpc_impi_connect("nowhere.invalid:1", &options, 1000000, &none));
    options.size = 3;
    IS(CGPC_ERR_ARGUMENT, cgpc_impi_connect("127.0.0.1:1", &options, 1000000, &none));
    CHECK(none == NULL);
    puts("done");
    return 0;
}
