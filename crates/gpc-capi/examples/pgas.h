/* pgas.h: a small PGAS layer on chained calls, to be copied and changed: processes with one part each of a global array
 * of words, one-sided operations on it, a barrier, and a sum over all processes.
 *
 * Operations run at the owner of the words, on the thread of its context and one at a time, so they are atomic there,
 * and the owner's program need not take part. Several threads of a process may use the layer, but one at a time the
 * barrier. */
#ifndef PGAS_H
#define PGAS_H

#include <string.h>

#include "must.h"

typedef struct {
    uint64_t index;
    uint64_t value;
} pgas_update;

typedef struct {
    cgpc_context *context;
    uint32_t me, count;
    cgpc_function update, fetch, arrive, total, add;
    uint64_t *part; /* The words of this process. Only functions of the context use them between two barriers. */
    size_t part_len;
    cgpc_token **arrived; /* At process 0: those that wait at the barrier. */
    uint32_t arrived_count;
} pgas;

/* The owner of a word. Words are dealt out in turn. */
static inline uint32_t pgas_owner(const pgas *world, uint64_t index) { return (uint32_t)(index % world->count); }

/* Exclusive-ors values into words of this process. */
static inline int pgas_on_update(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    pgas *world = arg;
    const void *data;
    size_t length, at;
    must(cgpc_request_data(request, &data, &length));
    for (at = 0; at + sizeof(pgas_update) <= length; at += sizeof(pgas_update)) {
        pgas_update one;
        memcpy(&one, (const char *)data + at, sizeof one);
        if (one.index / world->count >= world->part_len || pgas_owner(world, one.index) != world->me) {
            must(cgpc_reply_explain(reply, "no such word here"));
            return 1;
        }
        world->part[one.index / world->count] ^= one.value;
    }
    return 0;
}

/* Replies with a word of this process. */
static inline int pgas_on_fetch(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const pgas *world = arg;
    const void *header;
    size_t length;
    uint64_t index;
    must(cgpc_request_header(request, &header, &length));
    if (length != sizeof index) {
        return 1;
    }
    memcpy(&index, header, sizeof index);
    if (index / world->count >= world->part_len || pgas_owner(world, index) != world->me) {
        must(cgpc_reply_explain(reply, "no such word here"));
        return 1;
    }
    return cgpc_reply_set_data(reply, &world->part[index / world->count], sizeof(uint64_t));
}

/* Process 0 keeps the tokens of those that have arrived, and replies when all have. The first ones may arrive while its
 * own start goes on, so nothing that is set after the start is used. */
static inline int pgas_on_arrive(const cgpc_request *request, cgpc_token *token, void *arg) {
    pgas *world = arg;
    uint32_t count;
    (void)request;
    must(cgpc_count(world->context, &count));
    if (world->arrived == NULL) {
        world->arrived = calloc(count, sizeof(cgpc_token *));
    }
    if (world->arrived == NULL) {
        return 1;
    }
    world->arrived[world->arrived_count++] = token;
    if (world->arrived_count == count) {
        while (world->arrived_count > 0) {
            must(cgpc_token_reply(world->arrived[--world->arrived_count], NULL, 0, NULL, 0));
        }
    }
    return 0;
}

/* Number of words of this process that are not 0. */
static inline int pgas_on_total(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const pgas *world = arg;
    uint64_t total = 0;
    size_t at;
    (void)request;
    for (at = 0; at < world->part_len; at++) {
        total += world->part[at] != 0;
    }
    return cgpc_reply_set_data(reply, &total, sizeof total);
}

/* A callback that adds numbers. */
static inline int pgas_on_add(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    uint64_t mine, more;
    void *data;
    size_t length;
    (void)request;
    (void)arg;
    must(cgpc_reply_data(own, &data, &length));
    if (length != sizeof mine || child->data_len != sizeof more) {
        return 1;
    }
    memcpy(&mine, data, sizeof mine);
    memcpy(&more, child->data, sizeof more);
    mine += more;
    memcpy(data, &mine, sizeof mine);
    return 0;
}

/* Starts a process of a launcher with so many words. Further functions are registered before, with world->context. */
static inline void pgas_open(pgas *world) {
    cgpc_function_options any_order = {.size = sizeof any_order, .flags = CGPC_COMMUTATIVE};
    memset(world, 0, sizeof *world);
    must(cgpc_context_new(&world->context));
    must(cgpc_register(world->context, "pgas.update", pgas_on_update, world, NULL, &world->update));
    must(cgpc_register(world->context, "pgas.fetch", pgas_on_fetch, world, NULL, &world->fetch));
    must(cgpc_register_deferring(world->context, "pgas.arrive", pgas_on_arrive, world, NULL, &world->arrive));
    must(cgpc_register(world->context, "pgas.total", pgas_on_total, world, NULL, &world->total));
    must(cgpc_register_callback(world->context, "pgas.add", pgas_on_add, world, &any_order, &world->add));
}

static inline void pgas_barrier(const pgas *world);

static inline void pgas_start(pgas *world, size_t words) {
    must(cgpc_start_launched(world->context, NULL));
    must(cgpc_id(world->context, &world->me));
    must(cgpc_count(world->context, &world->count));
    world->part = calloc(words, sizeof *world->part);
    world->part_len = words;
    if (words > 0 && world->part == NULL) {
        exit(1);
    }
    pgas_barrier(world);
}

/* The arguments of a call that a single process executes. `id` must live until the call is made. */
static inline cgpc_call_args pgas_at(const pgas *world, cgpc_function func, const uint32_t *id) {
    cgpc_call_args args = {.size = sizeof args, .func = func, .ids = id, .id_count = 1};
    args.flags = *id == world->me ? 0 : CGPC_WATCH;
    return args;
}

/* Waits until all processes are here. */
static inline void pgas_barrier(const pgas *world) {
    static const uint32_t first = 0;
    cgpc_call_args args = pgas_at(world, world->arrive, &first);
    must(cgpc_call_run(world->context, &args, NULL));
}

/* A word of any process. */
static inline uint64_t pgas_get(const pgas *world, uint64_t index) {
    uint32_t owner = pgas_owner(world, index);
    cgpc_call_args args = pgas_at(world, world->fetch, &owner);
    cgpc_outcome *outcome;
    const void *data;
    size_t length;
    uint64_t word;
    args.header = &index;
    args.header_len = sizeof index;
    must(cgpc_call_run(world->context, &args, &outcome));
    must(cgpc_outcome_reply(outcome, owner, NULL, NULL, &data, &length));
    memcpy(&word, data, sizeof word);
    must(cgpc_outcome_free(outcome));
    return word;
}

/* Starts updates of words of one owner: copies them, and does not wait. */
static inline cgpc_call *pgas_update_start(const pgas *world, uint32_t owner, const pgas_update *updates, size_t count) {
    cgpc_call_args args = pgas_at(world, world->update, &owner);
    cgpc_call *call;
    args.data = updates;
    args.data_len = count * sizeof *updates;
    must(cgpc_call_start(world->context, &args, &call));
    return call;
}

/* Waits for a call, if there is one. */
static inline void pgas_complete(cgpc_call *call) {
    if (call != NULL) {
        must(cgpc_call_wait(call, CGPC_FOREVER, NULL));
        must(cgpc_call_free(call));
    }
}

/* Adds up what a function replies at all processes: a number each. Any process may call it. */
static inline uint64_t pgas_sum(const pgas *world, cgpc_function func) {
    cgpc_call_args args = {.size = sizeof args, .func = func, .callback = world->add, .id_count = world->count};
    uint64_t sum = 0;
    size_t length = sizeof sum;
    must(cgpc_call_run_into(world->context, &args, NULL, NULL, &sum, &length, NULL));
    return sum;
}

static inline void pgas_end(pgas *world) {
    pgas_barrier(world);
    must(cgpc_finalize(world->context, 1000000));
    free(world->part);
    free(world->arrived);
}

#endif
