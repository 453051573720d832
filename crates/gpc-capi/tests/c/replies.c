/* Replies as they arrive. */
#include "check.h"

#define NODES 4

/* Ids other than the last reply at once; the last one keeps its token until the test answers. */
static cgpc_token *kept;

static int keeps(const cgpc_request *request, cgpc_token *token, void *arg) {
    uint32_t me = 0;
    (void)arg;
    CHECK(cgpc_request_me(request, &me) == CGPC_OK);
    if (me < NODES - 1) {
        return cgpc_token_reply(token, "h", 1, &me, sizeof me);
    }
    __atomic_store_n(&kept, token, __ATOMIC_SEQ_CST);
    return 0;
}

static int hello(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    (void)arg;
    OK(cgpc_request_me(request, &me));
    return cgpc_reply_set_data(reply, &me, sizeof me);
}

/* Takes the next reply, which is complete, and returns its id. */
static uint32_t next(cgpc_call *call, const char *header) {
    uint32_t id = 99, in_data = 99;
    int state = 99;
    const void *head = NULL, *data = NULL;
    size_t head_len = 99, data_len = 99;
    OK(cgpc_call_next_reply(call, CGPC_FOREVER, &id, &state, &head, &head_len, &data, &data_len));
    CHECK(state == CGPC_DONE && data_len == sizeof in_data && head_len == strlen(header));
    CHECK(memcmp(head, header, head_len) == 0);
    memcpy(&in_data, data, sizeof in_data);
    CHECK(in_data == id);
    return id;
}

static cgpc_function keeps_number, hello_number;

static void start_nodes(cgpc_context **contexts, uint32_t flags) {
    for (int id = 0; id < NODES; id++) {
        OK(cgpc_context_new(&contexts[id]));
        OK(cgpc_register_deferring(contexts[id], "keeps", keeps, NULL, NULL, &keeps_number));
        OK(cgpc_register(contexts[id], "hello", hello, NULL, NULL, &hello_number));
    }
    start_all(contexts, NODES, flags);
}

static cgpc_call *start(cgpc_context *context, cgpc_function func, uint32_t flags) {
    cgpc_call_args args;
    cgpc_call *call = NULL;
    cgpc_tree *tree = NULL;
    OK(cgpc_call_args_init(&args, sizeof args));
    OK(cgpc_tree_named(context, "flat", &tree));
    args.tree = tree;
    args.func = func;
    args.id_count = NODES;
    args.flags = flags;
    OK(cgpc_call_start(context, &args, &call));
    OK(cgpc_tree_free(tree));
    return call;
}

/* The replies of all but one id are there before that id has replied. */
static void as_they_arrive(cgpc_context *context) {
    cgpc_call *call = start(context, keeps_number, 0);
    cgpc_outcome *outcome = NULL;
    uint32_t seen = 0;
    cgpc_token *token;
    for (int i = 1; i < NODES - 1; i++) {
        seen |= 1u << next(call, "h");
    }
    CHECK(seen == 6);
    IS(CGPC_PENDING, cgpc_call_next_reply(call, 0, NULL, NULL, NULL, NULL, NULL, NULL));
    IS(CGPC_PENDING, cgpc_call_next_reply(call, 1000, NULL, NULL, NULL, NULL, NULL, NULL));
    while ((token = __atomic_load_n(&kept, __ATOMIC_SEQ_CST)) == NULL) {
    }
    uint32_t last = NODES - 1;
    OK(cgpc_token_reply(token, "h", 1, &last, sizeof last));
    CHECK(next(call, "h") == last);
    CHECK(next(call, "h") == 0);
    IS(CGPC_NONE, cgpc_call_next_reply(call, CGPC_FOREVER, NULL, NULL, NULL, NULL, NULL, NULL));
    OK(cgpc_call_wait(call, CGPC_FOREVER, &outcome));
    OK(cgpc_outcome_is_complete(outcome));
    OK(cgpc_outcome_free(outcome));
    IS(CGPC_ERR_STATE, cgpc_call_next_reply(call, 0, NULL, NULL, NULL, NULL, NULL, NULL));
    OK(cgpc_call_free(call));
}

/* After a test of the call, the replies that have not been taken are in the outcome alone: they came again. */
static void after_a_test(cgpc_context *context) {
    __atomic_store_n(&kept, NULL, __ATOMIC_SEQ_CST);
    cgpc_call *call = start(context, keeps_number, 0);
    cgpc_outcome *outcome = NULL;
    size_t count = 0;
    uint32_t last = NODES - 1;
    cgpc_token *token;
    next(call, "h");
    IS(CGPC_PENDING, cgpc_call_test(call, NULL));
    IS(CGPC_NONE, cgpc_call_next_reply(call, CGPC_FOREVER, NULL, NULL, NULL, NULL, NULL, NULL));
    while ((token = __atomic_load_n(&kept, __ATOMIC_SEQ_CST)) == NULL) {
    }
    OK(cgpc_token_reply(token, "h", 1, &last, sizeof last));
    OK(cgpc_call_wait(call, CGPC_FOREVER, &outcome));
    OK(cgpc_outcome_reply_count(outcome, &count));
    CHECK(count == NODES);
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_call_free(call));
}

/* An id that is lost has no reply; cancelling ends the rest. */
static void without_one(cgpc_context *context) {
    cgpc_call *call = start(context, hello_number, CGPC_PARTIAL);
    int lost = 0, replies = 0, state = 99;
    uint32_t id = 99;
    const void *data = &id;
    while (cgpc_call_next_reply(call, CGPC_FOREVER, &id, &state, NULL, NULL, &data, NULL) == CGPC_OK) {
        CHECK((state == CGPC_DONE) == (data != NULL));
        if (state == CGPC_DONE) {
            replies++;
        } else {
            CHECK(id == 2);
            lost++;
        }
    }
    CHECK(replies == NODES - 1 && lost == 1);
    OK(cgpc_call_free(call));
    call = start(context, keeps_number, 0);
    OK(cgpc_call_cancel(call));
    while (cgpc_call_next_reply(call, CGPC_FOREVER, NULL, NULL, NULL, NULL, NULL, NULL) == CGPC_OK) {
    }
    IS(CGPC_ERR_CALL, cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
}

/* On a polled context the caller drives the node; replies that were not taken are in the outcome. */
static void polled(void) {
    cgpc_context *contexts[NODES];
    cgpc_outcome *outcome = NULL;
    size_t count = 0;
    start_nodes(contexts, CGPC_POLLED);
    cgpc_call *call = start(contexts[0], hello_number, 0);
    next(call, "");
    OK(cgpc_call_wait(call, CGPC_FOREVER, &outcome));
    OK(cgpc_outcome_reply_count(outcome, &count));
    CHECK(count == NODES);
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_call_free(call));
    finalize_all(contexts, NODES);
}

int main(void) {
    cgpc_context *contexts[NODES];
    start_nodes(contexts, 0);
    as_they_arrive(contexts[0]);
    after_a_test(contexts[0]);
    OK(cgpc_finalize(contexts[2], 1000000));
    without_one(contexts[0]);
    for (int id = 0; id < NODES; id++) {
        if (id != 2) {
            OK(cgpc_finalize(contexts[id], 1000000));
        }
    }
    polled();
    puts("done");
    return 0;
}
