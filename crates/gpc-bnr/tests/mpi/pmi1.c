/* PMI-1 without MPI, over the descriptor in PMI_FD. Before each of several fences, every rank puts keys and values of the
   greatest length; after the fence it gets those of all others. Each rank prints one line at its end:
   rank R of N: G gets in F fences
   Arguments: number of fences (default 3), number of keys in each (default 2); "blanks": values end in a blank and a minus,
   like those of Open MPI, which are lost by servers that split lines at blanks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int descriptor;
static char said[8192];
static int blanks;

static void fail(const char *what)
{
    fprintf(stderr, "pmi1.c: %s: `%s`\n", what, said);
    exit(3);
}

/* Sends a line, and reads the answer into `said`, without its line end. */
static void ask(const char *line)
{
    size_t length = strlen(line), there = 0;
    for (size_t sent = 0; sent < length;) {
        ssize_t wrote = write(descriptor, line + sent, length - sent);
        if (wrote <= 0)
            fail("the server does not read");
        sent += (size_t) wrote;
    }
    for (;;) {
        ssize_t got = read(descriptor, said + there, sizeof said - 1 - there);
        if (got <= 0)
            fail("the server has closed its end");
        there += (size_t) got;
        said[there] = '\0';
        char *end = strchr(said, '\n');
        if (end) {
            if (end[1] != '\0')
                fail("there is more than one answer");
            *end = '\0';
            return;
        }
        if (there + 1 == sizeof said)
            fail("the answer does not end");
    }
}

static void expect(const char *start)
{
    if (strncmp(said, start, strlen(start)) != 0)
        fail(start);
}

/* The number after a name in the answer. */
static int told(const char *name)
{
    const char *found = strstr(said, name);
    if (!found)
        fail(name);
    return atoi(found + strlen(name));
}

static int number(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        fail(name);
    return atoi(text);
}

/* A key or a value of this length, different for each rank, fence and place. */
static void make(char *out, size_t length, int rank, int fence, int place)
{
    int begun = snprintf(out, length + 1, "r%d-f%d-p%d-", rank, fence, place);
    for (size_t at = (size_t) begun; at < length; at++)
        out[at] = (char) ('a' + (at * 7 + (size_t) (rank + fence + place)) % 26);
    if (blanks && length > 100) {
        out[length - 2] = ' ';
        out[length - 1] = '-';
    }
    out[length] = '\0';
}

int main(int argc, char **argv)
{
    int fences = argc > 1 ? atoi(argv[1]) : 3, keys = argc > 2 ? atoi(argv[2]) : 2;
    blanks = argc > 3 && strcmp(argv[3], "blanks") == 0;
    descriptor = number("PMI_FD");
    int rank = number("PMI_RANK"), size = number("PMI_SIZE"), gets = 0;
    char name[512], line[8192], key[512], value[4096];

    ask("cmd=init pmi_version=1 pmi_subversion=1\n");
    expect("cmd=response_to_init ");
    if (!strstr(said, " pmi_version=1 ") || !strstr(said, " rc=0"))
        fail("the server refuses this version");
    ask("cmd=get_maxes\n");
    expect("cmd=maxes ");
    int keylen = told(" keylen_max="), vallen = told(" vallen_max=");
    if (told(" kvsname_max=") < 64 || keylen < 64 || keylen > 512 || vallen < 1024 || vallen > 4096 || vallen % 2)
        fail("too little, or too much");
    ask("cmd=get_my_kvsname\n");
    expect("cmd=my_kvsname ");
    const char *called = strstr(said, " kvsname=");
    if (!called || sscanf(called, " kvsname=%500s", name) != 1)
        fail("what the database is called");

    for (int fence = 0; fence < fences; fence++) {
        for (int place = 0; place < keys; place++) {
            /* The lengths include the end of a C string. */
            make(key, (size_t) keylen - 1, rank, fence, place);
            make(value, (size_t) vallen - 1, rank, fence, place);
            snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s value=%s\n", name, key, value);
            ask(line);
            expect("cmd=put_result rc=0");
        }
        ask("cmd=barrier_in\n");
        expect("cmd=barrier_out");
        for (int other = 0; other < size; other++)
            for (int place = 0; place < keys; place++) {
                make(key, (size_t) keylen - 1, other, fence, place);
                make(value, (size_t) vallen - 1, other, fence, place);
                snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s\n", name, key);
                ask(line);
                expect("cmd=get_result rc=0");
                const char *got = strstr(said, " value=");
                if (!got || strcmp(got + 7, value) != 0)
                    fail("another value");
                gets++;
            }
    }
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=there-is-no-such-key\n", name);
    ask(line);
    expect("cmd=get_result");
    if (strstr(said, "rc=0"))
        fail("a key that nobody has put");
    ask("cmd=finalize\n");
    expect("cmd=finalize_ack");
    printf("rank %d of %d: %d gets in %d fences\n", rank, size, gets, fences);
    return 0;
}
