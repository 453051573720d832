/* Long data down a chain of processes that share memory: each copies a segment from its parent's data to its
 * own as soon as it is there. One copy for each hop, and the data end in a mapping that all can see; a process that wants
 * them to itself pays one more. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "die.h"
#include "processes.h"

enum { SEGMENT = 256 << 10, LINE = 64 };

/* How far a process is: segments that it has, over all rounds; rounds that its child has answered. */
struct shared {
    _Alignas(LINE) atomic_uint segments;
    _Alignas(LINE) atomic_uint answered;
    _Alignas(LINE) atomic_uint ended;
};

struct node {
    struct options options;
    struct process process;
    struct shared *all;
    char *data; /* of all processes, one after the other */
    char *parts;
};

static void *map(size_t bytes)
{
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

static void say(atomic_uint *word, unsigned value)
{
    atomic_store(word, value);
    check(syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0), "futex wake");
}

/* Waits while the word has this value. */
static void wait_change(atomic_uint *word, unsigned value)
{
    while (atomic_load(word) == value)
        if (syscall(SYS_futex, word, FUTEX_WAIT, value, 0, 0, 0) < 0 && errno != EAGAIN && errno != EINTR)
            die("futex wait");
}

static char *data_of(const struct node *node, int id)
{
    return node->data + (size_t)id * node->options.bytes;
}

/* Copies what the parent has from one round on to this process, and says so to the child. */
static int take_round(struct node *node, unsigned *segments)
{
    int id = node->process.place.id;
    struct shared *parent = &node->all[id - 1];
    for (size_t at = 0; at < node->options.bytes; at += SEGMENT) {
        size_t length = node->options.bytes - at < SEGMENT ? node->options.bytes - at : SEGMENT;
        wait_change(&parent->segments, *segments);
        if (atomic_load(&parent->ended))
            return 0;
        memcpy(data_of(node, id) + at, data_of(node, id - 1) + at, length);
        say(&node->all[id].segments, ++*segments);
    }
    return 1;
}

/* When the subtree has all of this round: adds a part, and says so to the parent. */
static void answer(struct node *node, uint32_t round)
{
    int id = node->process.place.id;
    if (node->process.place.child_count > 0)
        wait_change(&node->all[id].answered, round);
    part_fill(node->parts + id * PART, data_of(node, id), node->options.bytes, (uint32_t)id);
    if (id > 0)
        say(&node->all[id - 1].answered, round + 1);
}

static void run_root(struct node *node)
{
    unsigned per_round = (unsigned)((node->options.bytes + SEGMENT - 1) / SEGMENT);
    struct book book = book_open(&node->options, node->process.all);
    while (book_wants(&book)) {
        uint32_t round = book_begin(&book);
        request_fill(data_of(node, 0), node->options.bytes, round);
        say(&node->all[0].segments, (round + 1) * per_round);
        answer(node, round);
        parts_check(node->parts, node->options.n, round);
        book_end(&book, round);
    }
    book_print(&book);
    for (int id = 0; id < node->options.n; id++) {
        atomic_store(&node->all[id].ended, 1);
        say(&node->all[id].segments, 0);
    }
    processes_wait(&node->process, node->options.n);
}

int main(int argc, char **argv)
{
    struct node node = {.options = options_parse(argc, argv)};
    size_t n = (size_t)node.options.n;
    node.options.tree = CHAIN;
    node.options.window = 1;
    node.all = map(n * sizeof(struct shared));
    node.data = map(n * node.options.bytes);
    node.parts = map(n * PART);
    node.process = processes_start_bare(&node.options);
    if (node.process.place.parent < 0) {
        run_root(&node);
        return 0;
    }
    unsigned segments = 0;
    for (uint32_t round = 0; take_round(&node, &segments); round++)
        answer(&node, round);
    return 0;
}
