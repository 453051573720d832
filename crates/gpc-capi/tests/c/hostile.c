/* Wrong uses: null, wrong and freed handles, short buffers, wrong states, functions that finalize, several threads. */
#include <pthread.h>

#include "check.h"

#define WRONG(function) IS(CGPC_ERR_ARGUMENT, function)

static cgpc_context *shared;
static cgpc_function echo_number, nested_number, waits_number;

static const cgpc_request *stale_request;
static cgpc_reply *stale_reply;

static int echo(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data = NULL;
    size_t length = 0;
    (void)arg;
    if (cgpc_request_data(request, &data, &length) != CGPC_OK) {
        return 1;
    }
    return cgpc_reply_set_data(reply, data, length);
}

/* Keeps its handles, and uses wrong ones. */
static int keeps(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id;
    const void *data;
    size_t length;
    (void)arg;
    stale_request = request;
    stale_reply = reply;
    WRONG(cgpc_request_me((const cgpc_request *)reply, &id));
    WRONG(cgpc_request_me(request, NULL));
    WRONG(cgpc_request_data(request, NULL, &length));
    WRONG(cgpc_request_data(request, &data, NULL));
    WRONG(cgpc_reply_set_data((cgpc_reply *)request, "", 0));
    WRONG(cgpc_reply_set_data(reply, NULL, 1));
    WRONG(cgpc_reply_set_data(reply, "x", (size_t)-1));
    IS(CGPC_ERR_LENGTH, cgpc_reply_resize(reply, (size_t)1 << 62, (void **)&data));
    WRONG(cgpc_reply_explain(reply, NULL));
    IS(CGPC_ERR_DEADLOCK, cgpc_finalize(shared, 0));
    return cgpc_reply_set_data(reply, NULL, 0) || cgpc_reply_set_header(reply, NULL, 0);
}

/* Waits for a call that needs the worker that waits. */
static int waits(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    cgpc_call_args args;
    cgpc_context *context = NULL;
    (void)arg;
    (void)reply;
    OK(cgpc_request_context(request, &context));
    CHECK(context == shared);
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = nested_number;
    args.id_count = 1;
    return cgpc_call_run(context, &args, NULL) == CGPC_ERR_DEADLOCK ? 0 : 1;
}

static void nulls(void) {
    cgpc_call *call;
    cgpc_outcome *outcome;
    cgpc_context *context;
    cgpc_tree *tree;
    cgpc_events *events;
    cgpc_call_args args;
    cgpc_options options;
    cgpc_error error;
    size_t length;
    uint32_t id;
    uint64_t number;
    memset(&error, 0, sizeof error);
    WRONG(cgpc_last_error(NULL));
    WRONG(cgpc_last_error(&error));
    WRONG(cgpc_options_init(NULL, sizeof options));
    WRONG(cgpc_options_init(&options, 3));
    WRONG(cgpc_options_init(&options, 1 << 20));
    OK(cgpc_options_init(&options, sizeof options));
    WRONG(cgpc_context_new(NULL));
    WRONG(cgpc_start(NULL, NULL));
    WRONG(cgpc_start_launched(NULL, NULL));
    WRONG(cgpc_start_exchange(NULL, NULL, NULL));
    WRONG(cgpc_finalize(NULL, 0));
    WRONG(cgpc_serve(NULL));
    IS(CGPC_ERR_UNSUPPORTED, cgpc_serve(shared));
    WRONG(cgpc_id(NULL, &id));
    WRONG(cgpc_address(NULL, NULL, 0, NULL));
    WRONG(cgpc_register(NULL, "x", echo, NULL, NULL, NULL));
    WRONG(cgpc_register(shared, NULL, echo, NULL, NULL, NULL));
    WRONG(cgpc_register(shared, "\xff", echo, NULL, NULL, NULL));
    WRONG(cgpc_register(shared, "x", NULL, NULL, NULL, NULL));
    WRONG(cgpc_register_callback(shared, "x", NULL, NULL, NULL, NULL));
    WRONG(cgpc_register_phased(shared, "x", NULL, NULL, NULL, NULL));
    WRONG(cgpc_register_deferring(shared, "x", NULL, NULL, NULL, NULL));
    WRONG(cgpc_register_streaming(shared, "x", NULL, NULL, NULL, NULL));
    IS(CGPC_ERR_FUNCTION, cgpc_register(shared, "", echo, NULL, NULL, NULL));
    WRONG(cgpc_function_named(shared, NULL, 0, &number));
    WRONG(cgpc_release(NULL, 1));
    IS(CGPC_ERR_FUNCTION, cgpc_release(shared, 1));
    OK(cgpc_call_args_init(&args, sizeof args));
    WRONG(cgpc_call_start(shared, NULL, &call));
    WRONG(cgpc_call_start(shared, &args, NULL));
    WRONG(cgpc_call_run(NULL, &args, &outcome));
    args.size = 3;
    WRONG(cgpc_call_run(shared, &args, &outcome));
    WRONG(cgpc_call_wait(NULL, 0, &outcome));
    WRONG(cgpc_call_test(NULL, &outcome));
    WRONG(cgpc_call_on_end(NULL, NULL, NULL));
    WRONG(cgpc_call_cancel(NULL));
    WRONG(cgpc_call_detach(NULL));
    WRONG(cgpc_call_free(NULL));
    WRONG(cgpc_outcome_free(NULL));
    WRONG(cgpc_outcome_level(NULL, NULL));
    WRONG(cgpc_outcome_ids(NULL, CGPC_DONE, NULL, 0, NULL));
    WRONG(cgpc_tree_named(shared, "binary", NULL));
    WRONG(cgpc_tree_register(shared, "x", NULL, NULL, NULL));
    WRONG(cgpc_tree_from_parents(NULL, 3, &tree));
    WRONG(cgpc_tree_from_children(3, NULL, NULL, &tree));
    IS(CGPC_ERR_TREE, cgpc_tree_from_parents(NULL, 0, &tree));
    WRONG(cgpc_tree_free(NULL));
    WRONG(cgpc_token_reply(NULL, NULL, 0, NULL, 0));
    WRONG(cgpc_token_fail(NULL, 1, NULL));
    WRONG(cgpc_token_free(NULL));
    WRONG(cgpc_request_me(NULL, &id));
    WRONG(cgpc_reply_append(NULL, NULL, 0));
    WRONG(cgpc_progress(NULL, 0, NULL));
    WRONG(cgpc_arm(NULL));
    WRONG(cgpc_disarm(NULL));
    IS(CGPC_ERR_UNSUPPORTED, cgpc_disarm(shared));
    WRONG(cgpc_tree_release(NULL, "x"));
    WRONG(cgpc_tree_release(shared, NULL));
    IS(CGPC_ERR_TREE, cgpc_tree_release(shared, "binary"));
    WRONG(cgpc_learn(shared, 9, NULL, NULL));
    WRONG(cgpc_learn(shared, 9, "not an address", NULL));
    WRONG(cgpc_learn(shared, 0, "unix:@x", NULL));
    WRONG(cgpc_forget(NULL, 1));
    WRONG(cgpc_events_open(shared, NULL));
    WRONG(cgpc_events_next(NULL, 0, NULL));
    WRONG(cgpc_secret_read("/nonexistent", NULL, 0, &length));
    WRONG(cgpc_secret_random(NULL));
    WRONG(cgpc_key_public(NULL, NULL));
    WRONG(cgpc_level_each(0, "1 x", 3, NULL, NULL));
    WRONG(cgpc_level_count(0, "1 x", 3, NULL));
    IS(CGPC_ERR_DATA, cgpc_level_count(0, "2 x", 3, &number));
    (void)context;
    (void)events;
}

static void handles(void) {
    cgpc_context *context;
    cgpc_call_args args;
    cgpc_outcome *outcome;
    int memory[64];
    char text[4];
    size_t length = 0;
    uint32_t id;
    memset(memory, 0x41, sizeof memory);
    WRONG(cgpc_finalize((cgpc_context *)(void *)memory, 0));
    WRONG(cgpc_call_free((cgpc_call *)(uintptr_t)0x1234));
    WRONG(cgpc_outcome_free((cgpc_outcome *)(uintptr_t)-1));
    WRONG(cgpc_outcome_free((cgpc_outcome *)shared));
    WRONG(cgpc_tree_free((cgpc_tree *)shared));
    WRONG(cgpc_id((const cgpc_context *)&length, &id));

    OK(cgpc_context_new(&context));
    IS(CGPC_ERR_STATE, cgpc_id(context, &id));
    IS(CGPC_ERR_STATE, cgpc_progress(context, 0, NULL));
    OK(cgpc_call_args_init(&args, sizeof args));
    args.id_count = 1;
    IS(CGPC_ERR_FUNCTION, cgpc_call_run(context, &args, &outcome));
    OK(cgpc_start(context, NULL));
    IS(CGPC_ERR_STATE, cgpc_start(context, NULL));
    IS(CGPC_NONE, cgpc_address(context, text, sizeof text, NULL));
    IS(CGPC_ERR_UNSUPPORTED, cgpc_progress(context, 0, NULL));
    OK(cgpc_finalize(context, 0));
    WRONG(cgpc_finalize(context, 0));
    WRONG(cgpc_id(context, &id));
    WRONG(cgpc_call_run(context, &args, &outcome));
    WRONG(cgpc_register(context, "x", echo, NULL, NULL, NULL));

    IS(CGPC_ERR_TRUNCATED, cgpc_address(shared, text, sizeof text, &length));
    CHECK(length > 4 && strcmp(text, "uni") == 0);
    IS(CGPC_ERR_TRUNCATED, cgpc_address(shared, NULL, 0, &length));
    WRONG(cgpc_address(shared, NULL, 5, &length));
}

static void releases(void *arg) {
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void calls(cgpc_function kept) {
    static const uint32_t twice[] = {0, 0};
    cgpc_call_args args, grown;
    cgpc_outcome *outcome;
    struct { cgpc_call_args args; char more[64]; } larger;
    uint32_t id;
    cgpc_call *call;
    char memory = 'x';
    int released = 0;
    char *header = calloc(1, 70000);
    CHECK(header != NULL);
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = echo_number;
    args.id_count = 1;
    grown = args;
    grown.flags = 1u << 31;
    WRONG(cgpc_call_run(shared, &grown, NULL));
    grown = args;
    grown.ids = twice;
    grown.id_count = 2;
    IS(CGPC_ERR_IDS, cgpc_call_run(shared, &grown, NULL));
    grown = args;
    grown.id_count = 0;
    IS(CGPC_ERR_IDS, cgpc_call_run(shared, &grown, NULL));
    grown.first_id = 2;
    grown.id_count = (size_t)-1;
    IS(CGPC_ERR_IDS, cgpc_call_run(shared, &grown, NULL));
    grown = args;
    grown.callback = echo_number;
    IS(CGPC_ERR_FUNCTION, cgpc_call_run(shared, &grown, NULL));
    grown = args;
    grown.header = header;
    grown.header_len = 70000;
    IS(CGPC_ERR_LENGTH, cgpc_call_run(shared, &grown, NULL));
    grown = args;
    grown.data_len = 1;
    WRONG(cgpc_call_run(shared, &grown, NULL));
    free(header);
    /* Data that are lent are released with every error but a wrong argument. */
    grown = args;
    grown.data = &memory;
    grown.data_len = 1;
    grown.data_release = releases;
    grown.data_release_arg = &released;
    grown.id_count = (size_t)-1;
    IS(CGPC_ERR_IDS, cgpc_call_run(shared, &grown, NULL));
    CHECK(released == 1);
    grown.id_count = 1;
    grown.func = 12345;
    IS(CGPC_ERR_FUNCTION, cgpc_call_run(shared, &grown, NULL));
    CHECK(released == 2);
    grown.func = echo_number;
    grown.flags = 1u << 31;
    WRONG(cgpc_call_run(shared, &grown, NULL));
    CHECK(released == 2);
    /* Times that never pass. */
    grown = args;
    grown.limit_us = UINT64_MAX;
    OK(cgpc_call_start(shared, &grown, &call));
    OK(cgpc_call_wait(call, UINT64_MAX - 1, NULL));
    OK(cgpc_call_free(call));
    grown.limit_us = 1;
    (void)cgpc_call_run(shared, &grown, NULL);
    /* A structure of a newer header: accepted while its new fields are zero. */
    memset(&larger, 0, sizeof larger);
    larger.args = args;
    larger.args.size = sizeof larger;
    OK(cgpc_call_run(shared, &larger.args, NULL));
    larger.more[3] = 1;
    WRONG(cgpc_call_run(shared, &larger.args, NULL));
    /* Handles of a function that has returned. */
    args.func = kept;
    OK(cgpc_call_run(shared, &args, &outcome));
    OK(cgpc_outcome_free(outcome));
    WRONG(cgpc_outcome_free(outcome));
    WRONG(cgpc_request_me(stale_request, &id));
    WRONG(cgpc_reply_set_data(stale_reply, "x", 1));
    args.func = waits_number;
    OK(cgpc_call_run(shared, &args, NULL));
}

/* Many threads use one context, one call and one outcome. */
static void *uses(void *arg) {
    int round;
    for (round = 0; round < 200; round++) {
        cgpc_call_args args;
        cgpc_outcome *outcome = NULL;
        const void *data;
        size_t length;
        OK(cgpc_call_args_init(&args, sizeof args));
        args.func = echo_number;
        args.id_count = 1;
        args.data = &round;
        args.data_len = sizeof round;
        OK(cgpc_call_run(shared, &args, &outcome));
        OK(cgpc_outcome_reply(outcome, 0, NULL, NULL, &data, &length));
        CHECK(length == sizeof round && memcmp(data, &round, length) == 0);
        OK(cgpc_outcome_free(outcome));
    }
    return arg;
}

static cgpc_call *common;

static void *waits_for_common(void *arg) {
    int status = cgpc_call_wait(common, CGPC_FOREVER, NULL);
    CHECK(status == CGPC_OK || status == CGPC_ERR_CALL || status == CGPC_ERR_BUSY || status == CGPC_ERR_STATE);
    return arg;
}

static void threads(void) {
    pthread_t running[4];
    cgpc_call_args args;
    int thread;
    for (thread = 0; thread < 4; thread++) {
        CHECK(pthread_create(&running[thread], NULL, uses, NULL) == 0);
    }
    for (thread = 0; thread < 4; thread++) {
        CHECK(pthread_join(running[thread], NULL) == 0);
    }
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = echo_number;
    args.id_count = 1;
    OK(cgpc_call_start(shared, &args, &common));
    for (thread = 0; thread < 4; thread++) {
        CHECK(pthread_create(&running[thread], NULL, waits_for_common, NULL) == 0);
    }
    OK(cgpc_call_cancel(common));
    for (thread = 0; thread < 4; thread++) {
        CHECK(pthread_join(running[thread], NULL) == 0);
    }
    OK(cgpc_call_free(common));
}

int main(void) {
    cgpc_function kept = 0;
    OK(cgpc_context_new(&shared));
    OK(cgpc_register(shared, "echo", echo, NULL, NULL, &echo_number));
    OK(cgpc_register(shared, "nested", echo, NULL, NULL, &nested_number));
    OK(cgpc_register(shared, "keeps", keeps, NULL, NULL, &kept));
    OK(cgpc_register(shared, "waits", waits, NULL, NULL, &waits_number));
    start_all(&shared, 1, 0);
    nulls();
    handles();
    calls(kept);
    threads();
    OK(cgpc_finalize(shared, CGPC_FOREVER));
    CHECK(strcmp(cgpc_strerror(CGPC_ERR_FORKED), cgpc_strerror(12345)) != 0);
    puts("done");
    return 0;
}
