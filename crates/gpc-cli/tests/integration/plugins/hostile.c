/* Plug-ins that should not be loaded, and one whose functions misuse everything. CASE selects one. */
#define _GNU_SOURCE
#include <chained_gpc_plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OTHER_MAJOR,
    NEWER,
    OLDER,
    NO_MAGIC,
    NULL_LOAD,
    A_FUNCTION,
    NO_ENTRY,
    RETURNS_SEVEN,
    RETURNS_STATE,
    REFUSES,
    TAKEN,
    TAKEN_TREE,
    MISUSES,
    UNRESOLVED,
};

static const cgpc_plugin_table *gpc;

#define EXPECT(condition)                                            \
    if (!(condition)) {                                              \
        return gpc->error->refuse("line " LINE ": " #condition);     \
    }
#define TEXT(line) #line
#define TEXT_OF(line) TEXT(line)
#define LINE TEXT_OF(__LINE__)

/* Fails with the first wrong status. */
#define EXPECT_HERE(condition)                                       \
    if (!(condition)) {                                              \
        gpc->reply->explain(reply, "line " LINE ": " #condition);    \
        return 1;                                                    \
    }

static int echo(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    (void)request, (void)arg;
    return gpc->reply->set_data(reply, "mine", 4);
}

/* More header than a request may have. */
static int header(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    static char bytes[70000];
    (void)request, (void)arg;
    EXPECT_HERE(gpc->reply->set_header(reply, bytes, sizeof bytes) == CGPC_OK);
    return 0;
}

/* More than there is memory for, then nonsense. */
static int misuse(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    void *place = NULL;
    size_t length = 0;
    uint32_t id;
    EXPECT_HERE(arg == &gpc);
    EXPECT_HERE(gpc->reply->resize(reply, (size_t)1 << 50, &place) == CGPC_ERR_LENGTH && place == NULL);
    EXPECT_HERE(gpc->reply->set_data(reply, NULL, 1) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->reply->data(NULL, &place, &length) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->reply->data(reply, NULL, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->request->me(NULL, &id) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->request->me((const cgpc_request *)reply, &id) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->request->me(request, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT_HERE(gpc->token->free((cgpc_token *)reply) == CGPC_ERR_ARGUMENT);
    return gpc->reply->set_data(reply, "survived", 8);
}

/* Replies twice by one token. */
static int twice(const cgpc_request *request, cgpc_token *token, void *arg) {
    (void)request, (void)arg;
    if (gpc->token->reply(token, NULL, 0, "first", 5) != CGPC_OK ||
        gpc->token->reply(token, NULL, 0, "second", 6) != CGPC_ERR_ARGUMENT ||
        gpc->token->fail(token, 1, "late") != CGPC_ERR_ARGUMENT) {
        abort();
    }
    return 0;
}

/* Frees its token, so that nothing replies. */
static int dropped(const cgpc_request *request, cgpc_token *token, void *arg) {
    (void)request, (void)arg;
    return gpc->token->free(token);
}

/* Neither replies nor frees its token. */
static int forgotten(const cgpc_request *request, cgpc_token *token, void *arg) {
    (void)request, (void)token, (void)arg;
    return 0;
}

static int crash(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    (void)reply, (void)arg;
    gpc->request->me(request, &me);
    if (me == 2) {
        abort();
    }
    return 0;
}

/* Runs until its process is killed. */
static int endless(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    (void)reply, (void)arg;
    gpc->request->me(request, &me);
    fprintf(stderr, "id %u is inside\n", (unsigned)me);
    while (me == 2) {
        sleep(1);
    }
    return 0;
}

/* Groups that do not add up. */
static size_t bad(uint32_t count, uint32_t *groups, size_t capacity, void *arg) {
    (void)arg;
    if (capacity > 0) {
        groups[0] = count;
    }
    return 1;
}

static size_t chain(uint32_t count, uint32_t *groups, size_t capacity, void *arg) {
    (void)arg;
    if (capacity > 0) {
        groups[0] = count - 1;
    }
    return 1;
}

static int misuses(cgpc_context *context) {
    cgpc_function_options options = {.size = 3};
    cgpc_function number;
    EXPECT(gpc->size >= sizeof(cgpc_plugin_table) && gpc->version / 1000 == CGPC_PLUGIN_VERSION / 1000);
    EXPECT(gpc->add->func(NULL, "a", echo, NULL, NULL, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT(gpc->add->func(context, NULL, echo, NULL, NULL, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT(gpc->add->func(context, "", echo, NULL, NULL, NULL) == CGPC_ERR_FUNCTION);
    EXPECT(gpc->add->func(context, "a", NULL, NULL, NULL, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT(gpc->add->func(context, "a", echo, NULL, &options, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT(gpc->add->callback(context, "echo", NULL, NULL, NULL, NULL) == CGPC_ERR_ARGUMENT);
    EXPECT(gpc->add->func(context, "echo", echo, NULL, NULL, NULL) == CGPC_ERR_FUNCTION);
    EXPECT(gpc->add->tree(context, "binary", chain, NULL, NULL) == CGPC_ERR_TREE);
    EXPECT(gpc->add->release(context, 7) == CGPC_ERR_FUNCTION);
    /* A released name can be registered again. */
    EXPECT(gpc->add->func(context, "misuse", echo, NULL, NULL, &number) == CGPC_OK);
    EXPECT(gpc->add->release(context, number) == CGPC_OK);
    EXPECT(gpc->add->func(context, "misuse", misuse, &gpc, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->func(context, "header", header, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->func(context, "crash", crash, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->func(context, "endless", endless, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->deferring(context, "twice", twice, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->deferring(context, "dropped", dropped, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->deferring(context, "forgotten", forgotten, NULL, NULL, NULL) == CGPC_OK);
    EXPECT(gpc->add->tree(context, "bad", bad, NULL, NULL) == CGPC_OK);
    return gpc->add->tree(context, "line", chain, NULL, NULL);
}

static int load(const cgpc_plugin_table *table, cgpc_context *context) {
    gpc = table;
    fprintf(stderr, "load runs\n");
    switch (CASE) {
    case RETURNS_SEVEN:
        return 7;
    case RETURNS_STATE:
        return CGPC_ERR_STATE;
    case REFUSES:
        gpc->add->func(NULL, "an earlier error", NULL, NULL, NULL, NULL);
        return gpc->error->refuse("there is no camera");
    case TAKEN:
        return gpc->add->func(context, "echo", echo, NULL, NULL, NULL);
    case TAKEN_TREE:
        return gpc->add->tree(context, "line", chain, NULL, NULL);
    case MISUSES:
        return misuses(context);
    default:
        return gpc->add->func(context, "older", echo, NULL, NULL, NULL);
    }
}

#if CASE == 0 || CASE == 1 || CASE == 2 || CASE == 3 || CASE == 4
CGPC_PLUGIN_DECLARE const cgpc_plugin cgpc_plugin_entry;
const cgpc_plugin cgpc_plugin_entry = {
    CASE == NO_MAGIC ? 1 : CGPC_PLUGIN_MAGIC,
    CASE == OTHER_MAJOR ? CGPC_PLUGIN_VERSION + 1000
    : CASE == NEWER     ? CGPC_PLUGIN_VERSION + 1
    : CASE == OLDER     ? CGPC_PLUGIN_VERSION / 1000 * 1000
                        : CGPC_PLUGIN_VERSION,
    0,
    CASE == NULL_LOAD ? NULL : load,
};
#elif CASE == 5
__attribute__((visibility("default"))) int cgpc_plugin_entry(void) {
    fputs("it runs\n", stderr);
    return 0;
}
#elif CASE == 6
__attribute__((visibility("default"))) int (*another)(const cgpc_plugin_table *, cgpc_context *) = load;
#elif CASE == 13
/* Calls a function of the header itself, and not one of the table. */
__attribute__((visibility("default"))) uint32_t another(void) {
    return cgpc_version();
}
CGPC_PLUGIN(load);
#else
CGPC_PLUGIN(load);
#endif
