/* ARMCI's interface, by several processes of a launcher, or by one alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "armci.h"
#include "chained_gpc.h"
#include "gpc.h"
#include "message.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            cgpc_error error; \
            memset(&error, 0, sizeof error); \
            error.size = sizeof error; \
            cgpc_last_error(&error); \
            fprintf(stderr, "%d: line %d: not so: %s (%s)\n", me, __LINE__, #condition, error.message); \
            abort(); \
        } \
    } while (0)

static int me, count;
static int phases;

/* Doubles numbers, in two phases. */
static int doubles(int to, int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, int *rhsize,
                   void *rdata, int rdlen, int *rdsize, int rtype) {
    int index, *numbers = (int *)data, *doubled = (int *)rdata;
    if (rtype == GPC_INIT) {
        phases++;
        return GPC_PENDING;
    }
    CHECK(to == me && from >= 0 && from < count && hlen == 3 && memcmp(hdr, "abc", 3) == 0 && rhlen >= 1);
    if (dlen > rdlen) {
        return -9;
    }
    for (index = 0; index < dlen / (int)sizeof(int); index++) {
        doubled[index] = 2 * numbers[index];
    }
    *(char *)rhdr = 'r';
    *rhsize = 1;
    *rdsize = dlen;
    return GPC_DONE;
}

/* Adds 1 to a number of this process, to whose address its caller refers. */
static int adds(int to, int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int rhlen, int *rhsize, void *rdata,
                int rdlen, int *rdsize, int rtype) {
    int *number;
    void *address;
    (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rdata, (void)rdlen, (void)rtype;
    CHECK(hlen == (int)sizeof address);
    memcpy(&address, hdr, sizeof address);
    number = (int *)ARMCI_Gpc_translate(address, to, from);
    CHECK(number != NULL);
    *number += 1;
    *rhsize = *rdsize = 0;
    return GPC_DONE;
}

static int one(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int *rhlen, void *rdata,
               int *rdlen, int idlen, int *idlst, int TREE) {
    (void)rhdr;
    CHECK(func < 0 && callback <= 0 && TREE >= 0 && idlen >= 1 && idlst[0] == me);
    CHECK(hlen == 1 && *(char *)hdr == 'h' && dlen == 2 && memcmp(data, "dd", 2) == 0);
    if (*rdlen >= (int)sizeof(int)) {
        *(int *)rdata = 1;
        *rdlen = sizeof(int);
    }
    *rhlen = 0;
    return 0;
}

static int sum(int from, void *hdr, int hlen, void *data, int dlen, void *rhdr, int *rhlen, void *rdata, int *rdlen, int idlen,
               int *idlst, gpc_hdl_t *nbh) {
    (void)hdr, (void)rhdr, (void)idlst;
    CHECK(from > 0 && hlen == 0 && dlen == (int)sizeof(int) && idlen >= 2 && *rdlen == 64);
    CHECK(nbh->ahdl.data[2] == 0 && nbh->ahdl.data[3] == (int)sizeof(int));
    nbh->ahdl.dummy[0] += 1;
    CHECK(nbh->ahdl.dummy[0] >= 1);
    *(int *)rdata += *(int *)data;
    *rdlen = sizeof(int);
    *rhlen = 0;
    return 0;
}

static int fails(int func, int callback, void *hdr, int hlen, void *data, int dlen, void *rhdr, int *rhlen, void *rdata,
                 int *rdlen, int idlen, int *idlst, int TREE) {
    (void)func, (void)callback, (void)hdr, (void)hlen, (void)data, (void)dlen, (void)rhdr, (void)rhlen, (void)rdata;
    (void)rdlen, (void)idlen, (void)idlst, (void)TREE;
    return me == count - 1 ? -77 : 0;
}

static size_t star(uint32_t ids, uint32_t *groups, size_t capacity, void *arg) {
    size_t group;
    (void)arg;
    for (group = 0; group < ids - 1 && group < capacity; group++) {
        groups[group] = 1;
    }
    return ids - 1;
}

static void plain(int handler) {
    int numbers[3] = {1, 2, 3}, p;
    char header = 0;
    gpc_hdl_t nbh;
    for (p = 0; p < count; p++) {
        int doubled[4] = {9, 9, 9, 9};
        CHECK(ARMCI_Gpc_exec(handler, p, "abc", 3, numbers, sizeof numbers, &header, 1, doubled, sizeof doubled, NULL) == 0);
        CHECK(header == 'r' && doubled[0] == 2 && doubled[2] == 6 && doubled[3] == 9);
        ARMCI_Gpc_init_handle(&nbh);
        CHECK(ARMCI_Gpc_wait(&nbh) == 0);
        CHECK(ARMCI_Gpc_exec(handler, p, "abc", 3, numbers, sizeof numbers, &header, 1, numbers, sizeof numbers, &nbh) == 0);
        CHECK(ARMCI_Gpc_exec(handler, p, "abc", 3, numbers, 0, &header, 1, NULL, 0, &nbh) < 0);
        while (ARMCI_Gpc_test(&nbh) == 1) {
        }
        CHECK(ARMCI_Gpc_wait(&nbh) == 0 && numbers[2] == 6);
        numbers[0] = 1, numbers[1] = 2, numbers[2] = 3;
        CHECK(ARMCI_Gpc_exec(handler, p, "abc", 3, numbers, sizeof numbers, &header, 1, doubled, 4, NULL) == CGPC_ERR_CALL);
    }
    CHECK(ARMCI_Gpc_exec(handler, count, "abc", 3, NULL, 0, &header, 1, NULL, 0, NULL) == CGPC_ERR_ARGUMENT);
    CHECK(ARMCI_Gpc_exec(-1000, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == CGPC_ERR_FUNCTION);
    CHECK(ARMCI_Gpc_exec(handler, 0, &header, 65536, NULL, 0, NULL, 0, NULL, 0, NULL) == CGPC_ERR_LENGTH);
    CHECK(ARMCI_Gpc_exec(handler, 0, NULL, -1, NULL, 0, NULL, 0, NULL, 0, NULL) == CGPC_ERR_ARGUMENT);
}

static void chained(int func, int callback, int failing) {
    int total[16], tree, process, *ids = malloc(count * sizeof *ids);
    char level[1024];
    cgpc_error error;
    gpc_hdl_t nbh;
    CHECK(ids != NULL);
    for (process = 0; process < count; process++) {
        ids[process] = process;
    }
    for (tree = 0; tree <= 2; tree++) {
        total[0] = -1;
        CHECK(ARMCI_Gpc_chained_exec(func, callback, "h", 1, "dd", 2, NULL, 0, total, sizeof total, count, ids, NULL, tree) == 0);
        CHECK(total[0] == count);
    }
    /* Without the root in the list, and with a handle. */
    if (count > 1) {
        ARMCI_Gpc_init_handle(&nbh);
        CHECK(ARMCI_Gpc_chained_exec(func, callback, "h", 1, "dd", 2, NULL, 0, total, sizeof total, count - 1, ids + 1, &nbh, 0) == 0);
        CHECK(ARMCI_Gpc_wait(&nbh) == 0 && total[0] == count);
    }
    CHECK(ARMCI_Gpc_chained_exec(func, 0, "h", 1, "dd", 2, NULL, 0, level, sizeof level, count, ids, NULL, 1) == 0);
    CHECK(ARMCI_Gpc_chained_exec(func, 0, "h", 1, "dd", 2, NULL, 0, NULL, 0, count, ids, NULL, 1) == 0);
    CHECK(ARMCI_Gpc_chained_exec(func, callback, "h", 1, "dd", 2, NULL, 0, total, sizeof total, count, ids, NULL, 9) == CGPC_ERR_TREE);
    CHECK(ARMCI_Gpc_chained_exec(func, callback, "h", 1, "dd", 2, NULL, 0, total, sizeof total, count, NULL, NULL, 0) == CGPC_ERR_ARGUMENT);
    CHECK(ARMCI_Gpc_chained_exec(failing, 0, "h", 1, "dd", 2, NULL, 0, total, sizeof total, count, ids, NULL, 0) == CGPC_ERR_CALL);
    memset(&error, 0, sizeof error);
    error.size = sizeof error;
    CHECK(cgpc_last_error(&error) == CGPC_OK && (int)error.id == count - 1 && error.code == -77);
    free(ids);
}

int main(int argc, char **argv) {
    int doubling, adding, func, callback, failing, p, **memory;
    armci_msg_init(&argc, &argv);
    CHECK(ARMCI_Init_args(&argc, &argv) == 0);
    me = armci_msg_me();
    count = armci_msg_nproc();
    doubling = ARMCI_Gpc_register((int (*)())doubles);
    adding = ARMCI_Gpc_register((int (*)())adds);
    func = ARMCI_Gpc_register((int (*)())one);
    callback = ARMCI_Gpc_register((int (*)())sum);
    failing = ARMCI_Gpc_register((int (*)())fails);
    CHECK(doubling == -100 && failing == -104 && ARMCI_Gpc_register(NULL) == 0);
    CHECK(cgpc_tree_register(ARMCI_Gpc_context(), "2", star, NULL, NULL) == CGPC_OK);
    plain(doubling);
    ARMCI_Barrier();
    if (me == 0) {
        chained(func, callback, failing);
    }
    armci_msg_barrier();

    memory = malloc(count * sizeof *memory);
    CHECK(memory != NULL && ARMCI_Malloc((void **)memory, me == 0 ? sizeof(int) : 0) == 0);
    CHECK(me == 0 || memory[me] == NULL);
    if (me == 0) {
        *memory[0] = 0;
    }
    ARMCI_Barrier();
    for (p = 0; p < 10; p++) {
        CHECK(ARMCI_Gpc_lock(0) == 0);
        *memory[0] += 1;
        CHECK(ARMCI_Gpc_trylock(0) == 0);
        CHECK(ARMCI_Gpc_unlock(0) == 0);
    }
    CHECK(ARMCI_Gpc_unlock(0) < 0);
    ARMCI_Barrier();
    CHECK(ARMCI_Gpc_exec(adding, 0, &memory[0], sizeof memory[0], NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    ARMCI_AllFence();
    ARMCI_Barrier();
    CHECK(*memory[0] == 11 * count);
    CHECK(ARMCI_Gpc_translate(&p, 0, me) == NULL);
    ARMCI_Barrier();
    CHECK(ARMCI_Free(me == 0 ? memory[me] : NULL) == 0);
    free(memory);
    ARMCI_Gpc_release(doubling);
    CHECK(ARMCI_Gpc_exec(doubling, me, "abc", 3, NULL, 0, NULL, 0, NULL, 0, NULL) == CGPC_ERR_FUNCTION);
    CHECK(ARMCI_Gpc_get_hlen() == ARMCI_GPC_HLEN && ARMCI_Get_gpc_dlen() > 1 << 30);
    ARMCI_Finalize();
    armci_msg_finalize();
    CHECK(ARMCI_Gpc_exec(adding, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == CGPC_ERR_STATE);
    if (me == 0) {
        puts("done");
    }
    return 0;
}
