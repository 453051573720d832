/* Contexts over a network of the application: threads that pass messages; lost peers, full queues, wrong uses. */
#include <pthread.h>

#include "check.h"

#define COUNT 3
#define QUEUE 4
#define MESSAGE_MAX 200

/* Messages for one context, which a thread delivers. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t come;
    int used, ended, releases, blocked, refuses;
    uint32_t id, from[QUEUE];
    size_t lengths[QUEUE];
    char messages[QUEUE][MESSAGE_MAX];
    pthread_t thread;
    cgpc_context *context;
} queue;

static queue queues[COUNT];

static int send_message(uint32_t to, const cgpc_part *parts, size_t count, void *arg) {
    queue *mine = arg, *there = &queues[to];
    size_t part, at = 0;
    CHECK(to < COUNT);
    if (mine->refuses) {
        return -7;
    }
    pthread_mutex_lock(&there->lock);
    if (there->used == QUEUE) {
        there->blocked++;
        pthread_mutex_unlock(&there->lock);
        return CGPC_WOULD_BLOCK;
    }
    for (part = 0; part < count; part++) {
        CHECK(at + parts[part].length <= MESSAGE_MAX);
        memcpy(there->messages[there->used] + at, parts[part].bytes, parts[part].length);
        at += parts[part].length;
    }
    there->from[there->used] = mine->id;
    there->lengths[there->used++] = at;
    pthread_cond_signal(&there->come);
    pthread_mutex_unlock(&there->lock);
    return 0;
}

static void *deliver(void *arg) {
    queue *mine = arg;
    int at, ended = 0;
    while (!ended) {
        pthread_mutex_lock(&mine->lock);
        while (mine->used == 0 && !mine->ended) {
            pthread_cond_wait(&mine->come, &mine->lock);
        }
        for (at = 0; at < mine->used; at++) {
            OK(cgpc_deliver(mine->context, mine->from[at], mine->messages[at], mine->lengths[at]));
        }
        ended = mine->ended;
        mine->used = 0;
        pthread_mutex_unlock(&mine->lock);
        for (at = 0; !ended && at < COUNT; at++) {
            OK(cgpc_writable(queues[at].context, mine->id));
        }
    }
    return NULL;
}

static void release(void *arg) { ((queue *)arg)->releases++; }

static int back(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data = NULL;
    size_t length = 0;
    (void)arg;
    OK(cgpc_request_data(request, &data, &length));
    return cgpc_reply_set_data(reply, data, length);
}

static void start(uint32_t id, cgpc_function *number) {
    queue *mine = &queues[id];
    cgpc_network network = {.size = sizeof network, .id = id, .count = COUNT, .send = send_message};
    pthread_mutex_init(&mine->lock, NULL);
    pthread_cond_init(&mine->come, NULL);
    mine->id = id;
    network.message_max = MESSAGE_MAX;
    network.arg = mine;
    network.release = release;
    OK(cgpc_context_new(&mine->context));
    OK(cgpc_register(mine->context, "back", back, NULL, NULL, number));
    IS(CGPC_ERR_STATE, cgpc_deliver(mine->context, 0, "", 0));
    IS(CGPC_ERR_STATE, cgpc_writable(mine->context, 0));
    IS(CGPC_ERR_STATE, cgpc_peer_lost(mine->context, 0, NULL));
    OK(cgpc_start_network(mine->context, &network, NULL));
}

/* Wrong networks are errors, and each releases its argument once. */
static void wrong(void) {
    queue none = {0};
    cgpc_context *context;
    cgpc_options options = {.size = sizeof options, .flags = 1u << 31};
    cgpc_network network = {.size = sizeof network, .count = 2, .send = send_message, .arg = &none};
    network.release = release;
    OK(cgpc_context_new(&context));
    IS(CGPC_ERR_ARGUMENT, cgpc_start_network(context, NULL, NULL));
    CHECK(none.releases == 0);
    network.id = 2;
    IS(CGPC_ERR_ARGUMENT, cgpc_start_network(context, &network, NULL));
    network.id = 1;
    network.message_max = 63;
    IS(CGPC_ERR_SYSTEM, cgpc_start_network(context, &network, NULL));
    network.message_max = 64;
    IS(CGPC_ERR_ARGUMENT, cgpc_start_network(context, &network, &options));
    network.send = NULL;
    IS(CGPC_ERR_ARGUMENT, cgpc_start_network(context, &network, NULL));
    CHECK(none.releases == 4);
    network.send = send_message;
    OK(cgpc_start_network(context, &network, NULL));
    IS(CGPC_ERR_STATE, cgpc_start_network(context, &network, NULL));
    CHECK(none.releases == 5);
    IS(CGPC_ERR_DATA, cgpc_deliver(context, 0, "no message", 10));
    IS(CGPC_ERR_ARGUMENT, cgpc_deliver(context, 0, NULL, 1));
    OK(cgpc_peer_lost(context, 77, "an id that does not exist"));
    OK(cgpc_writable(context, 77));
    OK(cgpc_finalize(context, 0));
    CHECK(none.releases == 6);
}

static int call(cgpc_function number, const char *data, size_t length) {
    cgpc_call_args args;
    cgpc_outcome *outcome = NULL;
    const void *reply = NULL;
    size_t got = 0;
    uint32_t id;
    int status;
    OK(cgpc_call_args_init(&args, sizeof args));
    args.func = number;
    args.id_count = COUNT;
    args.data = data;
    args.data_len = length;
    status = cgpc_call_run(queues[0].context, &args, &outcome);
    for (id = 0; status == CGPC_OK && id < COUNT; id++) {
        OK(cgpc_outcome_reply(outcome, id, NULL, NULL, &reply, &got));
        CHECK(got == length && memcmp(reply, data, length) == 0);
    }
    cgpc_outcome_free(outcome);
    return status;
}

int main(void) {
    static char data[100000];
    cgpc_function number = 0;
    cgpc_error error;
    uint32_t id;
    size_t at;
    wrong();
    for (at = 0; at < sizeof data; at++) {
        data[at] = (char)(at * 7 + at / 251);
    }
    for (id = 0; id < COUNT; id++) {
        start(id, &number);
    }
    for (id = 0; id < COUNT; id++) {
        CHECK(pthread_create(&queues[id].thread, NULL, deliver, &queues[id]) == 0);
    }
    OK(call(number, data, 0));
    OK(call(number, data, sizeof data));
    CHECK(queues[1].blocked > 0);

    /* A network that cannot send any more says so, and the error has its code. */
    queues[0].refuses = 1;
    OK(cgpc_peer_lost(queues[0].context, 1, "its cable was cut"));
    OK(cgpc_peer_lost(queues[0].context, 2, NULL));
    IS(CGPC_ERR_CALL, call(number, data, 1));
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    cgpc_last_error(&error);
    CHECK(strstr(error.message, "`send` returned -7") != NULL || strstr(error.message, "cable") != NULL);
    queues[0].refuses = 0;
    OK(call(number, data, 10));

    for (id = 0; id < COUNT; id++) {
        pthread_mutex_lock(&queues[id].lock);
        queues[id].ended = 1;
        pthread_cond_signal(&queues[id].come);
        pthread_mutex_unlock(&queues[id].lock);
        pthread_join(queues[id].thread, NULL);
    }
    for (id = 0; id < COUNT; id++) {
        cgpc_context *context = queues[id].context;
        OK(cgpc_finalize(context, 0));
        CHECK(queues[id].releases == 1);
        IS(CGPC_ERR_ARGUMENT, cgpc_deliver(context, 0, data, sizeof data));
    }
    puts("done");
    return 0;
}
