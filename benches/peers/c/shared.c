/* Rounds over a tree of processes that share memory: the least that a round needs without a system call but to wake.
 *
 * A parent writes the request into a slot of each child; a child leaves the parts of its subtree in a slot of its own,
 * and the last of the children to do so rings for the parent, who takes them all. Each process has one bell, a futex
 * word; it looks for so long as it may spin, then sleeps on it, and is woken only if it sleeps. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "die.h"
#include "processes.h"

/* A cache line; looks at the bell between two looks at the clock. */
enum { LINE = 64, LOOKS = 100 };

/* What others see of a process. Its slots, one for each round in flight, follow in the mapping. */
struct shared {
    _Alignas(LINE) atomic_uint bell;
    atomic_uint sleeping;
    /* Requests that its parent has put into its slots. */
    _Alignas(LINE) atomic_uint requests;
    /* Set by the root. */
    atomic_uint ended;
};

/* One round in flight at one process. */
struct slot {
    _Alignas(LINE) atomic_uint missing; /* children that have not answered */
    _Alignas(LINE) char request[PART];
    char parts[]; /* of its subtree */
};

struct node {
    struct options options;
    struct process process;
    struct slice parents; /* ids in the subtree of the parent */
    char *memory; /* of all processes: offsets[id] is where id's begins */
    size_t *offsets;
    struct shared *mine;
    uint32_t taken;    /* requests */
    uint32_t answered; /* rounds */
    struct book book;  /* at the root */
};

static size_t slot_size(int ids)
{
    return sizeof(struct slot) + (size_t)ids * PART;
}

static struct shared *shared_of(const struct node *node, int id)
{
    return (struct shared *)(node->memory + node->offsets[id]);
}

/* The slot of a round at a process with so many ids in its subtree. */
static struct slot *slot_of(const struct node *node, struct slice ids, uint32_t round)
{
    size_t index = round % (uint32_t)node->options.window;
    return (struct slot *)((char *)(shared_of(node, ids.start) + 1) + index * slot_size(ids.length));
}

/* Maps the memory before there are other processes. */
static void map(struct node *node)
{
    int n = node->options.n;
    size_t size = 0;
    node->offsets = need(malloc(sizeof(size_t) * (size_t)n), "memory");
    for (int id = 0; id < n; id++) {
        struct place place = tree_place(node->options.tree, n, id);
        node->offsets[id] = size;
        size += sizeof(struct shared) + (size_t)node->options.window * slot_size(place.mine.length);
        free(place.children);
    }
    node->memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (node->memory == MAP_FAILED)
        die("mmap");
}

static void futex(atomic_uint *word, int operation, unsigned value)
{
    long result = syscall(SYS_futex, word, operation, value, 0, 0, 0);
    if (result < 0 && errno != EAGAIN && errno != EINTR)
        die("futex");
}

/* What was written before is seen by whoever hears the bell. */
static void ring(struct shared *process)
{
    atomic_fetch_add(&process->bell, 1);
    if (atomic_load(&process->sleeping))
        futex(&process->bell, FUTEX_WAKE, 1);
}

/* Leaves the core's other thread, if it has one, more of it. */
static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Waits until the bell says something else than it did. */
static void wait_bell(struct node *node, unsigned heard)
{
    struct shared *mine = node->mine;
    if (node->options.spin_us > 0) {
        double until = now_us() + node->options.spin_us;
        do {
            for (int look = 0; look < LOOKS; look++) {
                if (atomic_load_explicit(&mine->bell, memory_order_acquire) != heard)
                    return;
                relax();
            }
            if (node->options.yielding)
                sched_yield();
        } while (now_us() < until);
    }
    atomic_store(&mine->sleeping, 1);
    while (atomic_load(&mine->bell) == heard)
        futex(&mine->bell, FUTEX_WAIT, heard);
    atomic_store(&mine->sleeping, 0);
}

/* Takes the requests that are here: executes them and passes them on, each child is rung for once. */
static void take_requests(struct node *node)
{
    const struct place *place = &node->process.place;
    uint32_t here = atomic_load(&node->mine->requests);
    if (here == node->taken)
        return;
    for (; node->taken != here; node->taken++) {
        struct slot *slot = slot_of(node, place->mine, node->taken);
        atomic_store(&slot->missing, (unsigned)place->child_count);
        part_fill(slot->parts, slot->request, PART, (uint32_t)place->id);
        for (int i = 0; i < place->child_count; i++)
            memcpy(slot_of(node, place->children[i], node->taken)->request, slot->request, PART);
    }
    for (int i = 0; i < place->child_count; i++) {
        struct shared *child = shared_of(node, place->children[i].start);
        atomic_store(&child->requests, here);
        ring(child);
    }
}

/* Puts the parts of the subtree together, and tells the parent; returns whether it has heard from all its children. */
static int answer(struct node *node, struct slot *slot)
{
    const struct place *place = &node->process.place;
    for (int i = 0; i < place->child_count; i++) {
        struct slice below = place->children[i];
        const struct slot *child = slot_of(node, below, node->answered);
        memcpy(slot->parts + (below.start - place->mine.start) * PART, child->parts, (size_t)below.length * PART);
    }
    if (place->parent >= 0)
        return atomic_fetch_sub(&slot_of(node, node->parents, node->answered)->missing, 1) == 1;
    parts_check(slot->parts, node->options.n, node->answered);
    book_end(&node->book, node->answered);
    return 0;
}

/* Answers the rounds whose parts are all here; the parent is rung for once. */
static void answer_rounds(struct node *node)
{
    int last = 0;
    while (node->answered != node->taken) {
        struct slot *slot = slot_of(node, node->process.place.mine, node->answered);
        if (atomic_load(&slot->missing) > 0)
            break;
        last |= answer(node, slot);
        node->answered++;
    }
    if (last)
        ring(shared_of(node, node->parents.start));
}

/* At the root: its own requests. */
static void begin_rounds(struct node *node)
{
    while (book_wants(&node->book)) {
        uint32_t round = book_begin(&node->book);
        request_fill(slot_of(node, node->process.place.mine, round)->request, PART, round);
        atomic_store(&node->mine->requests, round + 1);
    }
}

static void run_root(struct node *node)
{
    node->book = book_open(&node->options, node->process.all);
    do {
        unsigned heard = atomic_load(&node->mine->bell);
        begin_rounds(node);
        take_requests(node);
        answer_rounds(node);
        if (node->book.begun > node->book.ended && !book_wants(&node->book))
            wait_bell(node, heard);
    } while (node->book.begun > node->book.ended || book_wants(&node->book));
    book_print(&node->book);
    for (int id = 1; id < node->options.n; id++) {
        atomic_store(&shared_of(node, id)->ended, 1);
        ring(shared_of(node, id));
    }
    processes_wait(&node->process, node->options.n);
}

static void run_other(struct node *node)
{
    for (;;) {
        unsigned heard = atomic_load(&node->mine->bell);
        if (atomic_load(&node->mine->ended))
            return;
        take_requests(node);
        answer_rounds(node);
        if (atomic_load(&node->mine->bell) == heard)
            wait_bell(node, heard);
    }
}

int main(int argc, char **argv)
{
    struct node node = {.options = options_parse(argc, argv)};
    map(&node);
    node.process = processes_start_bare(&node.options);
    const struct place *place = &node.process.place;
    node.mine = shared_of(&node, place->id);
    if (place->parent < 0) {
        run_root(&node);
        return 0;
    }
    node.parents = tree_place(node.options.tree, node.options.n, place->parent).mine;
    run_other(&node);
    return 0;
}
