/* A client of rendezvous services: resources, notifications, wrong uses, several threads, a forked child, and services
 * that are silent, slow, endless, or close. */
#include <pthread.h>
#include <sys/wait.h>

#include "gpc_rendezvous.h"
#include "interrupts.h"

#define LIMIT_US 60000000

static cgpc_rendezvous *client;

static cgpc_rendezvous *hasty(void) {
    cgpc_rendezvous_options options = {.size = sizeof options, .limit_us = 100000, .data_max = 1000};
    cgpc_rendezvous *made;
    OK(cgpc_rendezvous_new(&options, &made));
    return made;
}

static uint32_t fault(void) {
    cgpc_error error = {.size = sizeof error};
    OK(cgpc_last_error(&error));
    CHECK(error.has_cause == 0 && error.status == CGPC_ERR_FAULT);
    return error.kind;
}

static void create(uint64_t capacity, char handle[CGPC_HANDLE_SIZE]) {
    cgpc_rendezvous_spec spec = {.size = sizeof spec, .capacity = capacity};
    size_t length;
    OK(cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, CGPC_HANDLE_SIZE, &length));
    CHECK(length == strlen(handle) && strncmp(handle, getenv("SERVICE"), strlen(getenv("SERVICE"))) == 0);
}

static void registers(const char *handle, int64_t rank, const char *data) {
    char token[CGPC_TOKEN_SIZE];
    uint32_t own, tally, count;
    OK(cgpc_rendezvous_token(token, sizeof token));
    OK(cgpc_rendezvous_register(client, handle, rank, token, data, strlen(data), 0, &own, &tally, &count));
    /* The same again is the same registration. */
    OK(cgpc_rendezvous_register(client, handle, rank, token, data, strlen(data), 0, NULL, NULL, NULL));
    CHECK((rank == CGPC_RANK_ASSIGN || own == (uint32_t)rank) && tally <= count);
}

/* What a function has received. */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int tallies, completed, failed, released;
    char data[64];
    uint32_t fault;
    cgpc_subscription *frees;
};

static void notified(const cgpc_notification *notification, void *arg) {
    struct seen *seen = arg;
    pthread_mutex_lock(&seen->lock);
    if (notification->kind == CGPC_NOTIFY_TALLY) seen->tallies++;
    if (notification->kind == CGPC_NOTIFY_COMPLETED) {
        CHECK(notification->level == 1 && notification->length < sizeof seen->data);
        memcpy(seen->data, notification->data, notification->length);
        seen->completed++;
    }
    if (notification->kind == CGPC_NOTIFY_FAILED) {
        CHECK(notification->status < 0 && notification->message[0] != '\0');
        seen->fault = notification->fault;
        seen->failed++;
    }
    /* A function may free its own subscription. */
    if (seen->frees != NULL) {
        OK(cgpc_subscription_free(seen->frees));
        seen->frees = NULL;
    }
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void released(void *arg) {
    struct seen *seen = arg;
    pthread_mutex_lock(&seen->lock);
    seen->released++;
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void prepare(struct seen *seen) {
    memset(seen, 0, sizeof *seen);
    CHECK(pthread_mutex_init(&seen->lock, NULL) == 0 && pthread_cond_init(&seen->changed, NULL) == 0);
}

#define UNTIL(seen, condition) \
    do { \
        pthread_mutex_lock(&(seen)->lock); \
        while (!(condition)) pthread_cond_wait(&(seen)->changed, &(seen)->lock); \
        pthread_mutex_unlock(&(seen)->lock); \
    } while (0)

static void resources(void) {
    char handle[CGPC_HANDLE_SIZE], unit[CGPC_HANDLE_SIZE], job[33], secret[65];
    cgpc_rendezvous_spec spec = {.size = sizeof spec, .capacity = 1, .joint = 1};
    cgpc_rendezvous_properties_of properties = {.size = sizeof properties};
    cgpc_completion *completion;
    const void *data;
    size_t length;
    uint16_t level;
    create(2, handle);
    registers(handle, 1, "b");
    OK(cgpc_rendezvous_properties(client, handle, &properties));
    CHECK(properties.tally == 1 && properties.capacity == 2 && properties.completed == 0 && properties.fault == 0);
    CHECK(properties.missing_count == 1 && properties.missing[0] == 0 && properties.level == 1);
    CHECK(properties.expires_us > properties.created_us);
    IS(CGPC_PENDING, cgpc_rendezvous_wait(client, handle, CGPC_SCOPE_OWN, NULL, 0, &completion));
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_register(client, handle, 1, "other", "x", 1, 0, NULL, NULL, NULL));
    CHECK(fault() == CGPC_FAULT_RANK_TAKEN);
    OK(cgpc_rendezvous_register(client, handle, 0, "withdrawn", "x", 1, 1000000, NULL, NULL, NULL));
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_withdraw(client, handle, 0, "another"));
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_withdraw(client, handle, 0, "withdrawn"));
    CHECK(fault() == CGPC_FAULT_ALREADY_COMPLETE);
    OK(cgpc_rendezvous_wait(client, handle, CGPC_SCOPE_TOP, NULL, LIMIT_US, &completion));
    OK(cgpc_completion_data(completion, &level, &data, &length));
    CHECK(level == 1 && length == 8 && memcmp(data, "2 1 x1 b", 8) == 0);
    IS(CGPC_NONE, cgpc_completion_joint(completion, job, sizeof job, secret, sizeof secret));
    OK(cgpc_completion_free(completion));
    IS(CGPC_ERR_ARGUMENT, cgpc_completion_data(completion, NULL, NULL, NULL));
    /* A unit registers above, and those who meet have a job and a secret in common. */
    spec.level = 2;
    OK(cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, sizeof handle, NULL));
    spec.level = spec.joint = 0;
    spec.parent = handle;
    spec.parent_rank = 0;
    OK(cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, unit, sizeof unit, NULL));
    registers(unit, CGPC_RANK_ASSIGN, "a");
    OK(cgpc_rendezvous_wait(client, unit, CGPC_SCOPE_TOP, NULL, LIMIT_US, &completion));
    OK(cgpc_completion_data(completion, &level, &data, &length));
    CHECK(level == 2 && length == 7 && memcmp(data, "1 1 1 a", 7) == 0);
    IS(CGPC_ERR_TRUNCATED, cgpc_completion_joint(completion, job, 32, secret, sizeof secret));
    OK(cgpc_completion_joint(completion, job, sizeof job, secret, sizeof secret));
    CHECK(strlen(job) == 32 && strlen(secret) == 64);
    OK(cgpc_completion_free(completion));
    OK(cgpc_rendezvous_destroy(client, handle));
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_properties(client, handle, &properties));
    CHECK(fault() == CGPC_FAULT_DESTROYED);
}

static void notifications(void) {
    char handle[CGPC_HANDLE_SIZE];
    cgpc_notification notification = {.size = sizeof notification};
    cgpc_subscription *subscription;
    struct seen seen;
    /* Without a function. */
    create(2, handle);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, NULL, NULL, NULL, &subscription));
    OK(cgpc_subscription_next(subscription, LIMIT_US, &notification));
    CHECK(notification.kind == CGPC_NOTIFY_TALLY && notification.tally == 0 && notification.capacity == 2);
    CHECK(notification.data == NULL && notification.message == NULL);
    IS(CGPC_PENDING, cgpc_subscription_next(subscription, 0, &notification));
    registers(handle, 0, "a");
    registers(handle, 1, "b");
    do OK(cgpc_subscription_next(subscription, LIMIT_US, &notification));
    while (notification.kind == CGPC_NOTIFY_TALLY);
    CHECK(notification.kind == CGPC_NOTIFY_COMPLETED && notification.level == 1 && notification.tally == 0);
    CHECK(notification.length == 8 && memcmp(notification.data, "2 1 a1 b", 8) == 0);
    IS(CGPC_NONE, cgpc_subscription_next(subscription, LIMIT_US, &notification));
    OK(cgpc_subscription_free(subscription));
    IS(CGPC_ERR_ARGUMENT, cgpc_subscription_next(subscription, 0, &notification));
    /* With one, before the others come. */
    prepare(&seen);
    create(2, handle);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, notified, &seen, released, &subscription));
    UNTIL(&seen, seen.tallies > 0);
    IS(CGPC_ERR_UNSUPPORTED, cgpc_subscription_next(subscription, 0, &notification));
    registers(handle, 0, "a");
    registers(handle, 1, "b");
    UNTIL(&seen, seen.completed == 1);
    CHECK(memcmp(seen.data, "2 1 a1 b", 8) == 0);
    OK(cgpc_subscription_free(subscription));
    CHECK(seen.released == 1 && seen.completed == 1 && seen.failed == 0);
    /* Destroyed. */
    prepare(&seen);
    create(2, handle);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, notified, &seen, released, &subscription));
    OK(cgpc_rendezvous_destroy(client, handle));
    UNTIL(&seen, seen.failed == 1);
    CHECK(seen.fault == CGPC_FAULT_DESTROYED && seen.completed == 0);
    OK(cgpc_subscription_free(subscription));
    CHECK(seen.released == 1);
    /* Freed by its own function, and freed while it waits. */
    prepare(&seen);
    create(2, handle);
    pthread_mutex_lock(&seen.lock);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, notified, &seen, released, &seen.frees));
    pthread_mutex_unlock(&seen.lock);
    UNTIL(&seen, seen.released == 1);
    CHECK(seen.tallies == 1 && seen.frees == NULL);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, notified, &seen, released, &subscription));
    OK(cgpc_subscription_free(subscription));
    CHECK(seen.released == 2);
    /* The argument is released if there is no subscription. */
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_subscribe(client, "no handle", 0, NULL, notified, &seen, released, &subscription));
    OK(cgpc_rendezvous_destroy(client, handle));
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_subscribe(client, handle, 0, NULL, notified, &seen, released, &subscription));
    CHECK(fault() == CGPC_FAULT_DESTROYED && seen.released == 4);
}

static void *waits(void *arg) {
    cgpc_completion *completion;
    int round;
    for (round = 0; round < 20; round++) {
        OK(cgpc_rendezvous_wait(client, arg, CGPC_SCOPE_OWN, NULL, LIMIT_US, &completion));
        OK(cgpc_completion_free(completion));
    }
    return NULL;
}

static void threads(void) {
    pthread_t many[4];
    char handle[CGPC_HANDLE_SIZE];
    int i;
    create(1, handle);
    for (i = 0; i < 4; i++) CHECK(pthread_create(&many[i], NULL, waits, handle) == 0);
    registers(handle, 0, "a");
    for (i = 0; i < 4; i++) CHECK(pthread_join(many[i], NULL) == 0);
}

static void forks(void) {
    cgpc_notification notification = {.size = sizeof notification};
    char handle[CGPC_HANDLE_SIZE];
    cgpc_subscription *subscription;
    cgpc_rendezvous *parents = client;
    int status;
    pid_t child;
    create(2, handle);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, NULL, NULL, NULL, &subscription));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        IS(CGPC_ERR_FORKED, cgpc_rendezvous_destroy(parents, handle));
        IS(CGPC_ERR_FORKED, cgpc_subscription_next(subscription, 0, &notification));
        IS(CGPC_ERR_FORKED, cgpc_subscription_free(subscription));
        IS(CGPC_ERR_FORKED, cgpc_rendezvous_free(parents));
        /* A client of its own. */
        OK(cgpc_rendezvous_new(NULL, &client));
        registers(handle, 0, "child");
        OK(cgpc_rendezvous_free(client));
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    registers(handle, 1, "b");
    do OK(cgpc_subscription_next(subscription, LIMIT_US, &notification));
    while (notification.kind == CGPC_NOTIFY_TALLY);
    CHECK(notification.kind == CGPC_NOTIFY_COMPLETED);
    OK(cgpc_subscription_free(subscription));
}

static void wrong_uses(void) {
    char handle[CGPC_HANDLE_SIZE], small[40];
    cgpc_rendezvous_spec spec = {.size = sizeof spec, .capacity = 1};
    cgpc_rendezvous_options options = {.size = sizeof options, .token_file = "/nowhere"};
    cgpc_completion *completion;
    cgpc_rendezvous *none = NULL;
    create(1, handle);
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_new(&options, &none));
    CHECK(none == NULL);
    /* A client needs no handle, and one that is wrong is no error. */
    CHECK(setenv("GPC_JOB_HANDLE", "no handle", 1) == 0);
    OK(cgpc_rendezvous_new(NULL, &none));
    OK(cgpc_rendezvous_free(none));
    none = NULL;
    CHECK(unsetenv("GPC_JOB_HANDLE") == 0);
    IS(CGPC_ERR_TRUNCATED, cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, small, sizeof small, NULL));
    /* Nothing was asked for. */
    CHECK(strstr(cgpc_last_message(), "give it 1058") != NULL);
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_create(client, "ftp://here", &spec, handle, sizeof handle, NULL));
    spec.parent_rank = -7;
    spec.parent = handle;
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, sizeof handle, NULL));
    spec.parent = NULL;
    spec.joint = 3;
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, sizeof handle, NULL));
    spec.joint = 0;
    spec.job = "none";
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, sizeof handle, NULL));
    spec.job = NULL;
    spec.capacity = 0;
    IS(CGPC_ERR_FAULT, cgpc_rendezvous_create(client, getenv("SERVICE"), &spec, handle, sizeof handle, NULL));
    CHECK(fault() == CGPC_FAULT_CAPACITY_ZERO);
    IS(CGPC_ERR_TRUNCATED, cgpc_rendezvous_token(small, sizeof small));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_register(client, handle, -2, "t", "x", 1, 0, NULL, NULL, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_register(client, handle, 0, "two words", "x", 1, 0, NULL, NULL, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_register(client, handle, 0, NULL, "x", 1, 0, NULL, NULL, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_register(client, handle, 0, "t", NULL, 1, 0, NULL, NULL, NULL));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_wait(client, handle, 2, NULL, 0, &completion));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_wait(client, "http://a/rendezvous", 0, NULL, 0, &completion));
}

/* The id of a resource of these services does not matter. */
static const char *resource_of(const char *variable, char handle[CGPC_HANDLE_SIZE]) {
    snprintf(handle, CGPC_HANDLE_SIZE, "%s?000102030405060708090a0b0c0d0e0f", getenv(variable));
    return handle;
}

static void bad_services(void) {
    char handle[CGPC_HANDLE_SIZE];
    cgpc_rendezvous *impatient = hasty();
    cgpc_rendezvous_properties_of properties = {.size = sizeof properties};
    cgpc_subscription *subscription = NULL;
    cgpc_completion *completion;
    const char *services[] = {"SILENT", "CLOSING", "NONSENSE", "ENDLESS"};
    size_t i;
    for (i = 0; i < sizeof services / sizeof *services; i++) {
        resource_of(services[i], handle);
        IS(CGPC_ERR_SERVER, cgpc_rendezvous_properties(impatient, handle, &properties));
        IS(CGPC_ERR_SERVER, cgpc_rendezvous_wait(impatient, handle, CGPC_SCOPE_OWN, NULL, 100000, &completion));
        IS(CGPC_ERR_SERVER, cgpc_rendezvous_subscribe(impatient, handle, 0, NULL, NULL, NULL, NULL, &subscription));
    }
    CHECK(subscription == NULL);
    OK(cgpc_rendezvous_free(impatient));
}

/* Streams that are lost: one is opened again, and the service of the other one stays away. */
static void lost_streams(void) {
    char handle[CGPC_HANDLE_SIZE];
    cgpc_rendezvous *impatient = hasty();
    cgpc_subscription *subscription;
    struct seen seen;
    prepare(&seen);
    resource_of("RESTARTED", handle);
    OK(cgpc_rendezvous_subscribe(client, handle, 0, NULL, notified, &seen, released, &subscription));
    UNTIL(&seen, seen.completed + seen.failed == 1);
    CHECK(seen.completed == 1 && seen.tallies == 1);
    OK(cgpc_subscription_free(subscription));
    prepare(&seen);
    resource_of("LEAVING", handle);
    OK(cgpc_rendezvous_subscribe(impatient, handle, 0, NULL, notified, &seen, released, &subscription));
    UNTIL(&seen, seen.completed + seen.failed == 1);
    CHECK(seen.failed == 1 && seen.fault == 0);
    OK(cgpc_subscription_free(subscription));
    OK(cgpc_rendezvous_free(impatient));
}

/* A signal ends no wait, and no other call fails. */
static void interrupted(void) {
    char handle[CGPC_HANDLE_SIZE];
    cgpc_subscription *subscription;
    cgpc_completion *completion;
    cgpc_notification notification = {.size = sizeof notification};
    set_interrupts(1);
    resources();
    create(1, handle);
    OK(cgpc_rendezvous_subscribe(client, handle, CGPC_SCOPE_OWN, NULL, NULL, NULL, NULL, &subscription));
    OK(cgpc_subscription_next(subscription, LIMIT_US, &notification));
    LASTS(50000, CGPC_PENDING, cgpc_subscription_next(subscription, 50000, &notification));
    LASTS(50000, CGPC_PENDING, cgpc_rendezvous_wait(client, handle, CGPC_SCOPE_OWN, NULL, 50000, &completion));
    OK(cgpc_subscription_free(subscription));
    OK(cgpc_rendezvous_destroy(client, handle));
}

int main(void) {
    OK(cgpc_rendezvous_new(NULL, &client));
    resources();
    interrupted();
    notifications();
    threads();
    forks();
    wrong_uses();
    bad_services();
    lost_streams();
    OK(cgpc_rendezvous_free(client));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_free(client));
    IS(CGPC_ERR_ARGUMENT, cgpc_rendezvous_token(NULL, 0));
    puts("done");
    return 0;
}
