/* Long data down a chain of processes that share stream sockets, segment by segment; a part of each goes back up.
 *
 * Every process ends with all the data in one piece. It passes a segment on as soon as it has it whole. */
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "processes.h"

/* Large enough that a system call costs little beside the copying, small enough that all processes work at once. */
enum { SEGMENT = 256 << 10 };

static void send_all(int socket, const char *at, size_t length)
{
    while (length > 0) {
        size_t sent = (size_t)check(send(socket, at, length, MSG_NOSIGNAL), "send");
        at += sent;
        length -= sent;
    }
}

/* Whether something came before the end of the stream. */
static int receive_all(int socket, char *at, size_t length)
{
    for (size_t had = 0; had < length;) {
        int got = check(recv(socket, at + had, length - had, MSG_WAITALL), "recv");
        if (got == 0 && had == 0)
            return 0;
        if (got == 0)
            die("the stream ended within a message");
        had += (size_t)got;
    }
    return 1;
}

/* Data from the parent, unless this is the root, to the child, if there is one. */
static int pass_down(const struct process *process, char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += SEGMENT) {
        size_t length = bytes - at < SEGMENT ? bytes - at : SEGMENT;
        if (process->to_parent >= 0 && !receive_all(process->to_parent, data + at, length))
            return 0;
        if (process->place.child_count > 0)
            send_all(process->to_children[0], data + at, length);
    }
    return 1;
}

/* The parts of the subtree, this process's own first. */
static void gather(const struct process *process, char *parts, const char *data, size_t bytes)
{
    size_t below = (size_t)(process->place.mine.length - 1) * PART;
    part_fill(parts, data, bytes, (uint32_t)process->place.id);
    if (below > 0 && !receive_all(process->to_children[0], parts + PART, below))
        die("the child has ended");
}

static void run_root(const struct options *options, struct process *process, char *data, char *parts)
{
    struct book book = book_open(options, process->all);
    while (book_wants(&book)) {
        uint32_t round = book_begin(&book);
        request_fill(data, options->bytes, round);
        pass_down(process, data, options->bytes);
        gather(process, parts, data, options->bytes);
        parts_check(parts, options->n, round);
        book_end(&book, round);
    }
    book_print(&book);
    close(process->to_children[0]);
    processes_wait(process, options->n);
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    options.tree = CHAIN;
    options.window = 1;
    struct process process = processes_start(&options);
    char *data = need(malloc(options.bytes), "memory");
    char *parts = need(malloc((size_t)options.n * PART), "memory");
    memset(data, 1, options.bytes);
    if (process.place.parent < 0) {
        run_root(&options, &process, data, parts);
        return 0;
    }
    while (pass_down(&process, data, options.bytes)) {
        gather(&process, parts, data, options.bytes);
        send_all(process.to_parent, parts, (size_t)process.place.mine.length * PART);
    }
    return 0;
}
