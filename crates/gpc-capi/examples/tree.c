/* A call along trees of the application's own: one that splits lists, and one that lists children.
 *
 *     cc tree.c $(pkg-config --cflags --libs chained_gpc) -o tree && mpiexec -n 8 ./tree */
#include <string.h>

#include "must.h"

/* Each id replies with its parent; the root with itself. */
static int parent(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id;
    (void)arg;
    if (must(cgpc_request_parent(request, &id)) == CGPC_NONE) {
        must(cgpc_request_me(request, &id));
    }
    return cgpc_reply_set_data(reply, &id, sizeof id);
}

/* A split works at each id, on any list: here the rest of a list is cut into three parts. All processes register it. */
static size_t three(uint32_t count, uint32_t *groups, size_t capacity, void *arg) {
    uint32_t rest = count - 1, parts = rest < 3 ? rest : 3, part;
    (void)arg;
    for (part = 0; part < parts && part < capacity; part++) {
        groups[part] = rest / parts + (part < rest % parts);
    }
    return parts;
}

/* Children of positions: the classic heap. The caller alone has it, and its call carries the shape. */
static size_t heap(uint32_t position, uint32_t count, uint32_t *children, size_t capacity, void *arg) {
    size_t listed = 0;
    uint32_t child;
    (void)arg;
    for (child = 2 * position + 1; child <= 2 * position + 2 && child < count; child++, listed++) {
        if (listed < capacity) {
            children[listed] = child;
        }
    }
    return listed;
}

/* The parents of all ids in a call along a tree. */
static void parents(cgpc_context *context, cgpc_function func, const cgpc_tree *tree, uint32_t count, uint32_t *list) {
    cgpc_call_args args = {.size = sizeof args, .func = func, .id_count = count, .tree = tree};
    cgpc_outcome *outcome;
    uint32_t id;
    must(cgpc_call_run(context, &args, &outcome));
    for (id = 0; id < count; id++) {
        const void *data;
        size_t length;
        must(cgpc_outcome_reply(outcome, id, NULL, NULL, &data, &length));
        memcpy(&list[id], data, sizeof list[id]);
    }
    must(cgpc_outcome_free(outcome));
}

int main(void) {
    cgpc_context *context;
    cgpc_function func;
    uint32_t id, count, at, wrong = 0;
    must(cgpc_context_new(&context));
    must(cgpc_register(context, "parent", parent, NULL, NULL, &func));
    must(cgpc_tree_register(context, "three", three, NULL, NULL));
    must(cgpc_start_launched(context, NULL));
    must(cgpc_id(context, &id));
    must(cgpc_count(context, &count));
    if (id == 0) {
        uint32_t *list = calloc(count, sizeof *list), direct = 0;
        cgpc_tree *tree;
        if (list == NULL) {
            return 1;
        }
        must(cgpc_tree_named(context, "three", &tree));
        parents(context, func, tree, count, list);
        must(cgpc_tree_free(tree));
        for (at = 1; at < count; at++) {
            direct += list[at] == 0;
            wrong += list[at] >= at;
        }
        wrong += direct != (count - 1 < 3 ? count - 1 : 3);
        must(cgpc_tree_from_children(count, heap, NULL, &tree));
        parents(context, func, tree, count, list);
        must(cgpc_tree_free(tree));
        for (at = 1; at < count; at++) {
            wrong += list[at] != (at - 1) / 2;
        }
        printf("%u ids, %u wrong parents\n", count, wrong);
        free(list);
    } else {
        must(cgpc_serve(context));
    }
    must(cgpc_finalize(context, 1000000));
    return wrong != 0;
}
