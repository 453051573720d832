/* A forked child: the parent's handles are errors there, and neither use nor exit touches the parent's links. */
#include <sys/wait.h>

#include "check.h"

#define FORKED(function) IS(CGPC_ERR_FORKED, function)

static cgpc_context *contexts[2];
static cgpc_call *call;
static cgpc_outcome *outcome;
static cgpc_tree *tree;
static cgpc_events *events;

static int forks(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    int status = 0;
    uint32_t id;
    pid_t child;
    if (arg != NULL) {
        return cgpc_reply_set_data(reply, "x", 1);
    }
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FORKED(cgpc_request_me(request, &id));
        FORKED(cgpc_reply_set_data(reply, "y", 1));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return cgpc_reply_set_data(reply, "x", 1);
}

static void child(cgpc_function func) {
    cgpc_context *own;
    cgpc_function own_func = 0;
    cgpc_call_args args;
    cgpc_outcome *made;
    cgpc_event event;
    uint32_t id;
    size_t length;
    FORKED(cgpc_id(contexts[0], &id));
    FORKED(cgpc_register(contexts[0], "more", forks, NULL, NULL, NULL));
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = 2;
    FORKED(cgpc_call_run(contexts[0], &args, NULL));
    FORKED(cgpc_call_run(contexts[1], &args, NULL));
    FORKED(cgpc_call_wait(call, CGPC_FOREVER, NULL));
    FORKED(cgpc_call_cancel(call));
    FORKED(cgpc_call_free(call));
    FORKED(cgpc_outcome_reply_count(outcome, &length));
    FORKED(cgpc_outcome_free(outcome));
    FORKED(cgpc_tree_free(tree));
    FORKED(cgpc_progress(contexts[1], 0, NULL));
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    FORKED(cgpc_events_next(events, 0, &event));
    FORKED(cgpc_finalize(contexts[0], 1000000));
    FORKED(cgpc_finalize(contexts[1], 1000000));
    /* A context of its own. */
    OK(cgpc_context_new(&own));
    OK(cgpc_register(own, "own", forks, (void *)&own, NULL, &own_func));
    OK(cgpc_start(own, NULL));
    args.func = own_func;
    args.id_count = 1;
    OK(cgpc_call_run(own, &args, &made));
    OK(cgpc_outcome_free(made));
    OK(cgpc_finalize(own, 1000000));
    exit(0);
}

int main(void) {
    cgpc_function func = 0;
    cgpc_call_args args;
    int round, status = 0;
    for (round = 0; round < 2; round++) {
        OK(cgpc_context_new(&contexts[round]));
        OK(cgpc_register(contexts[round], "forks", forks, round == 0 ? NULL : (void *)&func, NULL, &func));
    }
    start_all(contexts, 2, 0);
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = 2;
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    OK(cgpc_call_start(contexts[0], &args, &call));
    OK(cgpc_tree_from_parents((const uint32_t[]){CGPC_NO_PARENT, 0}, 2, &tree));
    OK(cgpc_events_open(contexts[0], &events));
    for (round = 0; round < 3; round++) {
        pid_t forked = fork();
        CHECK(forked >= 0);
        if (forked == 0) {
            child(func);
        }
        CHECK(waitpid(forked, &status, 0) == forked);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        /* The links are as they were. */
        OK(cgpc_outcome_free(outcome));
        OK(cgpc_call_run(contexts[0], &args, &outcome));
        OK(cgpc_outcome_is_complete(outcome));
    }
    OK(cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    finalize_all(contexts, 2);
    puts("done");
    return 0;
}
