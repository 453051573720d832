/* Two processes that have nothing but a pair of pipes: their messages go through these.
 *
 *     cc network_pipes.c $(pkg-config --cflags --libs chained_gpc) -o pipes && ./pipes */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

#define LENGTH (1 << 20)

typedef struct {
    cgpc_context *context;
    uint32_t id;
    int in, out, waits, ended;
    cgpc_function back, stop;
} process;

/* A pipe takes so few bytes whole or not at all: the length of the message, and the message. */
static int send_message(uint32_t to, const cgpc_part *parts, size_t count, void *arg) {
    process *self = arg;
    struct iovec all[32];
    uint32_t length = 0;
    size_t part;
    (void)to;
    if (count >= 32) {
        return -1;
    }
    for (part = 0; part < count; part++) {
        all[part + 1].iov_base = (void *)parts[part].bytes;
        all[part + 1].iov_len = parts[part].length;
        length += (uint32_t)parts[part].length;
    }
    all[0].iov_base = &length;
    all[0].iov_len = sizeof length;
    if (writev(self->out, all, (int)count + 1) >= 0) {
        return 0;
    }
    self->waits = errno == EAGAIN;
    return self->waits ? CGPC_WOULD_BLOCK : -1;
}

static int take(int in, void *place, size_t length) {
    size_t at = 0;
    while (at < length) {
        ssize_t count = read(in, (char *)place + at, length - at);
        if (count <= 0) {
            return 0;
        }
        at += (size_t)count;
    }
    return 1;
}

static void receive(process *self) {
    char message[PIPE_BUF];
    uint32_t length;
    if (take(self->in, &length, sizeof length) && length <= sizeof message && take(self->in, message, length)) {
        must(cgpc_deliver(self->context, !self->id, message, length));
        return;
    }
    self->ended = 1;
    must(cgpc_peer_lost(self->context, !self->id, "its end of the pipe is closed"));
}

/* Waits for the pipes and for the library, and does what there is to do. */
static void turn(process *self) {
    struct pollfd polled[3] = {{.fd = self->ended ? -1 : self->in, .events = POLLIN}, {.fd = -1}, {.fd = -1}};
    int sleeps;
    if (self->waits) {
        polled[1].fd = self->out;
        polled[1].events = POLLOUT;
    }
    must(cgpc_fd(self->context, &polled[2].fd));
    polled[2].events = POLLIN;
    sleeps = must(cgpc_arm(self->context)) == CGPC_OK;
    if (poll(polled, 3, sleeps ? -1 : 0) < 0 && errno != EINTR) {
        exit(1);
    }
    if (polled[0].revents) {
        receive(self);
    }
    if (polled[1].revents) {
        self->waits = 0;
        must(cgpc_writable(self->context, !self->id));
    }
    must(cgpc_progress(self->context, 0, NULL));
}

/* Replies with the data of the request. */
static int back(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data;
    size_t length;
    (void)arg;
    must(cgpc_request_data(request, &data, &length));
    return cgpc_reply_set_data(reply, data, length);
}

static int stop(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me;
    (void)reply;
    must(cgpc_request_me(request, &me));
    ((process *)arg)->ended = me == 1;
    return 0;
}

/* The status of a call of one function at id 1. */
static int call(process *self, cgpc_function func, const void *data, size_t length, cgpc_outcome **outcome) {
    uint32_t one = 1;
    cgpc_call_args args = {.size = sizeof args, .func = func, .ids = &one, .id_count = 1};
    cgpc_call *started;
    int status;
    args.flags = CGPC_WATCH;
    args.data = data;
    args.data_len = length;
    must(cgpc_call_start(self->context, &args, &started));
    while ((status = cgpc_call_test(started, outcome)) == CGPC_PENDING) {
        turn(self);
    }
    cgpc_call_free(started);
    return status;
}

static int asks(process *self) {
    static char text[LENGTH];
    const void *data;
    size_t length;
    int right;
    cgpc_outcome *outcome;
    memset(text, 'x', sizeof text);
    must(call(self, self->back, text, sizeof text, &outcome));
    must(cgpc_outcome_reply(outcome, 1, NULL, NULL, &data, &length));
    right = length == sizeof text && memcmp(data, text, length) == 0;
    cgpc_outcome_free(outcome);
    must(call(self, self->stop, NULL, 0, &outcome));
    cgpc_outcome_free(outcome);
    while (!self->ended) {
        turn(self);
    }
    /* Nobody is there any more, and the error says so. */
    right = right && call(self, self->back, NULL, 0, &outcome) == CGPC_ERR_CALL;
    cgpc_outcome_free(outcome);
    printf("%d bytes through pipes and back: %s\n", LENGTH, right ? "right" : "wrong");
    return right;
}

int main(void) {
    int there[2], here[2], right = 1;
    process self = {0};
    cgpc_network network = {.size = sizeof network, .count = 2, .send = send_message, .arg = &self};
    cgpc_options options = {.size = sizeof options, .flags = CGPC_POLLED};
    pid_t child;
    if (pipe(there) != 0 || pipe(here) != 0 || (child = fork()) < 0) {
        return 1;
    }
    self.id = child == 0;
    self.in = child == 0 ? there[0] : here[0];
    self.out = child == 0 ? here[1] : there[1];
    close(child == 0 ? there[1] : here[1]);
    close(child == 0 ? here[0] : there[0]);
    /* To write where nobody reads is an error, and not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    fcntl(self.out, F_SETFL, O_NONBLOCK);
    network.id = self.id;
    network.message_max = PIPE_BUF - sizeof(uint32_t);
    must(cgpc_context_new(&self.context));
    must(cgpc_register(self.context, "back", back, NULL, NULL, &self.back));
    must(cgpc_register(self.context, "stop", stop, &self, NULL, &self.stop));
    must(cgpc_start_network(self.context, &network, &options));
    if (self.id == 0) {
        right = asks(&self);
    } else {
        while (!self.ended) {
            turn(&self);
        }
    }
    /* What is still to be written gets a second. */
    must(cgpc_finalize(self.context, 1000000));
    if (self.id == 0) {
        waitpid(child, NULL, 0);
    }
    return !right;
}
