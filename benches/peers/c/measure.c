#include "measure.h"

#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include "die.h"

/* Beyond the time for rounds: for starting and ending, even of 64 processes that spin on 2 cores. */
enum { ALARM_S = 60 };

/* Of the time there is: a slow one warms up for no longer. */
#define WARMUP_SHARE 0.3

/* A fast one warms up for as long, however few rounds that needs: the system takes that long to place processes that look
 * for messages instead of sleeping. */
#define WARMUP_US 100e3

static long whole(const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < least || value > most) {
        fprintf(stderr, "%s: must be a number from %ld to %ld\n", text, least, most);
        exit(2);
    }
    return value;
}

static void option(struct options *options, int letter, const char *value)
{
    switch (letter) {
    case 'n': options->n = (int)whole(value, 2, 4096); break;
    case 'l': options->link = value; break;
    case 's': options->spin_us = (double)whole(value, 0, 1000000); break;
    case 'y': options->yielding = (int)whole(value, 0, 1); break;
    case 'r': options->rounds = (int)whole(value, 1, 100000000); break;
    case 'w': options->warmup = (int)whole(value, 0, 100000000); break;
    case 'f': options->window = (int)whole(value, 1, 1024); break;
    case 'S': options->seconds = (double)whole(value, 1, 3600); break;
    case 'b': options->bytes = (size_t)whole(value, PART, 1 << 30); break;
    case 't':
        if (tree_named(value, &options->tree))
            break;
        /* fall through */
    default: fprintf(stderr, "usage: see benches/peers/README.md\n"); exit(2);
    }
}

struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"n", 1, 0, 'n'},      {"tree", 1, 0, 't'},   {"link", 1, 0, 'l'},   {"spin", 1, 0, 's'},
        {"yield", 1, 0, 'y'},  {"rounds", 1, 0, 'r'}, {"warmup", 1, 0, 'w'}, {"window", 1, 0, 'f'},
        {"seconds", 1, 0, 'S'}, {"bytes", 1, 0, 'b'}, {0, 0, 0, 0},
    };
    struct options options = {2, BINOMIAL, "tcp", 0, 0, 1000, 100, 1, 10, PART};
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, 0)) != -1)
        option(&options, letter, optarg);
    alarm((unsigned)options.seconds + ALARM_S);
    return options;
}

double now_us(void)
{
    struct timespec now;
    check(clock_gettime(CLOCK_MONOTONIC, &now), "clock");
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* CPU time of all processes together: of all their threads, user and system. */
static double cpu_us(const struct book *book)
{
    double sum = 0;
    for (int i = 0; i < book->options.n; i++) {
        clockid_t clock;
        struct timespec used;
        if (clock_getcpuclockid(book->processes[i], &clock) || clock_gettime(clock, &used))
            die("CPU time of a process");
        sum += (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
    }
    return sum;
}

struct book book_open(const struct options *options, const pid_t *processes)
{
    struct book book = {.options = *options, .processes = processes};
    book.begun_us = need(malloc(sizeof(double) * (size_t)options->window), "memory");
    book.took_us = need(malloc(sizeof(double) * (size_t)options->rounds), "memory");
    return book;
}

/* What is in flight already does not count, though it takes of the time: rounds that end together would count too much. */
static void count_from_here(struct book *book)
{
    book->counting = 1;
    book->first = book->begun;
    book->cpu_from_us = cpu_us(book);
    book->from_us = now_us();
}

int book_wants(struct book *book)
{
    if (book->begun == 0) {
        book->start_us = now_us();
        if (book->options.warmup == 0)
            count_from_here(book);
    }
    if (book->begun - book->ended == (uint32_t)book->options.window)
        return 0;
    /* However slow it is, one round counts. */
    if (!book->counting || book->begun == book->first)
        return 1;
    return book->begun - book->first < (uint32_t)book->options.rounds &&
           now_us() < book->start_us + book->options.seconds * 1e6;
}

uint32_t book_begin(struct book *book)
{
    book->begun_us[book->begun % (uint32_t)book->options.window] = now_us();
    return book->begun++;
}

static int is_warm(const struct book *book, double elapsed_us)
{
    double most_us = book->options.seconds * 1e6 * WARMUP_SHARE;
    return elapsed_us > most_us || (book->ended >= (uint32_t)book->options.warmup && elapsed_us > WARMUP_US);
}

void book_end(struct book *book, uint32_t round)
{
    if (round != book->ended)
        die("a round out of order");
    double now = now_us();
    book->ended++;
    if (book->counting && round >= book->first) {
        book->took_us[round - book->first] = now - book->begun_us[round % (uint32_t)book->options.window];
        book->to_us = now;
    } else if (!book->counting && is_warm(book, now - book->start_us)) {
        count_from_here(book);
    }
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

void book_print(const struct book *book)
{
    uint32_t rounds = book->ended - book->first;
    double mean = (book->to_us - book->from_us) / rounds;
    double cpu = (cpu_us(book) - book->cpu_from_us) / rounds / book->options.n;
    qsort(book->took_us, rounds, sizeof(double), ascending);
    printf("{\"rounds\": %u, \"mean_us\": %.3f, \"median_us\": %.3f, \"p90_us\": %.3f, \"cpu_us\": %.3f}\n", rounds,
           mean, book->took_us[rounds / 2], book->took_us[(uint64_t)rounds * 9 / 10], cpu);
    fflush(stdout);
}

void request_fill(char *request, size_t bytes, uint32_t round)
{
    char *last = request + bytes - PART;
    memset(last, 7, PART);
    memcpy(last + 4, &round, sizeof round);
}

void part_fill(char *part, const char *request, size_t bytes, uint32_t id)
{
    memcpy(part, request + bytes - PART, PART);
    memcpy(part, &id, sizeof id);
}

void parts_check(const char *parts, int n, uint32_t round)
{
    for (uint32_t id = 0; id < (uint32_t)n; id++) {
        uint32_t said[2];
        memcpy(said, parts + (size_t)id * PART, sizeof said);
        if (said[0] != id || said[1] != round) {
            fprintf(stderr, "round %u: id %u answered for id %u of round %u\n", round, id, said[0], said[1]);
            exit(1);
        }
    }
}
