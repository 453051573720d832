/* groups.c: the program of BNR's source, "Classic Groups": open a group, spawn into it twice, close it, merge with it.
 *
 *     gpc run -n 2 groups
 *
 * The processes that are started run this program as well: each puts its part into the database of its group. */
#define BNR_CLASSIC
#include <bnr.h>
#include <stdio.h>
#include <stdlib.h>

static int must(int number) {
    if (number != BNR_SUCCESS) {
        fprintf(stderr, "groups: fault %d: %s\n", number, cgpc_last_message());
        exit(1);
    }
    return number;
}

static int running;

/* Runs in a call of BNR, once for each process that has ended. */
static int ended(BNR_Group group, int rank, int exit_code) {
    running--;
    if (exit_code != 0) fprintf(stderr, "rank %d of group %d has ended with %d\n", rank, group, exit_code);
    return 0;
}

/* One group of the own processes and the others, with ranks and a database of its own. */
static void merge(BNR_Group other, char *part) {
    char attr[BNR_MAXATTRLEN], val[BNR_MAXVALLEN];
    BNR_Group own, all;
    int rank, size, next;
    must(BNR_Get_group(&own));
    must(BNR_Merge(own, other, &all)); /* collective over both */
    must(BNR_Get_rank(all, &rank));
    must(BNR_Get_size(all, &size));
    next = (rank + 1) % size;
    snprintf(attr, sizeof attr, "part-%d", rank);
    must(BNR_Put(all, attr, part, -1));
    must(BNR_Fence(all));
    snprintf(attr, sizeof attr, "part-%d", next);
    must(BNR_Get(all, attr, val));
    printf("%d of %d beside %d: %s\n", rank, size, next, part);
    fflush(stdout);
    must(BNR_Fence(all)); /* before it is freed, all have read */
    if (rank == 0) must(BNR_Free_group(all));
}

static void open_and_spawn(char *program) {
    BNR_Group own, grp;
    int root, size;
    must(BNR_Get_group(&own));
    must(BNR_Get_rank(own, &root));
    must(BNR_Open_group(&grp)); /* collective */
    if (root == 0) {
        running = 2 + 3;
        must(BNR_Spawn(grp, 2, program, "ocean", NULL, BNR_INFO_NULL, ended));
        must(BNR_Spawn(grp, 3, program, "'air and ice'", NULL, BNR_INFO_NULL, ended));
    }
    must(BNR_Close_group(grp)); /* collective: now they start */
    must(BNR_Get_size(grp, &size));
    merge(grp, "pump");
    if (root == 0) {
        printf("%d processes were spawned\n", size);
        fflush(stdout);
        while (running > 0) must(BNR_Wait(60000)); /* a call may report several deaths */
    }
    must(BNR_Fence(own));
}

static void take_part(char *part) {
    char attr[BNR_MAXATTRLEN], val[BNR_MAXVALLEN];
    BNR_Group grp, parent;
    int rank, size;
    must(BNR_Get_group(&grp));
    must(BNR_Get_parent(&parent));
    must(BNR_Get_rank(grp, &rank));
    must(BNR_Get_size(grp, &size));
    snprintf(attr, sizeof attr, "part-%d", rank);
    must(BNR_Put(grp, attr, part, -1));
    must(BNR_Fence(grp)); /* collective: now all have the puts of all */
    snprintf(attr, sizeof attr, "part-%d", (rank + 1) % size);
    must(BNR_Get(grp, attr, val));
    printf("rank %d of %d: %s, beside %s\n", rank, size, part, val);
    fflush(stdout);
    merge(parent, part);
}

int main(int count, char **arguments) {
    must(BNR_Init());
    if (count == 1)
        open_and_spawn(arguments[0]);
    else
        take_part(arguments[1]);
    return must(BNR_Finalize());
}
