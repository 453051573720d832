/* A polled context: no thread of the library in the process, an event loop, calls from functions, a pause. */
#include <poll.h>

#include "check.h"

static int hello(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    (void)arg;
    OK(cgpc_request_me(request, &me));
    return cgpc_reply_set_data(reply, &me, sizeof me);
}

static const cgpc_request *old_request;
static cgpc_reply *old_reply;

/* The handles of the call before are invalid, on the thread that ran it too, and while this function has its own. */
static int keeps(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    int *runs = (int *)arg;
    if (old_request != NULL) {
        IS(CGPC_ERR_ARGUMENT, cgpc_request_me(old_request, &me));
        IS(CGPC_ERR_ARGUMENT, cgpc_reply_set_data(old_reply, "old", 3));
    }
    OK(cgpc_request_me(request, &me));
    old_request = request;
    old_reply = reply;
    (*runs)++;
    return 0;
}

static int ended = 99;

static void on_end(int status, cgpc_outcome *outcome, void *arg) {
    CHECK(arg == &ended && outcome != NULL);
    OK(cgpc_outcome_free(outcome));
    ended = status;
}

static cgpc_function hello_number;

/* A function on the thread that drives: it cannot wait or drive, but it can start calls. */
static int nested(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    cgpc_context *context = NULL;
    cgpc_call_args args;
    cgpc_call *call = NULL;
    (void)reply;
    OK(cgpc_request_context(request, &context));
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = hello_number;
    args.id_count = 1;
    IS(CGPC_ERR_DEADLOCK, cgpc_progress(context, 0, NULL));
    IS(CGPC_ERR_DEADLOCK, cgpc_call_run(context, &args, NULL));
    IS(CGPC_ERR_DEADLOCK, cgpc_finalize(context, 0));
    OK(cgpc_call_start(context, &args, &call));
    IS(CGPC_ERR_DEADLOCK, cgpc_call_wait(call, 1000, NULL));
    IS(CGPC_ERR_DEADLOCK, cgpc_call_next_reply(call, 1000, NULL, NULL, NULL, NULL, NULL, NULL));
    OK(cgpc_call_on_end(call, on_end, arg));
    return 0;
}

int main(void) {
    cgpc_context *contexts[2], *alone;
    cgpc_function nested_number = 0;
    cgpc_options options;
    cgpc_call_args args;
    cgpc_outcome *outcome = NULL;
    cgpc_call *call;
    struct pollfd waits;
    uint32_t id;
    size_t items;
    int status, runs = 0;

    OK(cgpc_context_new(&alone));
    OK(cgpc_register(alone, "hello", hello, NULL, NULL, &hello_number));
    OK(cgpc_options_init(&options, sizeof options));
    options.flags = CGPC_POLLED;
    options.workers = 4;
    OK(cgpc_start(alone, &options));
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = hello_number;
    args.id_count = 1;
    OK(cgpc_call_run(alone, &args, NULL));
    CHECK(thread_count() == 1);
    OK(cgpc_register(alone, "keeps", keeps, &runs, NULL, &args.func));
    OK(cgpc_call_run(alone, &args, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_request_me(old_request, &id));
    OK(cgpc_call_run(alone, &args, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_reply_set_data(old_reply, "old", 3));
    CHECK(runs == 2);
    args.func = hello_number;
    OK(cgpc_finalize(alone, 1000000));

    for (id = 0; id < 2; id++) {
        OK(cgpc_context_new(&contexts[id]));
        OK(cgpc_register(contexts[id], "hello", hello, NULL, NULL, &hello_number));
        OK(cgpc_register(contexts[id], "nested", nested, &ended, NULL, &nested_number));
    }
    start_all(contexts, 2, CGPC_POLLED);
    OK(cgpc_fd(contexts[0], &waits.fd));
    waits.events = POLLIN;
    args.id_count = 2;
    OK(cgpc_call_start(contexts[0], &args, &call));
    while ((status = cgpc_call_test(call, &outcome)) == CGPC_PENDING) {
        /* A loop that was about to sleep, and did not: no event is lost. */
        status = cgpc_arm(contexts[0]);
        CHECK(status == CGPC_OK || status == CGPC_PENDING);
        OK(cgpc_disarm(contexts[0]));
        OK(cgpc_disarm(contexts[0]));
        status = cgpc_arm(contexts[0]);
        CHECK(status == CGPC_OK || status == CGPC_PENDING);
        if (status == CGPC_OK) {
            CHECK(poll(&waits, 1, 10000) == 1);
        }
        OK(cgpc_progress(contexts[0], 16, &items));
    }
    CHECK(status == CGPC_OK);
    OK(cgpc_outcome_is_complete(outcome));
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_call_free(call));

    args.func = nested_number;
    args.id_count = 1;
    OK(cgpc_call_run(contexts[0], &args, NULL));
    while (ended == 99) {
        OK(cgpc_progress(contexts[0], 0, NULL));
    }
    CHECK(ended == CGPC_OK);
    OK(cgpc_pause(contexts[0], 1000000));
    IS(CGPC_ERR_SYSTEM, cgpc_pause(contexts[0], (uint64_t)3600 * 1000000));
    /* Links, functions and pauses have started none: two are of the other context, for its node, and to guard its functions. */
    CHECK(thread_count() == 3);
    finalize_all(contexts, 2);
    /* The system lists a thread a moment longer than it runs: less than the 10 seconds that this waits. */
    for (status = 0; thread_count() > 1 && status < 10000; status++) {
        usleep(1000);
    }
    CHECK(thread_count() == 1);
    puts("done");
    return 0;
}
