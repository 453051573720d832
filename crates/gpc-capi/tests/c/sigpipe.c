/* A peer dies while much is to be sent to it: the call fails, and no SIGPIPE ends this process, as it would by default.
 * The same holds for a rendezvous service. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"
#include "gpc_rendezvous.h"

#define LONG 1000000
#define CALLS 32
#define TURNS 12

static int nothing(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request;
    (void)reply;
    (void)arg;
    return 0;
}

/* Starts id `id` of two, on links of a kind. */
static cgpc_context *start(uint32_t id, int link, const char *const *listen, uint32_t flags, cgpc_function *func) {
    cgpc_context *context;
    cgpc_options options;
    char peers[256];
    snprintf(peers, sizeof peers, "0 %s\n1 %s\n", listen[0], listen[1]);
    OK(cgpc_context_new(&context));
    OK(cgpc_register(context, "nothing", nothing, NULL, NULL, func));
    OK(cgpc_options_init(&options, sizeof options));
    options.id = id;
    options.listen = listen[id];
    options.peers = peers;
    options.link = link;
    options.flags = flags;
    OK(cgpc_start(context, &options));
    return context;
}

/* A process that answers until it is killed. */
static pid_t peer(int link, const char *const *listen) {
    pid_t child;
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        cgpc_function func;
        start(1, link, listen, 0, &func);
        CHECK(write(ends[1], "x", 1) == 1);
        for (;;) {
            pause();
        }
    }
    CHECK(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return child;
}

/* The peer dies at the `turn`-th turn of this process, which sends it much. */
static void dies(int link, const char *const *listen, int turn) {
    static const uint32_t one = 1;
    cgpc_context *context;
    cgpc_function func = 0;
    cgpc_call_args args;
    cgpc_call *calls[CALLS];
    char *data = calloc(1, LONG);
    int status, call;
    pid_t child = peer(link, listen);
    CHECK(data != NULL);
    context = start(0, link, listen, CGPC_POLLED, &func);
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.ids = &one;
    args.id_count = 1;
    args.flags = CGPC_WATCH;
    OK(cgpc_call_run(context, &args, NULL));
    args.header = "a header of its own part";
    args.header_len = 24;
    args.data = data;
    args.data_len = LONG;
    for (call = 0; call < CALLS; call++) {
        OK(cgpc_call_start(context, &args, &calls[call]));
    }
    for (; turn > 0; turn--) {
        OK(cgpc_progress(context, 1, NULL));
    }
    CHECK(kill(child, SIGKILL) == 0);
    for (call = 0; call < CALLS; call++) {
        status = cgpc_call_wait(calls[call], CGPC_FOREVER, NULL);
        CHECK(status == CGPC_OK || status == CGPC_ERR_CALL);
        OK(cgpc_call_free(calls[call]));
    }
    CHECK(waitpid(child, &status, 0) == child);
    OK(cgpc_finalize(context, 0));
    free(data);
}

/* A service that answers the first bytes of each connection, and closes it. It writes a byte to `told` then. */
static pid_t closing_service(uint16_t *port, int told) {
    static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    char bytes[4096];
    int one, listener = socket(AF_INET, SOCK_STREAM, 0);
    pid_t child;
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    *port = ntohs(address.sin_port);
    child = fork();
    CHECK(child >= 0);
    /* It ends with its parent, also if a signal ends that: otherwise the test would wait for its output. */
    CHECK(child != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    while (child == 0) {
        one = accept(listener, NULL, NULL);
        CHECK(one >= 0 && read(one, bytes, sizeof bytes) > 0);
        CHECK(write(one, answer, sizeof answer - 1) > 0);
        CHECK(close(one) == 0 && write(told, "x", 1) == 1);
    }
    close(listener);
    return child;
}

/* A client sends much over a connection that its service has closed after the request before. Such a request is written
 * in several pieces: the system sent SIGPIPE for the second one. */
static void service_closes(void) {
    cgpc_rendezvous_options options = {.size = sizeof options, .limit_us = 100000};
    cgpc_rendezvous_properties_of properties = {.size = sizeof properties};
    cgpc_rendezvous *client;
    char handle[CGPC_HANDLE_SIZE], *data = calloc(1, 8 * LONG), byte;
    int told[2], status;
    uint16_t port;
    pid_t child;
    CHECK(data != NULL && pipe(told) == 0);
    child = closing_service(&port, told[1]);
    snprintf(handle, sizeof handle, "http://127.0.0.1:%u/rendezvous?000102030405060708090a0b0c0d0e0f", (unsigned)port);
    OK(cgpc_rendezvous_new(&options, &client));
    IS(CGPC_ERR_SERVER, cgpc_rendezvous_properties(client, handle, &properties));
    CHECK(read(told[0], &byte, 1) == 1);
    IS(CGPC_ERR_SERVER, cgpc_rendezvous_register(client, handle, 0, "token", data, 8 * LONG, 0, NULL, NULL, NULL));
    OK(cgpc_rendezvous_free(client));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    free(data);
}

int main(void) {
    char listen[2][64];
    const char *names[2];
    uint32_t id;
    int turn;
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    service_closes();
    for (turn = 0; turn < TURNS; turn++) {
        for (id = 0; id < 2; id++) {
            snprintf(listen[id], sizeof listen[id], "unix:@capi-pipe-%ld-%u-%d", (long)getpid(), (unsigned)id, turn);
            names[id] = listen[id];
        }
        dies(CGPC_LINK_UNIX, names, turn);
        dies(CGPC_LINK_SHM, names, turn);
        /* Addresses of this process's own, on ports that the system does not give out. */
        for (id = 0; id < 2; id++) {
            snprintf(listen[id], sizeof listen[id], "127.%u.%u.%u:%u", (unsigned)(getpid() % 200 + 2), (unsigned)turn,
                     (unsigned)id + 1, 20000u + (unsigned)getpid() % 10000u);
        }
        dies(CGPC_LINK_TCP, names, turn);
    }
    puts("done");
    return 0;
}
