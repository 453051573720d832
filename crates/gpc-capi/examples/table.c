/* A distributed hash table: each process has a part of it, an entry lives where its key belongs, and its owner changes
 * it. All processes insert and look up; a reduction counts the entries.
 *
 *     cc table.c $(pkg-config --cflags --libs chained_gpc) -o table && mpiexec -n 4 ./table */
#include "pgas.h"

#define SLOTS 4096u   /* of each process */
#define ENTRIES 256u  /* that each process inserts */

typedef struct {
    uint64_t key; /* 0: the slot is free. */
    uint64_t value;
} entry;

static entry slots[SLOTS]; /* Only functions of the context use it, and they run one at a time. */

/* The slot of a key: its own, or a free one for it; null if the part is full. */
static entry *slot_of(uint64_t key) {
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 32, tries;
    for (tries = 0; tries < SLOTS; tries++, at++) {
        entry *slot = &slots[at % SLOTS];
        if (slot->key == key || slot->key == 0) {
            return slot;
        }
    }
    return NULL;
}

/* Inserts an entry. */
static int insert(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data;
    size_t length;
    entry given, *slot;
    (void)arg;
    must(cgpc_request_data(request, &data, &length));
    if (length != sizeof given) {
        return 1;
    }
    memcpy(&given, data, sizeof given);
    slot = slot_of(given.key);
    if (slot == NULL) {
        must(cgpc_reply_explain(reply, "this part of the table is full"));
        return 1;
    }
    *slot = given;
    return 0;
}

/* Replies with the value of a key; without data if there is none. */
static int look_up(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    const void *data;
    size_t length;
    uint64_t key;
    const entry *slot;
    (void)arg;
    must(cgpc_request_data(request, &data, &length));
    if (length != sizeof key) {
        return 1;
    }
    memcpy(&key, data, sizeof key);
    slot = slot_of(key);
    return slot == NULL || slot->key == 0 ? 0 : cgpc_reply_set_data(reply, &slot->value, sizeof slot->value);
}

/* Replies with the number of entries here. */
static int entries(const cgpc_request *request, cgpc_reply *reply, void *arg) {
    uint64_t count = 0;
    size_t at;
    (void)request;
    (void)arg;
    for (at = 0; at < SLOTS; at++) {
        count += slots[at].key != 0;
    }
    return cgpc_reply_set_data(reply, &count, sizeof count);
}

static uint64_t key_of(uint32_t process, uint32_t number) { return (uint64_t)number << 32 | (process + 1); }

static uint64_t value_of(uint64_t key) { return key * key; }

/* The process that has a key. */
static uint32_t owner_of(const pgas *world, uint64_t key) {
    return (uint32_t)((key * 0xff51afd7ed558ccdu >> 33) % world->count);
}

int main(void) {
    pgas world;
    cgpc_function insert_number, look_up_number, entries_number;
    uint32_t process, number, wrong = 0;
    uint64_t all;
    pgas_open(&world);
    must(cgpc_register(world.context, "insert", insert, NULL, NULL, &insert_number));
    must(cgpc_register(world.context, "look up", look_up, NULL, NULL, &look_up_number));
    must(cgpc_register(world.context, "entries", entries, NULL, NULL, &entries_number));
    pgas_start(&world, 0);
    for (number = 0; number < ENTRIES; number++) {
        entry made = {key_of(world.me, number), value_of(key_of(world.me, number))};
        uint32_t owner = owner_of(&world, made.key);
        cgpc_call_args args = pgas_at(&world, insert_number, &owner);
        args.data = &made;
        args.data_len = sizeof made;
        must(cgpc_call_run(world.context, &args, NULL));
    }
    pgas_barrier(&world);
    /* Each process looks up the entries of the next one, and a key that nobody has inserted. */
    process = (world.me + 1) % world.count;
    for (number = 0; number <= ENTRIES; number++) {
        uint64_t key = key_of(process, number), value = 0;
        uint32_t owner = owner_of(&world, key);
        cgpc_call_args args = pgas_at(&world, look_up_number, &owner);
        cgpc_outcome *outcome;
        const void *data;
        size_t length;
        args.data = &key;
        args.data_len = sizeof key;
        must(cgpc_call_run(world.context, &args, &outcome));
        must(cgpc_outcome_reply(outcome, owner, NULL, NULL, &data, &length));
        if (length == sizeof value) {
            memcpy(&value, data, sizeof value);
        }
        wrong += number < ENTRIES ? value != value_of(key) : length != 0;
        must(cgpc_outcome_free(outcome));
    }
    all = pgas_sum(&world, entries_number);
    wrong += all != (uint64_t)ENTRIES * world.count;
    if (world.me == 0) {
        printf("%u processes, %llu entries, %u wrong at process 0\n", world.count, (unsigned long long)all, wrong);
    }
    pgas_end(&world);
    return wrong != 0;
}
