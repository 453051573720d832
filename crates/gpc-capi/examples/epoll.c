/* The event loop of a program drives the library: one epoll waits for the library and for a timer of the program's own.
 * The process has no other thread.
 *
 *     cc epoll.c $(pkg-config --cflags --libs chained_gpc) -o epoll && mpiexec -n 4 ./epoll */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "must.h"

#define TICKS 20

typedef struct {
    cgpc_context *context;
    cgpc_function greet, stop;
    uint32_t id, count;
    int ticks, ended, failed, stopped;
} program;

static int greet(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request;
    (void)arg;
    return cgpc_reply_set_data(reply, "hello", 5);
}

static int stop(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request;
    (void)reply;
    ((program *)arg)->stopped = 1;
    return 0;
}

/* Runs inside cgpc_progress when a call has ended. */
static void ended(int status, cgpc_outcome *outcome, void *arg) {
    program *self = arg;
    size_t replies = 0;
    self->ended++;
    if (status != CGPC_OK || cgpc_outcome_reply_count(outcome, &replies) != CGPC_OK || replies != self->count) {
        self->failed++;
    }
    cgpc_outcome_free(outcome);
}

/* Each tick of id 0 is a call to all; it goes on while the loop does other things. */
static void tick(program *self, int timer) {
    uint64_t times;
    if (read(timer, &times, sizeof times) == sizeof times && self->id == 0 && self->ticks < TICKS) {
        cgpc_call_args args = {.size = sizeof args, .func = self->greet, .id_count = self->count};
        cgpc_call *call;
        must(cgpc_call_start(self->context, &args, &call));
        must(cgpc_call_on_end(call, ended, self));
        self->ticks++;
    }
}

/* Waits for both, until all calls have ended at id 0, or id 0 has said so. */
static void loop(program *self, int timer) {
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC), fd;
    must(cgpc_fd(self->context, &fd));
    event.data.fd = fd;
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        exit(1);
    }
    event.data.fd = timer;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) != 0) {
        exit(1);
    }
    while (self->id == 0 ? self->ended < TICKS : !self->stopped) {
        struct epoll_event ready[2];
        /* The library may have work at once; then the loop only looks whether others have some, too. */
        int at, sleeps = must(cgpc_arm(self->context)) == CGPC_OK;
        int count = epoll_wait(epoll, ready, 2, sleeps ? -1 : 0);
        for (at = 0; at < count; at++) {
            if (ready[at].data.fd == timer) {
                tick(self, timer);
            }
        }
        /* At most so many messages, calls and replies at a time; the rest comes in the next turn. */
        must(cgpc_progress(self->context, 64, NULL));
    }
    close(epoll);
}

int main(void) {
    program self = {0};
    struct itimerspec every = {.it_interval.tv_nsec = 2000000, .it_value.tv_nsec = 1};
    cgpc_options options = {.size = sizeof options, .flags = CGPC_POLLED};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) != 0) {
        return 1;
    }
    must(cgpc_context_new(&self.context));
    must(cgpc_register(self.context, "greet", greet, NULL, NULL, &self.greet));
    must(cgpc_register(self.context, "stop", stop, &self, NULL, &self.stop));
    must(cgpc_start_launched(self.context, &options));
    must(cgpc_id(self.context, &self.id));
    must(cgpc_count(self.context, &self.count));
    loop(&self, timer);
    if (self.id == 0) {
        cgpc_call_args args = {.size = sizeof args, .func = self.stop, .id_count = self.count};
        must(cgpc_call_run(self.context, &args, NULL));
        printf("%d calls of %u processes, %d failed\n", self.ended, self.count, self.failed);
    }
    must(cgpc_serve(self.context));
    must(cgpc_finalize(self.context, 1000000));
    close(timer);
    return self.failed != 0;
}
