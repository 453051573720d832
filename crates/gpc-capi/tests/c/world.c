/* Processes that find each other by an exchange; peers that come and go; level-n data; secrets and keys. */
#include <pthread.h>

#include "check.h"

#define RANKS 3

/* An exchange between threads, each of which stands for a process. */
static pthread_barrier_t meeting;
static const void *parts[RANKS];

typedef struct {
    uint32_t rank;
    int barriers;
    int fails;
    int polled;
} rank_state;

/* Number of polled processes whose call has ended. */
static int finished;

static int allgather(const void *mine, size_t length, void *all, void *arg) {
    rank_state *state = (rank_state *)arg;
    uint32_t rank;
    if (state->fails) {
        return 3;
    }
    parts[state->rank] = mine;
    pthread_barrier_wait(&meeting);
    for (rank = 0; rank < RANKS; rank++) {
        memcpy((char *)all + rank * length, parts[rank], length);
    }
    pthread_barrier_wait(&meeting);
    return 0;
}

static int barrier(void *arg) {
    ((rank_state *)arg)->barriers++;
    pthread_barrier_wait(&meeting);
    return 0;
}

static int me(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id = 0;
    (void)arg;
    OK(cgpc_request_me(request, &id));
    return cgpc_reply_set_data(reply, &id, sizeof id);
}

static void *process(void *arg) {
    rank_state *state = (rank_state *)arg;
    cgpc_context *context;
    cgpc_exchange exchange;
    cgpc_options options;
    cgpc_function func = 0;
    cgpc_call_args args;
    cgpc_outcome *outcome;
    size_t replies = 0;
    uint32_t id = 99, count = 0;
    OK(cgpc_context_new(&context));
    OK(cgpc_register(context, "me", me, NULL, NULL, &func));
    memset(&exchange, 0, sizeof exchange);
    exchange.size = sizeof exchange;
    exchange.rank = state->rank;
    exchange.count = RANKS;
    exchange.allgather = allgather;
    exchange.barrier = barrier;
    exchange.arg = state;
    OK(cgpc_options_init(&options, sizeof options));
    options.flags = state->polled ? CGPC_POLLED : 0;
    OK(cgpc_start_exchange(context, &exchange, &options));
    OK(cgpc_id(context, &id));
    OK(cgpc_count(context, &count));
    CHECK(id == state->rank && count == RANKS && state->barriers == 1);
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = func;
    args.id_count = RANKS;
    OK(cgpc_call_run(context, &args, &outcome));
    OK(cgpc_outcome_reply_count(outcome, &replies));
    CHECK(replies == RANKS);
    OK(cgpc_outcome_free(outcome));
    if (state->polled) {
        /* The calls of the others need this process, too. */
        __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < RANKS) {
            OK(cgpc_progress(context, 0, NULL));
        }
    } else {
        pthread_barrier_wait(&meeting);
    }
    OK(cgpc_serve(context));
    OK(cgpc_finalize(context, 1000000));
    return NULL;
}

static void exchanges(int polled) {
    pthread_t threads[RANKS];
    rank_state states[RANKS];
    cgpc_context *context;
    cgpc_exchange exchange;
    cgpc_options options;
    uint32_t rank;
    CHECK(pthread_barrier_init(&meeting, NULL, RANKS) == 0);
    memset(states, 0, sizeof states);
    for (rank = 0; rank < RANKS; rank++) {
        states[rank].polled = polled;
        states[rank].rank = rank;
        CHECK(pthread_create(&threads[rank], NULL, process, &states[rank]) == 0);
    }
    for (rank = 0; rank < RANKS; rank++) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
    }
    /* An exchange that fails, and wrong ones; the context can be started afterwards. */
    OK(cgpc_context_new(&context));
    memset(&exchange, 0, sizeof exchange);
    IS(CGPC_ERR_ARGUMENT, cgpc_start_exchange(context, &exchange, NULL));
    exchange.size = sizeof exchange;
    exchange.count = 2;
    exchange.rank = 2;
    IS(CGPC_ERR_BOOTSTRAP, cgpc_start_exchange(context, &exchange, NULL));
    exchange.rank = 1;
    IS(CGPC_ERR_BOOTSTRAP, cgpc_start_exchange(context, &exchange, NULL));
    states[0].fails = 1;
    exchange.allgather = allgather;
    exchange.arg = &states[0];
    IS(CGPC_ERR_BOOTSTRAP, cgpc_start_exchange(context, &exchange, NULL));
    OK(cgpc_options_init(&options, sizeof options));
    options.flags = CGPC_POLLED;
    IS(CGPC_ERR_BOOTSTRAP, cgpc_start_exchange(context, &exchange, &options));
    IS(CGPC_ERR_NO_LAUNCHER, cgpc_start_launched(context, &options));
    IS(CGPC_ERR_NO_LAUNCHER, cgpc_start_launched(context, NULL));
    OK(cgpc_start(context, NULL));
    OK(cgpc_finalize(context, 0));
}

static void members(void) {
    cgpc_context *root, *joins;
    cgpc_events *events;
    cgpc_event event;
    cgpc_call *call;
    cgpc_options options;
    char address[128];
    char listen[64];
    uint32_t id = 5, absent = 6;
    uint64_t missed = 1;
    OK(cgpc_context_new(&root));
    OK(cgpc_start(root, NULL));
    OK(cgpc_events_open(root, &events));
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    IS(CGPC_NONE, cgpc_events_next(events, 0, &event));
    OK(cgpc_context_new(&joins));
    OK(cgpc_options_init(&options, sizeof options));
    snprintf(listen, sizeof listen, "unix:@capi-joins-%ld", (long)getpid());
    options.id = id;
    options.listen = listen;
    OK(cgpc_start(joins, &options));
    OK(cgpc_address(joins, address, sizeof address, NULL));
    CHECK(strcmp(address, listen) == 0);
    OK(cgpc_learn(root, id, address, NULL));
    OK(cgpc_wait_for_peers(root, &id, 1, 10000000));
    OK(cgpc_events_next(events, 10000000, &event));
    CHECK(event.id == 5 && event.kind == CGPC_PEER_UP);
    IS(CGPC_ERR_ABSENT, cgpc_wait_for_peers(root, &absent, 1, 1000));
    OK(cgpc_announce(root, id, address, NULL, &call));
    OK(cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    OK(cgpc_withdraw(root, id, &call));
    OK(cgpc_call_wait(call, CGPC_FOREVER, NULL));
    OK(cgpc_call_free(call));
    OK(cgpc_events_next(events, 10000000, &event));
    CHECK(event.id == 5 && event.kind == CGPC_PEER_LOST && event.loss == CGPC_LOSS_FORGOTTEN);
    CHECK(strlen(event.reason) > 0);
    OK(cgpc_forget(root, id));
    OK(cgpc_finalize(root, 0));
    while (cgpc_events_next(events, 10000000, &event) == CGPC_OK) {
    }
    IS(CGPC_ERR_ENDED, cgpc_events_next(events, 10000000, &event));
    OK(cgpc_events_missed(events, &missed));
    CHECK(missed == 0);
    OK(cgpc_events_free(events));
    OK(cgpc_finalize(joins, 0));
}

static int append(const void *bytes, size_t length, void *arg) {
    strncat((char *)arg, (const char *)bytes, length);
    strcat((char *)arg, ";");
    return length == 0;
}

static void levels(void) {
    cgpc_leveled children[2];
    char inner[64], outer[64], text[64] = "";
    size_t length = 0;
    uint16_t level = 9;
    uint64_t count = 0;
    OK(cgpc_level_aggregate("leaf", 4, NULL, 0, inner, sizeof inner, &length, &level));
    CHECK(level == 0 && length == 6);
    children[0].level = level;
    children[0].data = inner;
    children[0].data_len = length;
    children[1] = children[0];
    OK(cgpc_level_aggregate("root", 4, children, 2, outer, sizeof outer, &length, &level));
    CHECK(level == 1 && length == 20 && memcmp(outer, "3 4 root4 leaf4 leaf", 20) == 0);
    OK(cgpc_level_count(level, outer, length, &count));
    CHECK(count == 3);
    OK(cgpc_level_each(level, outer, length, append, text));
    CHECK(strcmp(text, "root;leaf;leaf;") == 0);
    IS(CGPC_ERR_DATA, cgpc_level_each(level, outer, length - 1, append, text));
    IS(CGPC_ERR_TRUNCATED, cgpc_level_aggregate("root", 4, children, 2, inner, 5, &length, &level));
    CHECK(length == 20);
    /* A part of no bytes ends this iteration. */
    IS(1, cgpc_level_each(0, "0 ", 2, append, text));
}

static void secrets(void) {
    uint8_t one[32], other[32], job[16];
    cgpc_context *context;
    cgpc_options options;
    OK(cgpc_secret_random(one));
    OK(cgpc_secret_random(other));
    CHECK(memcmp(one, other, sizeof one) != 0);
    OK(cgpc_key_random(one));
    OK(cgpc_key_public(one, other));
    OK(cgpc_job_random(job));
    OK(cgpc_context_new(&context));
    OK(cgpc_options_init(&options, sizeof options));
    options.listen = "127.0.0.1:0";
    options.job = job;
    options.key = one;
    options.secret = other;
    options.secret_len = 31;
    IS(CGPC_ERR_ARGUMENT, cgpc_start(context, &options));
    options.secret_len = 32;
    options.workers = 2;
    OK(cgpc_start(context, &options));
    OK(cgpc_finalize(context, 0));
}

int main(void) {
    exchanges(0);
    exchanges(1);
    members();
    levels();
    secrets();
    puts("done");
    return 0;
}
