/* clusters.c: the client of one cluster in a session of IMPI, as an implementation of MPI has it.
 *
 *     clusters HOST:PORT RANK HOSTS
 *
 * It takes part in the exchanges of the source's examples, and prints what it has learned of all clusters. */
#include <impi.h>
#include <string.h>

#include "must.h"

/* Each wait takes at most a minute. */
#define LIMIT_US 60000000

#define HOSTS_MAX 64

static uint32_t clients;

static void fail(const char *why) {
    fprintf(stderr, "clusters: %s\n", why);
    exit(1);
}

/* A wait whose limit must not pass. */
static void in_time(int status) {
    if (must(status) == CGPC_PENDING) fail("the others are late");
}

/* Sends values of a label, and gets those of all clients by ascending rank. Returns their number. */
static size_t exchange(cgpc_impi *client, IMPI_Int4 label, const IMPI_Int4 *mine, size_t count, IMPI_Int4 *all) {
    IMPI_Uint4 mask;
    in_time(cgpc_impi_exchange_int4(client, label, mine, count, LIMIT_US));
    must(cgpc_impi_values_int4(client, label, &mask, all, HOSTS_MAX, &count));
    if (mask != UINT32_MAX >> (32 - clients)) fail("a client does not send each label");
    return count;
}

int main(int count, char **arguments) {
    cgpc_impi_options options = {.size = sizeof options};
    cgpc_impi *client;
    IMPI_Int4 version[2] = {0, 0}, ports[HOSTS_MAX], ones[HOSTS_MAX], all[HOSTS_MAX];
    IMPI_Int4 hosts = count == 4 ? (IMPI_Int4)strtol(arguments[3], NULL, 10) : 0, sum = 0, least = 0;
    size_t number, i;
    if (hosts < 1 || hosts > HOSTS_MAX) {
        fprintf(stderr, "usage: clusters HOST:PORT RANK HOSTS\n");
        return 2;
    }
    options.rank = (uint32_t)strtoul(arguments[2], NULL, 10);
    must(cgpc_impi_connect(arguments[1], &options, LIMIT_US, &client));
    in_time(cgpc_impi_join(client, LIMIT_US, &clients));
    exchange(client, IMPI_C_VERSION, version, 2, all);

    /* A label of each client: the number of its hosts, and of its processes, one on each. */
    number = exchange(client, IMPI_C_NHOSTS, &hosts, 1, all);
    for (i = 0; i < number; i++) sum += all[i];
    exchange(client, IMPI_C_NPROCS, &hosts, 1, all);

    /* Each client finds the least packet length by itself. */
    all[0] = options.rank == 0 ? 8000 : 4000;
    number = exchange(client, IMPI_C_PKTLEN, all, 1, all);
    for (i = 0, least = all[0]; i < number; i++)
        if (all[i] < least) least = all[i];

    /* A label of each host. */
    for (i = 0; i < (size_t)hosts; i++) {
        ports[i] = 5001 + 1000 * (IMPI_Int4)options.rank + (IMPI_Int4)i;
        ones[i] = 1;
    }
    number = exchange(client, IMPI_H_PORT, ports, (size_t)hosts, ports);
    exchange(client, IMPI_H_NPROCS, ones, (size_t)hosts, all);
    in_time(cgpc_impi_done(client, LIMIT_US));

    printf("%u clients, %d hosts, packets of %d bytes, ports", clients, sum, least);
    for (i = 0; i < number; i++) printf(" %d", ports[i]);
    printf("\n");

    /* Here the processes of the cluster run. */
    in_time(cgpc_impi_fini(client, LIMIT_US));
    return must(cgpc_impi_free(client));
}
