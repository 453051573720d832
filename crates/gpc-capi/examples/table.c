/* A distributed hash table on chained calls, and random updates of it with a checked total, as GUPS makes them.
 *
 *     cc table.c $(pkg-config --cflags --libs chained_gpc) -o table && mpiexec -n 4 ./table
 *
 * Each process has a part of the table. An update goes to the owner of its key alone; the total is a reduction over all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <chained_gpc.h>

#define PART 1024
#define UPDATES 512
#define BATCH 64

typedef struct {
    uint64_t key;
    uint64_t add;
} update;

static uint64_t part[PART]; /* Only functions of the context use it, and they run one at a time. */

static int must(int status) {
    cgpc_error error = {.size = sizeof error};
    if (status < 0 && cgpc_last_error(&error) == CGPC_OK) {
        fprintf(stderr, "%s: %s\n", cgpc_strerror(status), error.message);
        exit(1);
    }
    return status;
}

/* Applies a batch of updates at their owner. */
static int apply(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data;
    size_t length, at;
    (void)reply;
    (void)arg;
    must(cgpc_request_data(request, &data, &length));
    for (at = 0; at + sizeof(update) <= length; at += sizeof(update)) {
        update one;
        memcpy(&one, (const char *)data + at, sizeof one);
        part[one.key % PART] += one.add;
    }
    return 0;
}

static int total(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint64_t sum = 0;
    size_t at;
    (void)request;
    (void)arg;
    for (at = 0; at < PART; at++) {
        sum += part[at];
    }
    return cgpc_reply_set_data(reply, &sum, sizeof sum);
}

static int add(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    uint64_t mine, more;
    void *data;
    size_t length;
    (void)request;
    (void)arg;
    must(cgpc_reply_data(own, &data, &length));
    memcpy(&mine, data, sizeof mine);
    memcpy(&more, child->data, sizeof more);
    mine += more;
    return cgpc_reply_set_data(own, &mine, sizeof mine);
}

static uint64_t random_state;

static uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Sends random updates, a batch for each owner at a time, all batches at once; returns what they add. */
static uint64_t updates(cgpc_context *context, cgpc_function apply_number, uint32_t me, uint32_t count) {
    update *batches = calloc((size_t)count * BATCH, sizeof *batches);
    cgpc_call **calls = calloc(count, sizeof *calls);
    uint64_t added = 0;
    int round, at;
    uint32_t owner;
    if (batches == NULL || calls == NULL) {
        exit(1);
    }
    random_state = 88172645463325252u + me;
    for (round = 0; round < UPDATES / BATCH; round++) {
        for (owner = 0; owner < count; owner++) {
            cgpc_call_args args = {.size = sizeof args};
            for (at = 0; at < BATCH; at++) {
                update *one = &batches[owner * BATCH + at];
                one->key = random_number();
                one->add = random_number() % 100;
                added += one->add;
            }
            args.func = apply_number;
            args.ids = &owner;
            args.id_count = 1;
            args.data = &batches[owner * BATCH];
            args.data_len = BATCH * sizeof(update);
            args.flags = owner == me ? 0 : CGPC_WATCH;
            must(cgpc_call_start(context, &args, &calls[owner]));
        }
        for (owner = 0; owner < count; owner++) {
            must(cgpc_call_wait(calls[owner], CGPC_FOREVER, NULL));
            must(cgpc_call_free(calls[owner]));
        }
    }
    free(batches);
    free(calls);
    return added;
}

/* What each process has added: it answers when it is asked. */
static uint64_t added_here;

static int added(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request;
    (void)arg;
    return cgpc_reply_set_data(reply, &added_here, sizeof added_here);
}

/* Makes the updates of this process. */
static int work(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me, count;
    cgpc_context *context;
    (void)reply;
    must(cgpc_request_context(request, &context));
    must(cgpc_request_me(request, &me));
    must(cgpc_request_total(request, &count));
    added_here = updates(context, *(cgpc_function *)arg, me, count);
    return 0;
}

static uint64_t sum(cgpc_context *context, cgpc_function func, cgpc_function callback, uint32_t count) {
    cgpc_call_args args = {.size = sizeof args};
    uint64_t result = 0;
    size_t length = sizeof result;
    args.func = func;
    args.callback = callback;
    args.id_count = count;
    must(cgpc_call_run_into(context, &args, NULL, NULL, &result, &length, NULL));
    return result;
}

int main(void) {
    cgpc_context *context;
    cgpc_function apply_number, total_number, add_number, added_number, work_number;
    cgpc_executor executor = {"work", 1};
    cgpc_options options = {.size = sizeof options};
    cgpc_function_options placed = {.size = sizeof placed};
    uint32_t id, count;
    must(cgpc_context_new(&context));
    must(cgpc_register(context, "apply", apply, NULL, NULL, &apply_number));
    must(cgpc_register(context, "total", total, NULL, NULL, &total_number));
    must(cgpc_register(context, "added", added, NULL, NULL, &added_number));
    must(cgpc_register_callback(context, "add", add, NULL, NULL, &add_number));
    /* It waits for calls, so it has a thread of its own. */
    placed.executor = executor.name;
    must(cgpc_register(context, "work", work, &apply_number, &placed, &work_number));
    options.executors = &executor;
    options.executor_count = 1;
    must(cgpc_start_launched(context, &options));
    must(cgpc_id(context, &id));
    must(cgpc_count(context, &count));
    if (id == 0) {
        cgpc_call_args all = {.size = sizeof all};
        uint64_t sent, stored;
        all.func = work_number;
        all.id_count = count;
        all.flags = CGPC_NO_REPLY | CGPC_FORWARD_FIRST;
        must(cgpc_call_run(context, &all, NULL));
        sent = sum(context, added_number, add_number, count);
        stored = sum(context, total_number, add_number, count);
        printf("%u processes made %u updates; they add up: %s\n", count, count * count * UPDATES,
               sent == stored ? "yes" : "no");
    } else {
        must(cgpc_serve(context));
    }
    must(cgpc_finalize(context, 1000000));
    return 0;
}
