/* Rounds by MPI: the request by MPI_Bcast, the parts of all ranks by MPI_Gather; with a window of more than one by
 * MPI_Ibcast and MPI_Igather. A part is made of the request, so no rank contributes before it has the request.
 *
 * Collectives of one communicator begin in the same order everywhere. Requests and parts have one each, since the root
 * has begun to broadcast further rounds when the others begin to gather. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../c/die.h"
#include "../c/measure.h"

/* Where in the last part of a request it says that there are no more. */
enum { STOP = 8 };

/* A round in flight at one rank. */
struct round {
    char *request, *parts;
    char part[PART];
    MPI_Request down, up;
};

struct rank {
    struct options options;
    int id;
    MPI_Comm down, up;
    struct round *rounds;
};

/* Errors of MPI end the program by themselves: that is its default. */
static struct rank rank_new(const struct options *options)
{
    struct rank rank = {.options = *options};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank.id);
    MPI_Comm_size(MPI_COMM_WORLD, &rank.options.n);
    MPI_Comm_dup(MPI_COMM_WORLD, &rank.down);
    MPI_Comm_dup(MPI_COMM_WORLD, &rank.up);
    rank.rounds = need(calloc((size_t)options->window, sizeof *rank.rounds), "memory");
    for (int i = 0; i < options->window; i++) {
        struct round *round = &rank.rounds[i];
        round->request = need(calloc(1, options->bytes), "memory");
        round->parts = need(malloc((size_t)rank.options.n * PART), "memory");
        round->down = round->up = MPI_REQUEST_NULL;
    }
    return rank;
}

static struct round *round_of(const struct rank *rank, uint32_t round)
{
    return &rank->rounds[round % (uint32_t)rank->options.window];
}

static char *stop_of(const struct rank *rank, const struct round *round)
{
    return round->request + rank->options.bytes - PART + STOP;
}

static void broadcast(const struct rank *rank, struct round *round)
{
    int bytes = (int)rank->options.bytes;
    if (rank->options.window == 1)
        MPI_Bcast(round->request, bytes, MPI_BYTE, 0, rank->down);
    else
        MPI_Ibcast(round->request, bytes, MPI_BYTE, 0, rank->down, &round->down);
}

static void gather(const struct rank *rank, struct round *round)
{
    part_fill(round->part, round->request, rank->options.bytes, (uint32_t)rank->id);
    if (rank->options.window == 1)
        MPI_Gather(round->part, PART, MPI_BYTE, round->parts, PART, MPI_BYTE, 0, rank->up);
    else
        MPI_Igather(round->part, PART, MPI_BYTE, round->parts, PART, MPI_BYTE, 0, rank->up, &round->up);
}

static void wait_for(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void run_root(const struct rank *rank, const pid_t *processes)
{
    struct book book = book_open(&rank->options, processes);
    while (book_wants(&book) || book.begun > book.ended) {
        while (book_wants(&book)) {
            uint32_t number = book_begin(&book);
            struct round *round = round_of(rank, number);
            request_fill(round->request, rank->options.bytes, number);
            *stop_of(rank, round) = 0;
            broadcast(rank, round);
            gather(rank, round);
        }
        struct round *oldest = round_of(rank, book.ended);
        wait_for(&oldest->down);
        wait_for(&oldest->up);
        parts_check(oldest->parts, rank->options.n, book.ended);
        book_end(&book, book.ended);
    }
    book_print(&book);
    /* As many as the others have posted ahead. */
    for (int i = 0; i < rank->options.window; i++) {
        struct round *round = &rank->rounds[i];
        *stop_of(rank, round) = 1;
        broadcast(rank, round);
    }
}

static void run_other(const struct rank *rank)
{
    int ahead = rank->options.window > 1;
    for (int i = 0; ahead && i < rank->options.window; i++)
        broadcast(rank, &rank->rounds[i]);
    for (uint32_t number = 0;; number++) {
        struct round *round = round_of(rank, number);
        if (!ahead)
            broadcast(rank, round);
        wait_for(&round->down);
        if (*stop_of(rank, round))
            return;
        wait_for(&round->up);
        gather(rank, round);
        if (ahead)
            broadcast(rank, round);
    }
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    check(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
    MPI_Init(&argc, &argv);
    struct rank rank = rank_new(&options);
    pid_t mine = getpid();
    pid_t *processes = need(malloc(sizeof mine * (size_t)rank.options.n), "memory");
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, processes, (int)sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank.id == 0)
        run_root(&rank, processes);
    else
        run_other(&rank);
    for (int i = 0; i < options.window; i++) {
        wait_for(&rank.rounds[i].down);
        wait_for(&rank.rounds[i].up);
    }
    MPI_Finalize();
    return 0;
}
