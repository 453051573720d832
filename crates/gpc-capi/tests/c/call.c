/* A call over several contexts of one process: replies, level-n data, a callback, a failure, a partial call. */
#include "check.h"

static int name(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    char text[32];
    CHECK(cgpc_request_me(request, &me) == CGPC_OK);
    if (arg != NULL && me == *(const uint32_t *)arg) {
        CHECK(cgpc_reply_explain(reply, "not today") == CGPC_OK);
        return 17;
    }
    snprintf(text, sizeof text, "id %u", (unsigned)me);
    return cgpc_reply_set_data(reply, text, strlen(text));
}

static int join(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    (void)request;
    (void)arg;
    return cgpc_reply_append(own, ", ", 2) || cgpc_reply_append(own, child->data, child->data_len);
}

static void replies(cgpc_context *root, cgpc_function func, uint32_t count) {
    cgpc_call_args args;
    cgpc_outcome *outcome = NULL;
    uint32_t id;
    size_t index, length, replies = 0;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = count;
    OK(cgpc_call_run(root, &args, &outcome));
    OK(cgpc_outcome_is_complete(outcome));
    OK(cgpc_outcome_reply_count(outcome, &replies));
    CHECK(replies == count);
    for (index = 0; index < replies; index++) {
        const void *data;
        char expected[32];
        OK(cgpc_outcome_reply_at(outcome, index, &id, NULL, NULL, &data, &length));
        snprintf(expected, sizeof expected, "id %u", (unsigned)index);
        CHECK(id == index && length == strlen(expected) && memcmp(data, expected, length) == 0);
        OK(cgpc_outcome_reply(outcome, id, NULL, NULL, &data, &length));
    }
    IS(CGPC_NONE, cgpc_outcome_reply_at(outcome, replies, &id, NULL, NULL, NULL, NULL));
    OK(cgpc_outcome_free(outcome));
}

static void merged(cgpc_context *root, cgpc_function func, cgpc_function callback) {
    static const uint32_t ids[] = {0, 3, 1, 2};
    cgpc_call_args args;
    cgpc_outcome *outcome = NULL;
    char buffer[64];
    size_t length = sizeof buffer;
    const void *data;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.callback = callback;
    args.ids = ids;
    args.id_count = 4;
    OK(cgpc_call_run_into(root, &args, NULL, NULL, buffer, &length, NULL));
    CHECK(length == 22 && memcmp(buffer, "id 0, id 3, id 1, id 2", 22) == 0);
    /* A short buffer has the first bytes, and the outcome has all. */
    length = 4;
    IS(CGPC_ERR_TRUNCATED, cgpc_call_run_into(root, &args, NULL, NULL, buffer, &length, &outcome));
    CHECK(length == 22 && outcome != NULL);
    OK(cgpc_outcome_data(outcome, &data, &length));
    CHECK(length == 22 && memcmp(data, "id 0, id 3, id 1, id 2", 22) == 0);
    OK(cgpc_outcome_free(outcome));
}

static void failure(cgpc_context *root, cgpc_function func) {
    cgpc_call_args args;
    cgpc_outcome *outcome = NULL;
    cgpc_error error;
    cgpc_coverage coverage;
    int state = -1;
    size_t count = 9;
    uint32_t ids[4];
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = 4;
    IS(CGPC_ERR_CALL, cgpc_call_run(root, &args, &outcome));
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    OK(cgpc_last_error(&error));
    CHECK(error.status == CGPC_ERR_CALL && error.has_cause && error.id == 2 && error.code == 17);
    CHECK(error.stage == CGPC_STAGE_FUNC && error.kind == CGPC_KIND_FAILED && strstr(error.message, "not today"));
    IS(CGPC_ERR_CALL, cgpc_outcome_reply_count(outcome, &count));
    OK(cgpc_outcome_state(outcome, 2, &state));
    CHECK(state == CGPC_FAILED);
    OK(cgpc_outcome_free(outcome));

    args.flags = CGPC_PARTIAL;
    OK(cgpc_call_run(root, &args, &outcome));
    IS(CGPC_NONE, cgpc_outcome_is_complete(outcome));
    memset(&coverage, 0, sizeof coverage);
    coverage.size = sizeof coverage;
    OK(cgpc_outcome_coverage(outcome, &coverage));
    CHECK(coverage.done == 3 && coverage.failed == 1 && coverage.unreached == 0 && coverage.unknown == 0);
    OK(cgpc_outcome_ids(outcome, CGPC_FAILED, ids, 4, &count));
    CHECK(count == 1 && ids[0] == 2);
    IS(CGPC_ERR_TRUNCATED, cgpc_outcome_ids(outcome, CGPC_DONE, ids, 2, &count));
    CHECK(count == 3 && ids[0] == 0 && ids[1] == 1);
    OK(cgpc_outcome_cause(outcome, 2));
    IS(CGPC_NONE, cgpc_outcome_cause(outcome, 1));
    OK(cgpc_last_error(&error));
    CHECK(error.id == 2 && error.code == 17);
    IS(CGPC_NONE, cgpc_outcome_reply(outcome, 2, NULL, NULL, NULL, NULL));
    OK(cgpc_outcome_free(outcome));
}

/* One id: its reply is not framed as one of a list, as it was; a caller that only watches merges it into nothing. */
static void alone(cgpc_context *root, cgpc_function func, cgpc_function callback) {
    static const char *const expected[] = {"id 0", "id 1", "id 0", ", id 1"};
    cgpc_call_args args;
    uint32_t id, turn;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.ids = &id;
    args.id_count = 1;
    for (turn = 0; turn < 4; turn++) {
        char buffer[16], header[16];
        size_t length = sizeof buffer, header_length = sizeof header;
        id = turn % 2;
        args.flags = id == 0 ? 0 : CGPC_WATCH;
        args.callback = turn < 2 ? 0 : callback;
        OK(cgpc_call_run_into(root, &args, header, &header_length, buffer, &length, NULL));
        CHECK(length == strlen(expected[turn]) && header_length == 0);
        CHECK(memcmp(buffer, expected[turn], length) == 0);
    }
    args.flags = CGPC_NO_REPLY;
    id = 0;
    OK(cgpc_call_run_into(root, &args, NULL, NULL, NULL, NULL, NULL));
}

int main(void) {
    cgpc_context *contexts[4];
    cgpc_function func = 0, fails = 0, callback = 0, again = 0;
    static const uint32_t two = 2;
    uint32_t id;
    CHECK(cgpc_version() >= CGPC_VERSION);
    for (id = 0; id < 4; id++) {
        OK(cgpc_context_new(&contexts[id]));
        OK(cgpc_register(contexts[id], "name", name, NULL, NULL, &func));
        OK(cgpc_register(contexts[id], "fails", name, (void *)&two, NULL, &fails));
        OK(cgpc_register_callback(contexts[id], "join", join, NULL, NULL, &callback));
    }
    start_all(contexts, 4, 0);
    replies(contexts[0], func, 4);
    merged(contexts[0], func, callback);
    alone(contexts[0], func, callback);
    failure(contexts[0], fails);

    /* Released, and registered again while the context runs. */
    OK(cgpc_release(contexts[0], func));
    IS(CGPC_ERR_FUNCTION, cgpc_release(contexts[0], func));
    OK(cgpc_register(contexts[0], "name", name, NULL, NULL, &again));
    CHECK(again == func);
    replies(contexts[0], func, 4);
    finalize_all(contexts, 4);
    puts("done");
    return 0;
}
