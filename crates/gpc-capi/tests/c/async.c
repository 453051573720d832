/* Calls that are not waited for at once: test, limits, continuations, cancel, detach; tokens, streaming, trees. */
#include <pthread.h>

#include "check.h"

/* A reply of another thread. */
static void *answer(void *arg) {
    cgpc_token *token = (cgpc_token *)arg;
    int cancelled = 9;
    OK(cgpc_token_is_cancelled(token, &cancelled));
    CHECK(cancelled == 0);
    OK(cgpc_token_reply(token, "h", 1, "later", 5));
    IS(CGPC_ERR_ARGUMENT, cgpc_token_reply(token, NULL, 0, NULL, 0));
    return NULL;
}

static int defers(const cgpc_request *request, cgpc_token *token, void *arg) {
    pthread_t thread;
    (void)request;
    (void)arg;
    if (pthread_create(&thread, NULL, answer, token) != 0) {
        return 1;
    }
    return pthread_detach(thread);
}

/* Keeps the token until the test answers. */
static cgpc_token *kept[NODES_MAX];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static int keeps(const cgpc_request *request, cgpc_token *token, void *arg) {
    uint32_t me = 0;
    (void)arg;
    CHECK(cgpc_request_me(request, &me) == CGPC_OK);
    pthread_mutex_lock(&kept_lock);
    kept[me] = token;
    pthread_mutex_unlock(&kept_lock);
    return 0;
}

static cgpc_token *take(uint32_t id) {
    cgpc_token *token = NULL;
    while (token == NULL) {
        pthread_mutex_lock(&kept_lock);
        token = kept[id];
        kept[id] = NULL;
        pthread_mutex_unlock(&kept_lock);
    }
    return token;
}

static int refuses(const cgpc_request *request, cgpc_token *token, void *arg) {
    (void)request;
    (void)token;
    (void)arg;
    return 5;
}

/* Counts its data while they arrive. */
typedef struct { uint64_t bytes; } counted;
static int begins, releases;

static int begin(const cgpc_request *request, void **state, void *arg) {
    (void)arg;
    (void)request;
    *state = calloc(1, sizeof(counted));
    __atomic_add_fetch(&begins, 1, __ATOMIC_SEQ_CST);
    return *state == NULL;
}

static int segment(void *state, const void *bytes, size_t length) {
    CHECK(bytes != NULL && length > 0);
    ((counted *)state)->bytes += length;
    return 0;
}

static int finish(void *state, const cgpc_request *request, cgpc_reply *reply) {
    uint64_t length = 0;
    CHECK(cgpc_request_data_length(request, &length) == CGPC_OK && length == ((counted *)state)->bytes);
    return cgpc_reply_set_data(reply, &length, sizeof length);
}

static void release_state(void *state) {
    free(state);
    __atomic_add_fetch(&releases, 1, __ATOMIC_SEQ_CST);
}

static int parent(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id = 99;
    int status = cgpc_request_parent(request, &id);
    (void)arg;
    CHECK(status == CGPC_OK || status == CGPC_NONE);
    return cgpc_reply_set_data(reply, &id, sizeof id);
}

/* Executes and merges. */
static int count(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    uint32_t sum = 1, more;
    void *data;
    size_t length = 0;
    (void)request;
    (void)arg;
    if (child == NULL) {
        if (cgpc_reply_resize(own, sizeof sum, &data) != CGPC_OK) {
            return 1;
        }
        memcpy(data, &sum, sizeof sum);
        return 0;
    }
    CHECK(cgpc_reply_data(own, &data, &length) == CGPC_OK && length == sizeof sum);
    CHECK(child->data_len == sizeof more);
    memcpy(&sum, data, sizeof sum);
    memcpy(&more, child->data, sizeof more);
    sum += more;
    memcpy(data, &sum, sizeof sum);
    return 0;
}

static size_t star(uint32_t ids, uint32_t *groups, size_t capacity, void *arg) {
    size_t group;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
    for (group = 0; group < ids - 1 && group < capacity; group++) {
        groups[group] = 1;
    }
    return ids - 1;
}

static size_t heap(uint32_t position, uint32_t count, uint32_t *children, size_t capacity, void *arg) {
    size_t listed = 0;
    uint32_t child;
    (void)arg;
    for (child = 2 * position + 1; child <= 2 * position + 2 && child < count; child++) {
        if (listed < capacity) {
            children[listed] = child;
        }
        listed++;
    }
    return listed;
}

static size_t own_child(uint32_t position, uint32_t count, uint32_t *children, size_t capacity, void *arg) {
    (void)count;
    (void)arg;
    CHECK(capacity > 0);
    children[0] = position;
    return 1;
}

static cgpc_call_args args_of(cgpc_function func, size_t ids) {
    cgpc_call_args args;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = ids;
    return args;
}

static void parent_is(cgpc_outcome *outcome, uint32_t id, uint32_t expected) {
    const void *data;
    size_t length;
    uint32_t parent;
    OK(cgpc_outcome_reply(outcome, id, NULL, NULL, &data, &length));
    CHECK(length == sizeof parent);
    memcpy(&parent, data, sizeof parent);
    CHECK(parent == expected);
}

static int splits, trees_released;

static void release_tree(void *arg) {
    CHECK(arg == &splits);
    __atomic_add_fetch(&trees_released, 1, __ATOMIC_SEQ_CST);
}

/* A tree is released while a call uses it; the name can be registered again. */
static void released_trees(cgpc_context **contexts, cgpc_function keep, cgpc_function func) {
    cgpc_call_args args = args_of(keep, 4);
    cgpc_call *call;
    cgpc_tree *tree, *again;
    uint32_t id;
    OK(cgpc_tree_named(contexts[0], "star", &tree));
    args.tree = tree;
    OK(cgpc_call_start(contexts[0], &args, &call));
    for (id = 0; id < 4; id++) {
        OK(cgpc_token_reply(take(id), NULL, 0, NULL, 0));
        if (id == 0) {
            OK(cgpc_tree_release(contexts[0], "star"));
        }
    }
    OK(cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    CHECK(trees_released == 0);
    OK(cgpc_tree_free(tree));
    CHECK(trees_released == 1);
    IS(CGPC_ERR_TREE, cgpc_tree_release(contexts[0], "star"));
    IS(CGPC_ERR_TREE, cgpc_tree_named(contexts[0], "star", &tree));
    OK(cgpc_tree_register(contexts[0], "star", star, &splits, release_tree));
    OK(cgpc_tree_named(contexts[0], "star", &again));
    /* An id that has released it fails the call. */
    OK(cgpc_tree_register(contexts[0], "pair", star, &splits, release_tree));
    OK(cgpc_tree_named(contexts[0], "pair", &tree));
    args = args_of(func, 4);
    args.tree = tree;
    IS(CGPC_ERR_CALL, cgpc_call_run(contexts[0], &args, NULL));
    OK(cgpc_tree_free(tree));
    args.tree = again;
    OK(cgpc_call_run(contexts[0], &args, NULL));
    OK(cgpc_tree_free(again));
}

static void trees(cgpc_context **contexts, cgpc_function func) {
    static const uint32_t parents[] = {CGPC_NO_PARENT, 0, 1, 2};
    static const uint32_t cycle[] = {CGPC_NO_PARENT, 2, 1, 0};
    cgpc_call_args args = args_of(func, 4);
    cgpc_outcome *outcome;
    cgpc_tree *tree;
    uint32_t id;
    for (id = 0; id < 4; id++) {
        OK(cgpc_tree_register(contexts[id], "star", star, &splits, release_tree));
    }
    IS(CGPC_ERR_FUNCTION, cgpc_tree_register(contexts[0], "star", star, &splits, NULL));
    OK(cgpc_tree_named(contexts[0], "star", &tree));
    args.tree = tree;
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    parent_is(outcome, 3, 0);
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_tree_free(tree));
    IS(CGPC_ERR_ARGUMENT, cgpc_call_run(contexts[0], &args, &outcome));

    OK(cgpc_tree_from_children(4, heap, NULL, &tree));
    args.tree = tree;
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    parent_is(outcome, 3, 1);
    OK(cgpc_outcome_free(outcome));
    args.id_count = 3;
    IS(CGPC_ERR_TREE, cgpc_call_run(contexts[0], &args, &outcome));
    CHECK(outcome == NULL);
    args.id_count = 4;
    OK(cgpc_tree_free(tree));

    OK(cgpc_tree_from_parents(parents, 4, &tree));
    args.tree = tree;
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    parent_is(outcome, 3, 2);
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_tree_free(tree));
    IS(CGPC_ERR_TREE, cgpc_tree_from_parents(cycle, 4, &tree));
    IS(CGPC_ERR_TREE, cgpc_tree_from_children(4, own_child, NULL, &tree));
    IS(CGPC_ERR_TREE, cgpc_tree_named(contexts[0], "no such tree", &tree));
}

/* What a function can ask, and a value of the application for each call at each id. */
static int values_kept, values_released;
static cgpc_function asks_number, merges_number;

static void release_value(void *value) {
    free(value);
    __atomic_add_fetch(&values_released, 1, __ATOMIC_SEQ_CST);
}

static int asks(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    cgpc_function func = 0, callback = 9;
    uint64_t header_max = 0, data_max = 0;
    char tree[8];
    size_t length = 0;
    void *value;
    (void)arg;
    IS(CGPC_NONE, cgpc_request_value(request, &value));
    value = malloc(1);
    OK(cgpc_request_func(request, &func));
    OK(cgpc_request_callback(request, &callback));
    CHECK(func == asks_number && callback == merges_number);
    OK(cgpc_request_reply_limits(request, &header_max, &data_max));
    CHECK(header_max == 0 && data_max == 5);
    IS(CGPC_ERR_TRUNCATED, cgpc_request_tree(request, tree, 3, &length));
    CHECK(length == 4 && strcmp(tree, "fl") == 0);
    OK(cgpc_request_tree(request, tree, sizeof tree, NULL));
    // What is chosen for few ids.
    CHECK(strcmp(tree, "flat") == 0);
    OK(cgpc_request_set_value(request, NULL, NULL));
    OK(cgpc_request_set_value(request, value, release_value));
    __atomic_add_fetch(&values_kept, 1, __ATOMIC_SEQ_CST);
    return cgpc_reply_set_data(reply, "12345", 5);
}

static int merges(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    void *value = NULL;
    (void)arg;
    CHECK(child->data_len == 5);
    OK(cgpc_request_value(request, &value));
    CHECK(value != NULL);
    return cgpc_reply_set_data(own, "123456", 5);
}

static void limits(cgpc_context *root) {
    cgpc_call_args args = args_of(asks_number, 4);
    args.callback = merges_number;
    args.flags = CGPC_REPLY_LIMITS;
    args.reply_data_max = 5;
    OK(cgpc_call_run(root, &args, NULL));
}

static int ended = 99;
static cgpc_context *ending;

static void on_end(int status, cgpc_outcome *outcome, void *arg) {
    /* On the thread that drives the node, which would wait for itself. */
    IS(CGPC_ERR_DEADLOCK, cgpc_finalize(ending, 0));
    IS(CGPC_ERR_DEADLOCK, cgpc_serve(ending));
    if (outcome != NULL) {
        OK(cgpc_outcome_free(outcome));
    }
    CHECK(arg == (void *)&ended);
    __atomic_store_n(&ended, status, __ATOMIC_SEQ_CST);
}

static void released(void *arg) {
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_SEQ_CST);
}

/* Why the last call failed, so that a limit that passes is not mistaken for it. */
static uint32_t last_kind(void) {
    cgpc_error error;
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    OK(cgpc_last_error(&error));
    CHECK(error.has_cause);
    return error.kind;
}

static void in_flight(cgpc_context *root, cgpc_function keep) {
    cgpc_call_args args = args_of(keep, 2);
    cgpc_call *call, *other;
    cgpc_outcome *outcome;
    ending = root;
    OK(cgpc_call_start(root, &args, &call));
    IS(CGPC_PENDING, cgpc_call_test(call, &outcome));
    IS(CGPC_PENDING, cgpc_call_wait(call, 1000, NULL));
    IS(CGPC_PENDING, cgpc_call_wait(call, 1000, NULL));
    OK(cgpc_token_reply(take(0), NULL, 0, "a", 1));
    OK(cgpc_token_reply(take(1), NULL, 0, "b", 1));
    OK(cgpc_call_wait(call, CGPC_FOREVER, &outcome));
    OK(cgpc_outcome_free(outcome));
    IS(CGPC_ERR_STATE, cgpc_call_wait(call, CGPC_FOREVER, &outcome));
    CHECK(outcome == NULL);
    IS(CGPC_ERR_STATE, cgpc_call_on_end(call, on_end, NULL));
    OK(cgpc_call_free(call));
    IS(CGPC_ERR_ARGUMENT, cgpc_call_test(call, NULL));

    /* A token that is freed fails the call, and so does a cancelled one. */
    OK(cgpc_call_start(root, &args, &call));
    OK(cgpc_token_free(take(0)));
    IS(CGPC_ERR_CALL, cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    args.id_count = 1;
    OK(cgpc_call_start(root, &args, &call));
    OK(cgpc_token_fail(take(0), -7, "no"));
    IS(CGPC_ERR_CALL, cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    args.limit_us = 5000000;
    OK(cgpc_call_start(root, &args, &call));
    OK(cgpc_call_start(root, &args, &other));
    OK(cgpc_call_cancel(call));
    IS(CGPC_ERR_CALL, cgpc_call_wait(call, CGPC_FOREVER, NULL));
    CHECK(last_kind() == CGPC_KIND_CANCELLED);
    OK(cgpc_call_free(call));
    OK(cgpc_call_on_end(other, on_end, &ended));
    IS(CGPC_ERR_ARGUMENT, cgpc_call_free(other));
}

int main(void) {
    cgpc_context *contexts[4];
    cgpc_function later = 0, keep = 0, refuse = 0, stream = 0, parents = 0, phased = 0;
    cgpc_streaming streaming;
    cgpc_function_options options;
    cgpc_call_args args;
    cgpc_outcome *outcome;
    cgpc_call *call;
    const void *data;
    size_t length;
    uint32_t id;
    uint64_t bytes;
    int lent = 0, dropped = 0;
    char *long_data = malloc(1000000);
    CHECK(long_data != NULL);
    memset(long_data, 'x', 1000000);
    memset(&streaming, 0, sizeof streaming);
    streaming.size = sizeof streaming;
    streaming.begin = begin;
    streaming.segment = segment;
    streaming.finish = finish;
    streaming.release = release_state;
    OK(cgpc_function_options_init(&options, sizeof options));
    options.release = released;
    options.flags = CGPC_COMMUTATIVE;
    for (id = 0; id < 4; id++) {
        OK(cgpc_context_new(&contexts[id]));
        OK(cgpc_register_deferring(contexts[id], "later", defers, NULL, NULL, &later));
        OK(cgpc_register_deferring(contexts[id], "keeps", keeps, NULL, NULL, &keep));
        OK(cgpc_register_deferring(contexts[id], "refuses", refuses, NULL, NULL, &refuse));
        OK(cgpc_register_streaming(contexts[id], "stream", &streaming, NULL, NULL, &stream));
        OK(cgpc_register(contexts[id], "asks", asks, NULL, NULL, &asks_number));
        OK(cgpc_register_callback(contexts[id], "merges", merges, NULL, NULL, &merges_number));
        OK(cgpc_register(contexts[id], "parent", parent, NULL, NULL, &parents));
        OK(cgpc_register_phased(contexts[id], "count", count, &dropped, &options, &phased));
    }
    IS(CGPC_ERR_FUNCTION, cgpc_register_phased(contexts[0], "count", count, &dropped, &options, NULL));
    CHECK(dropped == 1);
    start_all(contexts, 4, 0);

    args = args_of(later, 4);
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    OK(cgpc_outcome_reply(outcome, 3, &data, &length, NULL, NULL));
    CHECK(length == 1 && *(const char *)data == 'h');
    OK(cgpc_outcome_free(outcome));
    args = args_of(refuse, 4);
    args.limit_us = 5000000;
    IS(CGPC_ERR_CALL, cgpc_call_run(contexts[0], &args, NULL));
    CHECK(last_kind() == CGPC_KIND_FAILED);

    args = args_of(stream, 4);
    args.data = long_data;
    args.data_len = 1000000;
    args.data_release = released;
    args.data_release_arg = &lent;
    args.flags = CGPC_FORWARD_FIRST;
    OK(cgpc_call_run(contexts[0], &args, &outcome));
    OK(cgpc_outcome_reply(outcome, 3, NULL, NULL, &data, &length));
    memcpy(&bytes, data, sizeof bytes);
    CHECK(length == sizeof bytes && bytes == 1000000);
    OK(cgpc_outcome_free(outcome));

    args = args_of(phased, 4);
    length = sizeof id;
    OK(cgpc_call_run_into(contexts[0], &args, NULL, NULL, &id, &length, NULL));
    CHECK(length == sizeof id && id == 4);

    limits(contexts[0]);
    args = args_of(parents, 4);
    args.flags = CGPC_REPLY_LIMITS;
    args.reply_data_max = 3;
    IS(CGPC_ERR_CALL, cgpc_call_run(contexts[0], &args, NULL));
    trees(contexts, parents);
    released_trees(contexts, keep, parents);
    in_flight(contexts[0], keep);

    /* Detached calls go on. */
    args = args_of(parents, 4);
    args.flags = CGPC_NO_REPLY;
    OK(cgpc_call_start(contexts[0], &args, &call));
    OK(cgpc_call_detach(call));

    finalize_all(contexts, 4);
    CHECK(__atomic_load_n(&ended, __ATOMIC_SEQ_CST) < 0);
    CHECK(splits > 0 && trees_released == 6);
    CHECK(lent == 1);
    CHECK(dropped == 5);
    CHECK(values_kept == 4 && values_released == 4);
    CHECK(begins == 4 && releases == 4);
    free(long_data);
    puts("done");
    return 0;
}
