/* An ordered reduction: matrices are multiplied in the order of the ids, whatever the tree. The order matters, because
 * matrix products do not commute.
 *
 *     cc reduce.c $(pkg-config --cflags --libs chained_gpc) -o reduce && mpiexec -n 8 ./reduce */
#include <string.h>

#include "must.h"

typedef struct {
    uint64_t at[2][2];
} matrix;

static matrix of_id(uint32_t id) { return (matrix){{{id + 1, id}, {1, 1}}}; }

static matrix times(const matrix *left, const matrix *right) {
    matrix product;
    int row, column;
    for (row = 0; row < 2; row++) {
        for (column = 0; column < 2; column++) {
            product.at[row][column] =
                left->at[row][0] * right->at[0][column] + left->at[row][1] * right->at[1][column];
        }
    }
    return product;
}

/* The func: the matrix of this id. */
static int own(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint32_t id;
    matrix mine;
    (void)arg;
    must(cgpc_request_me(request, &id));
    mine = of_id(id);
    return cgpc_reply_set_data(reply, &mine, sizeof mine);
}

/* The callback: it is not registered as commutative, so the children come in the order of the list. */
static int multiply(const cgpc_request *request, const cgpc_child *child, cgpc_reply *reply, void *arg) {
    matrix left, right;
    void *data;
    size_t length;
    (void)request;
    (void)arg;
    must(cgpc_reply_data(reply, &data, &length));
    if (length != sizeof left || child->data_len != sizeof right) {
        must(cgpc_reply_explain(reply, "a reply is no matrix"));
        return 1;
    }
    memcpy(&left, data, sizeof left);
    memcpy(&right, child->data, sizeof right);
    left = times(&left, &right);
    memcpy(data, &left, sizeof left);
    return 0;
}

/* The product along a list of ids, by a call and by a loop. Returns whether they are equal. */
static int is_right(cgpc_context *context, cgpc_call_args *args, const uint32_t *ids, uint32_t count) {
    matrix product, expected = {{{1, 0}, {0, 1}}};
    size_t length = sizeof product;
    uint32_t at;
    args->ids = ids;
    args->id_count = count;
    must(cgpc_call_run_into(context, args, NULL, NULL, &product, &length, NULL));
    for (at = 0; at < count; at++) {
        matrix next = of_id(ids[at]);
        expected = times(&expected, &next);
    }
    return length == sizeof product && memcmp(&product, &expected, sizeof product) == 0;
}

int main(void) {
    static const char *const trees[] = {"binary", "binomial", "chain", "flat", "kary:3"};
    cgpc_context *context;
    cgpc_call_args args = {.size = sizeof args};
    uint32_t id, count, at;
    int right = 1;
    must(cgpc_context_new(&context));
    must(cgpc_register(context, "own", own, NULL, NULL, &args.func));
    must(cgpc_register_callback(context, "multiply", multiply, NULL, NULL, &args.callback));
    must(cgpc_start_launched(context, NULL));
    must(cgpc_id(context, &id));
    must(cgpc_count(context, &count));
    if (id == 0) {
        uint32_t *ids = calloc(count, sizeof *ids);
        size_t tree;
        if (ids == NULL) {
            return 1;
        }
        for (tree = 0; tree < sizeof trees / sizeof *trees; tree++) {
            cgpc_tree *shape;
            must(cgpc_tree_named(context, trees[tree], &shape));
            args.tree = shape;
            for (at = 0; at < count; at++) {
                ids[at] = at;
            }
            right = is_right(context, &args, ids, count) && right;
            /* The caller is first; the others may come in any order, here backwards. */
            for (at = 1; at < count; at++) {
                ids[at] = count - at;
            }
            right = is_right(context, &args, ids, count) && right;
            must(cgpc_tree_free(shape));
        }
        printf("%u ids, products in order: %s\n", count, right ? "yes" : "no");
        free(ids);
    } else {
        must(cgpc_serve(context));
    }
    must(cgpc_finalize(context, 1000000));
    return !right;
}
