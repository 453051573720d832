#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "die.h"

int tree_named(const char *name, enum tree *tree)
{
    static const char *const names[] = {[BINOMIAL] = "binomial", [FLAT] = "flat", [CHAIN] = "chain"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *tree = (enum tree)i;
            return 1;
        }
    return 0;
}

/* How long the next group is, of those that are left; `size` is how long the last one was, 0 before the first. */
static int group_length(enum tree tree, int size, int left)
{
    int length = tree == FLAT ? 1 : tree == CHAIN ? left : size ? 2 * size : 1;
    return length < left ? length : left;
}

static int larger_first(const void *one, const void *other)
{
    const struct slice *a = one, *b = other;
    return a->length != b->length ? b->length - a->length : a->start - b->start;
}

/* Cuts the slice of `place` into its children. */
static void split(enum tree tree, struct place *place)
{
    int left = place->mine.length - 1;
    int size = 0;
    place->child_count = 0;
    place->children = need(malloc(sizeof(struct slice) * (size_t)(left + 1)), "memory");
    while (left > 0) {
        size = group_length(tree, size, left);
        struct slice group = {place->mine.start + place->mine.length - left, size};
        place->children[place->child_count++] = group;
        left -= size;
    }
    qsort(place->children, (size_t)place->child_count, sizeof(struct slice), larger_first);
}

struct place tree_place(enum tree tree, int n, int id)
{
    struct place place = {.id = 0, .parent = -1, .mine = {0, n}};
    split(tree, &place);
    while (place.id != id) {
        struct slice *next = place.children;
        while (id < next->start || id >= next->start + next->length)
            next++;
        struct place below = {.id = next->start, .parent = place.id, .mine = *next};
        split(tree, &below);
        free(place.children);
        place = below;
    }
    return place;
}
