/* Inline functions take turns with those of the default workers; those of an executor delay no other function. */
#include "check.h"

static int begun, may_end, has_ended;

/* Occupies its worker until the test lets it end. */
static int occupies(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request, (void)reply, (void)arg;
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_end, __ATOMIC_SEQ_CST)) {
    }
    __atomic_store_n(&has_ended, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static int after(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    int ended = __atomic_load_n(&has_ended, __ATOMIC_SEQ_CST);
    (void)request, (void)arg;
    return cgpc_reply_set_data(reply, &ended, sizeof ended);
}

/* Calls an inline function while another function is occupied, and returns whether the latter had ended. */
static int ended_before(cgpc_context *context, cgpc_function occupied, cgpc_function inlined, int waits) {
    cgpc_call_args args;
    cgpc_call *long_call, *short_call;
    cgpc_outcome *outcome = NULL;
    const void *data;
    size_t length;
    int ended = 9;
    begun = may_end = has_ended = 0;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.id_count = 1;
    args.func = occupied;
    OK(cgpc_call_start(context, &args, &long_call));
    while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST)) {
    }
    args.func = inlined;
    OK(cgpc_call_start(context, &args, &short_call));
    if (waits) {
        IS(CGPC_PENDING, cgpc_call_wait(short_call, 20000, &outcome));
        __atomic_store_n(&may_end, 1, __ATOMIC_SEQ_CST);
    }
    OK(cgpc_call_wait(short_call, CGPC_FOREVER, &outcome));
    __atomic_store_n(&may_end, 1, __ATOMIC_SEQ_CST);
    OK(cgpc_outcome_reply(outcome, 0, NULL, NULL, &data, &length));
    CHECK(length == sizeof ended);
    memcpy(&ended, data, sizeof ended);
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_call_free(short_call));
    OK(cgpc_call_wait(long_call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(long_call));
    return ended;
}

int main(void) {
    cgpc_context *context;
    cgpc_executor executor = {"long", 1};
    cgpc_function_options options;
    cgpc_options started;
    cgpc_function by_default = 0, apart = 0, inlined = 0;
    OK(cgpc_context_new(&context));
    OK(cgpc_register(context, "by default", occupies, NULL, NULL, &by_default));
    OK(cgpc_function_options_init(&options, sizeof options));
    options.executor = "long";
    OK(cgpc_register(context, "apart", occupies, NULL, &options, &apart));
    OK(cgpc_function_options_init(&options, sizeof options));
    options.flags = CGPC_INLINE;
    OK(cgpc_register(context, "inline", after, NULL, &options, &inlined));
    OK(cgpc_options_init(&started, sizeof started));
    started.executors = &executor;
    started.executor_count = 1;
    OK(cgpc_start(context, &started));
    CHECK(ended_before(context, by_default, inlined, 1) == 1);
    CHECK(ended_before(context, apart, inlined, 0) == 0);
    OK(cgpc_finalize(context, 1000000));
    puts("done");
    return 0;
}
