/* A plug-in in C: a minimum with the id that has it, and a tree.
 *
 *     cc -shared -fPIC -fvisibility=hidden $(pkg-config --cflags chained_gpc) plugin.c -o plugin.so
 *     gpc call load -n 8 --load plugin.so --callback least --tree thirds
 */
#include <chained_gpc_plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cgpc_plugin_table *gpc;

/* Replies with the load of the machine and this id: "0.25 3". */
static int load_here(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t me = 0;
    char text[64];
    double load;
    (void)arg;
    if (getloadavg(&load, 1) != 1) {
        gpc->reply->explain(reply, "the system does not report its load");
        return 1;
    }
    gpc->request->me(request, &me);
    snprintf(text, sizeof text, "%.2f %u", load, (unsigned)me);
    return gpc->reply->set_data(reply, text, strlen(text));
}

/* The number at the beginning of a reply. */
static double number(const void *data, size_t length) {
    char text[64];
    if (length >= sizeof text) {
        length = sizeof text - 1;
    }
    memcpy(text, data, length);
    text[length] = 0;
    return strtod(text, NULL);
}

/* Keeps the lower of two replies. */
static int least(const cgpc_request *request, const cgpc_child *child, cgpc_reply *own, void *arg) {
    void *data;
    size_t length;
    int status = gpc->reply->data(own, &data, &length);
    (void)request, (void)arg;
    if (status != CGPC_OK || number(data, length) <= number(child->data, child->data_len)) {
        return status;
    }
    return gpc->reply->set_data(own, child->data, child->data_len);
}

/* Cuts the ids after the first into three groups of about equal length. */
static size_t thirds(uint32_t count, uint32_t *groups, size_t capacity, void *arg) {
    size_t used = 0;
    (void)arg;
    for (uint32_t part = 0; part < 3; part++) {
        uint32_t length = (count - 1 + part) / 3;
        if (length > 0 && used++ < capacity) {
            groups[used - 1] = length;
        }
    }
    return used;
}

static int load(const cgpc_plugin_table *table, cgpc_context *context) {
    cgpc_function_options any_order = {.size = sizeof any_order, .flags = CGPC_COMMUTATIVE};
    int status;
    gpc = table;
    if ((status = gpc->add->func(context, "load", load_here, NULL, NULL, NULL)) != CGPC_OK ||
        (status = gpc->add->callback(context, "least", least, NULL, &any_order, NULL)) != CGPC_OK) {
        return status;
    }
    return gpc->add->tree(context, "thirds", thirds, NULL, NULL);
}

CGPC_PLUGIN(load);
