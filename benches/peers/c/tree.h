/* Trees as splits of a list, as chained GPC makes them: the first id of a slice is the receiver, the rest is cut into
 * consecutive groups, each group's first id is a child and the group is its subtree. */
#ifndef PEERS_TREE_H
#define PEERS_TREE_H

enum tree { BINOMIAL, FLAT, CHAIN };

/* Consecutive ids. */
struct slice {
    int start, length;
};

/* Where one id stands in the tree over 0 .. n-1. */
struct place {
    int id, parent; /* the parent is -1 at the root */
    struct slice mine;
    int child_count;
    struct slice *children; /* in the order in which they are sent to: the largest first */
};

/* Whether `name` is a tree; puts it into `tree`. */
int tree_named(const char *name, enum tree *tree);

/* Finds the place of `id` by walking down from the root. */
struct place tree_place(enum tree tree, int n, int id);

#endif
