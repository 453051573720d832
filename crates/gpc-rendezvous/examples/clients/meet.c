/*
 * One task of a rendezvous, with sockets alone: registers its contact, waits for all others, prints the contacts of
 * all, one a line, in the order of their ranks.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -Werror -o meet meet.c
 *     meet CONTACT [RANK]      RANK is `assign` unless it is given
 *     meet --decode LEVEL      prints the data of all tasks in the level-n data at standard input
 *
 * GPC_JOB_HANDLE               where this task registers
 * GPC_MULTIJOB_HANDLE          the resource above; used where the service does not register there itself
 * GPC_SUBJOB_RANK              the rank of this job there
 * GPC_RENDEZVOUS_TOKEN_FILE    the file that has the service's token, if it wants one
 * MEET_SECONDS                 how long to try, 300 unless it is set
 *
 * It speaks http alone. Bytes that a terminal would act upon, and backslashes, are printed as \xNN.
 */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Longest answer that is taken: beyond what a service holds by default. */
#define ANSWER_MAX ((size_t)2 << 30)
/* Highest level that a service has. */
#define LEVEL_MAX 64
/* One request takes at most so long; a wait for the completion asks for less. */
#define REQUEST_MS 60000

struct bytes {
    char *at;
    size_t length, room;
};

struct answer {
    int status;
    unsigned long level;
    struct bytes all; /* head and body */
    const char *body;
    size_t length; /* of the body */
};

/* Where a resource is: http://HOST:PORT/PATH?ID. */
struct resource {
    char host[256], port[6], path[1100];
};

static char token[33];
static char authorization[160];
static int64_t until; /* milliseconds of the monotonic clock */
static const char *last = "there was no answer";

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("meet: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) fail("no clock: %s", strerror(errno));
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void print(const char *data, size_t length, FILE *to) {
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)data[i];
        int said = byte < 32 || byte == '\\' || byte == 127 ? fprintf(to, "\\x%02x", byte) : fputc(byte, to);
        if (said < 0) fail("cannot print: %s", strerror(errno));
    }
}

/* Room for one byte more than there is, so that text can be ended. It grows as bytes come. */
static void make_room(struct bytes *bytes, size_t more) {
    if (more > ANSWER_MAX - bytes->length) fail("over %zu bytes", ANSWER_MAX);
    size_t room = bytes->room ? bytes->room : 4096;
    while (room < bytes->length + more + 1) room *= 2;
    if (room == bytes->room) return;
    char *at = realloc(bytes->at, room);
    if (!at) fail("no memory for %zu bytes", room);
    bytes->at = at;
    bytes->room = room;
}

/* ---- level-n data ---- */

/* Prints each task's data as a line, or only checks them: nothing may be missing or left over. */
static void decode(unsigned long level, const char *data, size_t length, FILE *to) {
    uint64_t missing[LEVEL_MAX + 1]; /* of each level: how many values more the open one wants */
    size_t at = 0;
    if (level > LEVEL_MAX) fail("level %lu is over %d", level, LEVEL_MAX);
    for (unsigned long depth = level;;) {
        uint64_t count = 0;
        size_t digits = at;
        for (; at < length && isdigit((unsigned char)data[at]); at++) {
            if (at - digits == 15) fail("byte %zu of the data: a count is too large", at);
            count = count * 10 + (uint64_t)(data[at] - '0');
        }
        bool zeros = at - digits > 1 && data[digits] == '0';
        if (at == digits || zeros || at == length || data[at] != ' ')
            fail("byte %zu of the data: a count is missing or malformed", digits);
        at++;
        if (depth > 0 && count > 0) {
            missing[depth--] = count;
            continue;
        }
        if (depth == 0) {
            if (count > length - at) fail("the data end too early");
            if (to) {
                print(data + at, (size_t)count, to);
                if (fputc('\n', to) < 0) fail("cannot print: %s", strerror(errno));
            }
            at += (size_t)count;
        }
        /* A value is whole. The one around it wants one less, and is whole where it wants none. */
        while (depth < level && --missing[depth + 1] == 0) depth++;
        if (depth == level) break;
    }
    if (at != length) fail("byte %zu of the data: something follows them", at);
}

static int decode_input(const char *level) {
    struct bytes data = {0};
    size_t got;
    do {
        make_room(&data, 65536);
        got = fread(data.at + data.length, 1, 65536, stdin);
        data.length += got;
    } while (got > 0);
    if (ferror(stdin)) fail("cannot read: %s", strerror(errno));
    char *end;
    unsigned long number = strtoul(level, &end, 10);
    if (!isdigit((unsigned char)level[0]) || *end) fail("%s is no level", level);
    decode(number, data.at, data.length, NULL);
    decode(number, data.at, data.length, stdout);
    free(data.at);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* ---- HTTP ---- */

static struct resource resource_of(const char *handle) {
    struct resource found;
    char unused;
    memset(&found, 0, sizeof found);
    const char *host = handle + strlen("http://"), *id = strchr(handle, '?');
    if (strncmp(handle, "http://", strlen("http://")) != 0 || !id)
        fail("a handle is http://HOST:PORT/PATH?ID, and this client speaks http alone");
    size_t authority = strcspn(host, "/?");
    bool six = host[0] == '[';
    const char *host_end = six ? memchr(host, ']', authority) : memchr(host, ':', authority);
    if (!host_end) host_end = host + authority;
    const char *name = six ? host + 1 : host;
    const char *port = host_end + (six && *host_end == ']');
    size_t name_length = (size_t)(host_end - name), port_length = (size_t)(host + authority - port);
    if (name_length == 0 || name_length >= sizeof found.host) fail("a handle has a host of 1 to 255 letters");
    memcpy(found.host, name, name_length);
    if (port_length == 0) {
        memcpy(found.port, "80", 3);
    } else {
        unsigned number;
        if (port_length > 6 || sscanf(port, ":%5u%c", &number, &unused) < 1 || number > 65535) fail("the port of a handle is a number");
        snprintf(found.port, sizeof found.port, "%u", number);
    }
    const char *path = host + authority;
    int length = snprintf(found.path, sizeof found.path, "%.*s/%s", (int)(id - path), path, id + 1);
    if (length < 0 || (size_t)length >= sizeof found.path) fail("the handle is too long");
    if (strcspn(found.path, " \t\r\n?#") != (size_t)length) fail("a handle is printable letters without spaces");
    return found;
}

/* Waits until the socket is ready; false when the time is over. */
static bool ready(int socket, short event, int64_t end) {
    for (;;) {
        int64_t left = end - now();
        if (left <= 0) return false;
        struct pollfd poll_for = {.fd = socket, .events = event};
        int found = poll(&poll_for, 1, left > REQUEST_MS ? REQUEST_MS : (int)left);
        if (found > 0) return true;
        if (found < 0 && errno != EINTR) fail("poll: %s", strerror(errno));
    }
}

static bool connected(int socket, const struct addrinfo *address, int64_t end) {
    int flags = fcntl(socket, F_GETFL), error = 0;
    socklen_t size = sizeof error;
    if (flags < 0 || fcntl(socket, F_SETFL, flags | O_NONBLOCK) < 0) fail("fcntl: %s", strerror(errno));
    if (connect(socket, address->ai_addr, address->ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS && errno != EINTR) return false;
    if (!ready(socket, POLLOUT, end)) {
        errno = ETIMEDOUT;
        return false;
    }
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    errno = error;
    return error == 0;
}

/* A socket that is connected; -1 where there is none. */
static int open_connection(const struct resource *resource, int64_t end) {
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    int wrong = getaddrinfo(resource->host, resource->port, &hints, &found);
    if (wrong != 0) {
        last = gai_strerror(wrong);
        return -1;
    }
    int opened = -1;
    for (struct addrinfo *address = found; address && opened < 0; address = address->ai_next) {
        opened = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
        if (opened < 0 || connected(opened, address, end)) continue;
        last = strerror(errno);
        if (close(opened) != 0) last = strerror(errno);
        opened = -1;
    }
    freeaddrinfo(found);
    return opened;
}

static bool send_all(int socket, const char *data, size_t length, int64_t end) {
    while (length > 0) {
        if (!ready(socket, POLLOUT, end)) return false;
        ssize_t sent = send(socket, data, length, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (sent < 0) {
            last = strerror(errno);
            return false;
        }
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* All bytes until the other side closes, as it does after an answer to HTTP/1.0. */
static bool receive_all(int socket, struct bytes *all, int64_t end) {
    for (;;) {
        if (!ready(socket, POLLIN, end)) return false;
        make_room(all, 65536);
        ssize_t got = recv(socket, all->at + all->length, 65536, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got < 0) {
            last = strerror(errno);
            return false;
        }
        if (got == 0) return true;
        all->length += (size_t)got;
    }
}

/* Finds status, level and body in the bytes of an answer; false where they are not whole. */
static bool understood(struct answer *answer) {
    struct bytes *all = &answer->all;
    if (!all->at) return false;
    all->at[all->length] = '\0';
    char *head_end = strstr(all->at, "\r\n\r\n");
    if (!head_end || sscanf(all->at, "HTTP/1.%*1[01] %3d ", &answer->status) != 1) return false;
    answer->body = head_end + 4;
    answer->length = all->length - (size_t)(answer->body - all->at);
    *head_end = '\0';
    for (char *line = strstr(all->at, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        unsigned long long number;
        if (strncasecmp(line, "rendezvous-level:", 17) == 0 && sscanf(line + 17, "%llu", &number) == 1)
            answer->level = (unsigned long)number;
        if (strncasecmp(line, "content-length:", 15) == 0 &&
            (sscanf(line + 15, "%llu", &number) != 1 || number != answer->length))
            return false;
    }
    return true;
}

/* Asks once. */
static bool asked(const struct resource *to, const char *head, const char *data, size_t length, struct answer *answer) {
    int64_t end = now() + REQUEST_MS;
    if (end > until) end = until;
    last = "there was no answer in time";
    int socket = open_connection(to, end);
    if (socket < 0) return false;
    bool done = send_all(socket, head, strlen(head), end) && send_all(socket, data, length, end) &&
                receive_all(socket, &answer->all, end);
    if (close(socket) != 0) fail("close: %s", strerror(errno));
    if (!done) return false;
    last = "the answer was cut off";
    return understood(answer);
}

/* Asks until there is an answer. The same token makes it safe to ask again where one was lost. */
static struct answer ask(const char *method, const struct resource *to, const char *what, const char *data, size_t length) {
    char head[4096];
    int size = snprintf(head, sizeof head,
                        "%s %s%s HTTP/1.0\r\nConnection: close\r\nHost: %s%s%s:%s\r\nRegistrant-Token: %s\r\n%s"
                        "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
                        method, to->path, what, strchr(to->host, ':') ? "[" : "", to->host,
                        strchr(to->host, ':') ? "]" : "", to->port, token, authorization, length);
    if (size < 0 || (size_t)size >= sizeof head) fail("the handle is too long");
    while (now() < until) {
        struct answer answer;
        memset(&answer, 0, sizeof answer);
        if (asked(to, head, data, length, &answer)) {
            /* A service that is full or is ending says 503. */
            if (answer.status != 503) return answer;
            last = "the service is full or is ending";
        }
        free(answer.all.at);
        struct timespec second = {.tv_sec = 1};
        if (nanosleep(&second, NULL) != 0 && errno != EINTR) fail("nanosleep: %s", strerror(errno));
    }
    fail("there was no completion in time; the last failure: %s", last);
    exit(1);
}

/* What the service says of a failure. */
static void refuse(const struct answer *answer) {
    fprintf(stderr, "meet: status %d: ", answer->status);
    print(answer->body, answer->length < 600 ? answer->length : 600, stderr);
    fputc('\n', stderr);
    exit(1);
}

/* ---- the rendezvous ---- */

/* Waits until the rendezvous is complete. Registers data before, if there are any, and again each time: that keeps the
 * registration, and brings it back if this task was silent for longer than its lease. */
static struct answer meet(const char *handle, const char *wanted, char rank[24], const char *data, size_t length) {
    struct resource to = resource_of(handle);
    for (;;) {
        if (data) {
            char what[80];
            int size = snprintf(what, sizeof what, "/registrants?rank=%s&lease=60", wanted);
            if (size < 0 || (size_t)size >= sizeof what) fail("the rank is too long");
            struct answer answer = ask("POST", &to, what, data, length);
            const char *found = answer.status == 201 ? strstr(answer.body, "\"rank\":") : NULL;
            if (!found || sscanf(found, "\"rank\": %20[0-9]", rank) != 1) refuse(&answer);
            free(answer.all.at);
        }
        struct answer answer = ask("GET", &to, "/completion?of=top&wait=20", "", 0);
        if (answer.status == 200) return answer;
        if (answer.status != 204) refuse(&answer);
        free(answer.all.at);
    }
}

/* A variable of the environment, by its neutral name or the original one. */
static const char *variable(const char *name) {
    char neutral[64], original[64];
    snprintf(neutral, sizeof neutral, "GPC_%s", name);
    snprintf(original, sizeof original, "GLOBUS_GRAM_%s", name);
    const char *value = getenv(neutral);
    if (!value || !*value) value = getenv(original);
    return value && *value ? value : NULL;
}

static void prepare(void) {
    const char *seconds = getenv("MEET_SECONDS");
    long long limit = seconds ? strtoll(seconds, NULL, 10) : 300;
    if (limit < 1 || limit > 1000000) fail("MEET_SECONDS is a number from 1 to 1000000");
    until = now() + limit * 1000;

    unsigned char drawn[16];
    FILE *random = fopen("/dev/urandom", "rb");
    if (!random || fread(drawn, 1, sizeof drawn, random) != sizeof drawn) fail("/dev/urandom: %s", strerror(errno));
    if (fclose(random) != 0) fail("/dev/urandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof drawn; i++) snprintf(token + 2 * i, 3, "%02x", drawn[i]);

    const char *path = getenv("GPC_RENDEZVOUS_TOKEN_FILE");
    if (!path || !*path) return;
    char line[130];
    FILE *file = fopen(path, "r");
    if (!file) fail("%s: %s", path, strerror(errno));
    if (!fgets(line, sizeof line, file)) fail("%s has no token", path);
    if (fclose(file) != 0) fail("%s: %s", path, strerror(errno));
    line[strcspn(line, "\r\n")] = '\0';
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s\r\n", line);
}

int main(int count, char **arguments) {
    bool decodes = count > 1 && strcmp(arguments[1], "--decode") == 0;
    if (decodes && count == 3) return decode_input(arguments[2]);
    if (decodes || count < 2 || count > 3) fail("usage: meet CONTACT [RANK], or meet --decode LEVEL");
    const char *contact = arguments[1];
    const char *job = variable("JOB_HANDLE"), *multijob = variable("MULTIJOB_HANDLE"), *subjob = variable("SUBJOB_RANK");
    if (!job) fail("GPC_JOB_HANDLE is not set: it says where to register");
    prepare();

    const char *wanted = count == 3 ? arguments[2] : "assign", *above = subjob ? subjob : "assign";
    if (strcspn(wanted, " \r\n&#") != strlen(wanted) || strcspn(above, " \r\n&#") != strlen(above)) fail("a rank is a number");
    char rank[24] = "", unused[24] = "";
    struct answer whole = meet(job, wanted, rank, contact, strlen(contact));
    if (multijob && whole.level == 1) {
        /* The service does not register above: the task of rank 0 is the controlling task. */
        bool controls = strcmp(rank, "0") == 0;
        struct answer unit = whole;
        whole = meet(multijob, above, unused, controls ? unit.body : NULL, unit.length);
        free(unit.all.at);
    }
    decode(whole.level, whole.body, whole.length, NULL);
    decode(whole.level, whole.body, whole.length, stdout);
    free(whole.all.at);
    return fflush(stdout) == 0 ? 0 : 1;
}
