/* Rounds over a tree of processes that share stream sockets: the least that a round needs.
 *
 * A request of 64 bytes goes down, every process adds a part of 64 bytes, and the reply of a subtree, the parts of its
 * ids in order, goes up in one piece. One wait serves all links that are ready, one receive takes what a link has, what
 * came in one turn leaves in one send per link. Sockets block: what goes down is smaller than any socket's buffer, so
 * nobody waits for a send downward, and whoever waits for a send upward waits for a parent that reads. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "processes.h"

/* What stands before a request and before a reply. */
struct frame {
    uint32_t length; /* of what follows, bytes */
    uint32_t round;
};

struct link {
    int socket;
    struct slice below; /* a child's ids; of the parent's link, this process's own */
    char *in, *out;
    size_t in_length, in_room, out_length;
};

/* A round under way at one process: `round % window` finds it. */
struct gathering {
    int missing;
    char *parts;
};

struct node {
    struct options options;
    struct process process;
    int poll, link_count, open;
    struct link *links; /* the children, then the parent */
    struct gathering *gatherings;
    struct book book; /* at the root */
};

static struct link *parent_of(struct node *node)
{
    return &node->links[node->process.place.child_count];
}

static struct link link_new(struct node *node, int socket, struct slice below)
{
    size_t frame = sizeof(struct frame) + (size_t)below.length * PART;
    size_t all = (size_t)node->options.window * (frame + PART);
    struct link link = {.socket = socket, .below = below, .in_room = all < 65536 ? 65536 : all};
    link.in = need(malloc(link.in_room), "memory");
    link.out = need(malloc(all), "memory");
    return link;
}

static struct node node_new(const struct options *options)
{
    struct node node = {.options = *options, .process = processes_start(options)};
    const struct place *place = &node.process.place;
    node.poll = check(epoll_create1(0), "epoll_create1");
    node.link_count = place->child_count + (place->parent >= 0);
    node.open = node.link_count;
    node.links = need(calloc((size_t)place->child_count + 1, sizeof(struct link)), "memory");
    for (int i = 0; i < place->child_count; i++)
        node.links[i] = link_new(&node, node.process.to_children[i], place->children[i]);
    *parent_of(&node) = link_new(&node, node.process.to_parent, place->mine);
    for (int i = 0; i < node.link_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)i}};
        check(epoll_ctl(node.poll, EPOLL_CTL_ADD, node.links[i].socket, &event), "epoll_ctl");
    }
    node.gatherings = need(calloc((size_t)options->window, sizeof(struct gathering)), "memory");
    for (int i = 0; i < options->window; i++)
        node.gatherings[i].parts = need(malloc((size_t)place->mine.length * PART), "memory");
    return node;
}

/* Queues a frame; the room is for all rounds that can be in flight. */
static void link_push(struct link *link, uint32_t round, const char *body, size_t length)
{
    struct frame frame = {(uint32_t)length, round};
    memcpy(link->out + link->out_length, &frame, sizeof frame);
    memcpy(link->out + link->out_length + sizeof frame, body, length);
    link->out_length += sizeof frame + length;
}

static void flush(struct node *node)
{
    for (int i = 0; i < node->link_count; i++) {
        struct link *link = &node->links[i];
        for (size_t sent = 0; sent < link->out_length;)
            sent += (size_t)check(send(link->socket, link->out + sent, link->out_length - sent, MSG_NOSIGNAL), "send");
        link->out_length = 0;
    }
}

static void begin_rounds(struct node *node);

/* A part, or the parts of a child's subtree, have come; after the last the reply goes up. */
static void gathered(struct node *node, uint32_t round)
{
    struct gathering *gathering = &node->gatherings[round % (uint32_t)node->options.window];
    const struct place *place = &node->process.place;
    if (--gathering->missing > 0)
        return;
    if (place->parent >= 0) {
        link_push(parent_of(node), round, gathering->parts, (size_t)place->mine.length * PART);
        return;
    }
    parts_check(gathering->parts, node->options.n, round);
    book_end(&node->book, round);
    begin_rounds(node);
}

/* A request is here: executes it and passes it on. */
static void request(struct node *node, uint32_t round, const char *body)
{
    struct gathering *gathering = &node->gatherings[round % (uint32_t)node->options.window];
    const struct place *place = &node->process.place;
    gathering->missing = place->child_count + 1;
    part_fill(gathering->parts, body, PART, (uint32_t)place->id);
    for (int i = 0; i < place->child_count; i++)
        link_push(&node->links[i], round, body, PART);
    gathered(node, round);
}

static void reply(struct node *node, const struct link *child, uint32_t round, const char *body)
{
    struct gathering *gathering = &node->gatherings[round % (uint32_t)node->options.window];
    int offset = child->below.start - node->process.place.mine.start;
    memcpy(gathering->parts + (size_t)offset * PART, body, (size_t)child->below.length * PART);
    gathered(node, round);
}

static void begin_rounds(struct node *node)
{
    char body[PART];
    while (book_wants(&node->book)) {
        uint32_t round = book_begin(&node->book);
        request_fill(body, PART, round);
        request(node, round, body);
    }
}

/* Takes what a link has, and the whole frames of it. */
static void receive(struct node *node, struct link *link)
{
    int from_parent = link == parent_of(node);
    size_t length = from_parent ? PART : (size_t)link->below.length * PART;
    int got = check(recv(link->socket, link->in + link->in_length, link->in_room - link->in_length, 0), "recv");
    if (got == 0) {
        if (!from_parent)
            die("a child has ended");
        node->open = 0;
        return;
    }
    link->in_length += (size_t)got;
    char *at = link->in, *end = link->in + link->in_length;
    while ((size_t)(end - at) >= sizeof(struct frame) + length) {
        struct frame frame;
        memcpy(&frame, at, sizeof frame);
        if (frame.length != length)
            die("a frame of another length");
        if (from_parent)
            request(node, frame.round, at + sizeof frame);
        else
            reply(node, link, frame.round, at + sizeof frame);
        at += sizeof frame + length;
    }
    link->in_length = (size_t)(end - at);
    memmove(link->in, at, link->in_length);
}

/* Looks for so long as it may spin, then sleeps. */
static int wait_ready(struct node *node, struct epoll_event *events, int most)
{
    if (node->options.spin_us > 0) {
        double until = now_us() + node->options.spin_us;
        do {
            int ready = check(epoll_wait(node->poll, events, most, 0), "epoll_wait");
            if (ready > 0)
                return ready;
            if (node->options.yielding)
                sched_yield();
        } while (now_us() < until);
    }
    return check(epoll_wait(node->poll, events, most, -1), "epoll_wait");
}

static void turn(struct node *node)
{
    struct epoll_event events[64];
    int ready = wait_ready(node, events, 64);
    for (int i = 0; i < ready; i++)
        receive(node, &node->links[events[i].data.u32]);
    flush(node);
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    struct node node = node_new(&options);
    if (node.process.place.parent >= 0) {
        while (node.open)
            turn(&node);
        return 0;
    }
    node.book = book_open(&options, node.process.all);
    begin_rounds(&node);
    flush(&node);
    while (node.book.begun > node.book.ended)
        turn(&node);
    book_print(&node.book);
    for (int i = 0; i < node.link_count; i++)
        close(node.links[i].socket);
    processes_wait(&node.process, options.n);
    return 0;
}
