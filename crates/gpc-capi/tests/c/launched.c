/* Processes of a launcher: each calls all, with a thread of the library or, with the argument `polled`, without one. */
#include "check.h"

static uint32_t finished;

static int me(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id = 0;
    (void)arg;
    OK(cgpc_request_me(request, &id));
    return cgpc_reply_set_data(reply, &id, sizeof id);
}

static int finish(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request;
    (void)reply;
    (void)arg;
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int main(int argc, char **argv) {
    cgpc_context *context;
    cgpc_options options;
    cgpc_function me_number = 0, finish_number = 0;
    cgpc_call_args args;
    cgpc_outcome *outcome;
    uint32_t id = 99, count = 0, other = 0;
    size_t replies = 0;
    int polled = argc > 1 && strcmp(argv[1], "polled") == 0;
    OK(cgpc_context_new(&context));
    OK(cgpc_register(context, "me", me, NULL, NULL, &me_number));
    OK(cgpc_register(context, "finish", finish, NULL, NULL, &finish_number));
    OK(cgpc_options_init(&options, sizeof options));
    options.flags = polled ? CGPC_POLLED : 0;
    OK(cgpc_start_launched(context, &options));
    /* libpmix has threads of its own. */
    CHECK(!polled || thread_count() == 1 || getenv("PMIX_RANK") != NULL);
    OK(cgpc_id(context, &id));
    OK(cgpc_count(context, &count));
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = me_number;
    args.id_count = count;
    OK(cgpc_call_run(context, &args, &outcome));
    OK(cgpc_outcome_reply_count(outcome, &replies));
    CHECK(replies == count);
    OK(cgpc_outcome_free(outcome));
    if (id > 0) {
        args.func = finish_number;
        args.ids = &other;
        args.id_count = 1;
        args.flags = CGPC_WATCH;
        OK(cgpc_call_run(context, &args, NULL));
        OK(cgpc_serve(context));
    }
    while (id == 0 && __atomic_load_n(&finished, __ATOMIC_SEQ_CST) < count - 1) {
        if (polled) {
            OK(cgpc_progress(context, 0, NULL));
        } else {
            usleep(1000);
        }
    }
    OK(cgpc_finalize(context, 1000000));
    if (id == 0) {
        puts("done");
    }
    return 0;
}
