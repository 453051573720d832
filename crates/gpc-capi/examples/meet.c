/* meet.c: one task of a rendezvous. It subscribes, registers its contact, and prints the contacts of all, by rank.
 *
 *     meet CONTACT [RANK]      RANK is `assign` unless it is given
 *
 * GPC_JOB_HANDLE is the resource where this task registers. If GPC_MULTIJOB_HANDLE is set, and the service does not
 * register the job there by itself, the task of rank 0 does, with the rank GPC_SUBJOB_RANK: it is the controlling task.
 * The library reads GPC_RENDEZVOUS_TOKEN_FILE and GPC_RENDEZVOUS_CA_FILE. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <gpc_rendezvous.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "must.h"

/* How long this task waits for the others. */
#define LIMIT_S 100

/* What the notifications of a resource say. */
struct meeting {
    sem_t over;
    int status;
    uint16_t level;
    void *data;
    size_t length;
    char why[256];
};

/* Runs on the thread of the subscription. */
static void notified(const cgpc_notification *notification, void *arg) {
    struct meeting *meeting = arg;
    if (notification->kind == CGPC_NOTIFY_TALLY) return;
    meeting->status = notification->status;
    meeting->level = (uint16_t)notification->level;
    meeting->length = notification->length;
    if (notification->kind == CGPC_NOTIFY_FAILED) {
        snprintf(meeting->why, sizeof meeting->why, "%s", notification->message);
    } else {
        meeting->data = malloc(notification->length + 1);
        if (meeting->data == NULL) meeting->status = CGPC_ERR_SYSTEM;
        else memcpy(meeting->data, notification->data, notification->length);
    }
    sem_post(&meeting->over);
}

static void fail(const char *why) {
    fprintf(stderr, "meet: %s\n", why);
    exit(1);
}

/* Subscribes to a resource; registers data there if there are any, and returns the rank; waits until all are there. */
static uint32_t meet(cgpc_rendezvous *client, const char *resource, int64_t rank, const void *data, size_t length,
                     struct meeting *meeting) {
    cgpc_subscription *subscription;
    struct timespec until;
    char token[CGPC_TOKEN_SIZE];
    uint32_t own = 0;
    int waited;
    memset(meeting, 0, sizeof *meeting);
    if (sem_init(&meeting->over, 0, 0) != 0 || clock_gettime(CLOCK_REALTIME, &until) != 0) fail("no semaphore");
    until.tv_sec += LIMIT_S;
    must(cgpc_rendezvous_token(token, sizeof token));
    must(cgpc_rendezvous_subscribe(client, resource, CGPC_SCOPE_TOP, token, notified, meeting, NULL, &subscription));
    if (data != NULL)
        must(cgpc_rendezvous_register(client, resource, rank, token, data, length, 0, &own, NULL, NULL));
    while ((waited = sem_timedwait(&meeting->over, &until)) != 0 && errno == EINTR) {
        /* A signal. */
    }
    if (waited != 0) fail("not all tasks have come");
    must(cgpc_subscription_free(subscription));
    sem_destroy(&meeting->over);
    if (meeting->status != CGPC_OK) fail(meeting->why);
    return own;
}

/* A variable of the environment, by its neutral name or that of the source. */
static const char *variable(const char *neutral, const char *original) {
    const char *value = getenv(neutral);
    if (value == NULL || *value == '\0') value = getenv(original);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* A rank; none, or `assign`, lets the resource assign one. */
static int64_t rank_of(const char *text) {
    char *end;
    long rank;
    if (text == NULL || strcmp(text, "assign") == 0) return CGPC_RANK_ASSIGN;
    rank = strtol(text, &end, 10);
    if (end == text || *end != '\0' || rank < 0) fail("a rank is a number from 0, or `assign`");
    return rank;
}

static int print(const void *contact, size_t length, void *arg) {
    (void)arg;
    fwrite(contact, 1, length, stdout);
    putchar('\n');
    return 0;
}

int main(int count, char **arguments) {
    const char *job = variable("GPC_JOB_HANDLE", "GLOBUS_GRAM_JOB_HANDLE");
    const char *multijob = variable("GPC_MULTIJOB_HANDLE", "GLOBUS_GRAM_MULTIJOB_HANDLE");
    const char *subjob = variable("GPC_SUBJOB_RANK", "GLOBUS_GRAM_SUBJOB_RANK");
    cgpc_rendezvous *client;
    struct meeting own, all;
    int64_t rank = rank_of(count > 2 ? arguments[2] : NULL), above = rank_of(subjob);
    if (count < 2 || job == NULL) fail("usage: GPC_JOB_HANDLE=... meet CONTACT [RANK]");
    must(cgpc_rendezvous_new(NULL, &client));
    rank = meet(client, job, rank, arguments[1], strlen(arguments[1]), &own);
    all = own;
    if (multijob != NULL && own.level == 1) {
        meet(client, multijob, above, rank == 0 ? own.data : NULL, own.length, &all);
        free(own.data);
    }
    must(cgpc_level_each(all.level, all.data, all.length, print, NULL));
    free(all.data);
    return must(cgpc_rendezvous_free(client));
}
