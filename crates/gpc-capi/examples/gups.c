/* Random updates of a global table, as GUPS makes them, checked: the same updates made twice leave no trace.
 *
 *     cc gups.c $(pkg-config --cflags --libs chained_gpc) -o gups && mpiexec -n 4 ./gups */
#include "pgas.h"

#define WORDS 4096u    /* of each process */
#define UPDATES 8192u  /* of each process */
#define BATCH 64u      /* Updates of one owner travel together. */

typedef struct {
    pgas_update updates[BATCH];
    size_t count;
    cgpc_call *call; /* The batch before, under way. */
} batch;

static void send(const pgas *world, uint32_t owner, batch *to) {
    pgas_complete(to->call);
    to->call = to->count == 0 ? NULL : pgas_update_start(world, owner, to->updates, to->count);
    to->count = 0;
}

/* Makes all updates of this process. */
static void update(const pgas *world, batch *batches) {
    uint64_t random = 88172645463325252u + world->me;
    uint32_t owner, made;
    for (made = 0; made < UPDATES; made++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        pgas_update one = {random % ((uint64_t)WORDS * world->count), random};
        batch *to = &batches[owner = pgas_owner(world, one.index)];
        to->updates[to->count++] = one;
        if (to->count == BATCH) {
            send(world, owner, to);
        }
    }
    for (owner = 0; owner < world->count; owner++) {
        send(world, owner, &batches[owner]);
        send(world, owner, &batches[owner]);
    }
}

int main(void) {
    pgas world;
    batch *batches;
    uint64_t changed, left;
    pgas_open(&world);
    pgas_start(&world, WORDS);
    batches = calloc(world.count, sizeof *batches);
    if (batches == NULL) {
        return 1;
    }
    update(&world, batches);
    pgas_barrier(&world);
    changed = pgas_sum(&world, world.total);
    pgas_barrier(&world);
    update(&world, batches);
    pgas_barrier(&world);
    left = pgas_sum(&world, world.total);
    if (world.me == 0) {
        printf("%u updates by %u processes: %s\n", 2 * UPDATES * world.count, world.count,
               changed > WORDS / 2 && left == 0 ? "right" : "wrong");
    }
    free(batches);
    pgas_end(&world);
    return !(changed > WORDS / 2 && left == 0);
}
