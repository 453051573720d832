/* Handlers that make calls and take locks, and calls that arrive before their handlers. */
#include <sched.h>
#include <stdatomic.h>

#include "armci_check.h"

static int answering, asking, locking, going_down;
static atomic_int begun, flag;

static void answer(int number, void *rdata, int rdlen, int *rdsize) {
    CHECK(rdlen == (int)sizeof number);
    memcpy(rdata, &number, sizeof number);
    *rdsize = sizeof number;
}

HANDLER(answers) {
    UNUSED;
    answer(*(int *)data + 1, rdata, rdlen, rdsize);
    return GPC_DONE;
}

/* Asks its caller, or another process, before it replies. */
HANDLER(asks) {
    int reply = 0;
    UNUSED;
    CHECK(ask(answering, *(int *)data, 41, &reply) == 0 && reply == 42);
    answer(from, rdata, rdlen, rdsize);
    return GPC_DONE;
}

/* Takes the lock of its own process, which the application has. */
HANDLER(locks) {
    UNUSED;
    begun = 1;
    CHECK(ARMCI_Gpc_lock(to) == 0);
    CHECK(ARMCI_Gpc_unlock(to) == 0);
    answer(7, rdata, rdlen, rdsize);
    return GPC_DONE;
}

/* Calls itself at its own process, as deep as that is possible. */
HANDLER(goes_down) {
    int reply = 0, status = ask(going_down, me, 0, &reply);
    UNUSED;
    if (status != 0) {
        CHECK(status == CGPC_ERR_DEADLOCK && strstr(last_message(), "4 deep") != NULL);
        reply = 0;
    }
    answer(reply + 1, rdata, rdlen, rdsize);
    return GPC_DONE;
}

HANDLER(raises) {
    UNUSED;
    flag = 1;
    return GPC_DONE;
}

HANDLER(collects) {
    UNUSED;
    CHECK(ARMCI_Malloc((void **)rdata, 8) == CGPC_ERR_DEADLOCK);
    ARMCI_Finalize();
    CHECK(armci_msg_nproc() == count && ARMCI_Gpc_context() != NULL);
    return GPC_DONE;
}

/* Every process calls its neighbour, whose handler calls back: each waits for a handler of the other. */
static void call_back(void) {
    int round, from, next = (me + 1) % count;
    for (round = 0; round < 20; round++) {
        CHECK(ask(asking, next, me, &from) == 0 && from == me);
    }
    /* And a third process. */
    CHECK(ask(asking, next, (me + 2) % count, &from) == 0 && from == me);
}

/* A handler waits for the lock that the application of its process has; calls of others are answered meanwhile. */
static void lock_in_handler(void) {
    int reply = 0, process;
    gpc_hdl_t nbh;
    ARMCI_Gpc_init_handle(&nbh);
    begun = 0;
    ARMCI_Barrier();
    CHECK(ARMCI_Gpc_lock(me) == 0);
    ARMCI_Barrier();
    CHECK(ARMCI_Gpc_exec(locking, (me + 1) % count, NULL, 0, NULL, 0, NULL, 0, &reply, sizeof reply, &nbh) == 0);
    while (!begun) {
        sched_yield();
    }
    CHECK(ARMCI_Gpc_test(&nbh) == 1);
    CHECK(ARMCI_Gpc_trylock((me + 1) % count) == 0);
    ARMCI_Barrier();
    CHECK(ARMCI_Gpc_unlock(me) == 0);
    CHECK(ARMCI_Gpc_wait(&nbh) == 0 && reply == 7);
    /* A lock of one process, taken by handlers of all. */
    for (process = 0; process < count; process++) {
        CHECK(ask(locking, process, 0, &reply) == 0 && reply == 7);
    }
}

/* A call waits for a handler that is not registered yet. It holds no worker: other calls are executed. */
static void come_early(void) {
    int next = (me + 1) % count, index, late = -100 - 6, replies[100], func, chained_late = -100 - 7;
    gpc_hdl_t calls[100], chained;
    for (index = 0; index < 100; index++) {
        ARMCI_Gpc_init_handle(&calls[index]);
    }
    /* Calls of a number that is not registered here are refused here, so process 0 registers first. */
    if (me == 0) {
        CHECK(registers(answers) == late);
        func = ARMCI_Gpc_register((int (*)())answers);
        CHECK(func == chained_late);
        for (index = 0; index < 100; index++) {
            int number = index;
            CHECK(ARMCI_Gpc_exec(late, next, NULL, 0, &number, sizeof number, NULL, 0, &replies[index], sizeof(int), &calls[index]) == 0);
        }
        ARMCI_Gpc_init_handle(&chained);
        CHECK(ARMCI_Gpc_exec(chained_late, count - 1, NULL, 0, &me, sizeof me, NULL, 0, &func, sizeof func, &chained) == 0);
        for (index = 1; index < count; index++) {
            int number = 0;
            CHECK(ARMCI_Gpc_exec(-100 - 4, index, NULL, 0, &number, sizeof number, NULL, 0, NULL, 0, NULL) == 0);
        }
        for (index = 0; index < 100; index++) {
            CHECK(ARMCI_Gpc_wait(&calls[index]) == 0 && replies[index] == index + 1);
        }
        CHECK(ARMCI_Gpc_wait(&chained) == 0 && func == 1);
    } else {
        /* The other calls come through before. */
        while (!flag) {
            sched_yield();
        }
        CHECK(registers(answers) == late);
        CHECK(registers(answers) == chained_late);
    }
    ARMCI_Barrier();
}

/* Addresses that a process has freed, and has again. */
static void translate_again(void) {
    void **old = malloc(count * sizeof *old), **new = malloc(count * sizeof *new);
    CHECK(old != NULL && new != NULL);
    CHECK(ARMCI_Malloc(old, 4096) == 0 && old[me] != NULL);
    CHECK(ARMCI_Gpc_translate(old[me], 0, me) != NULL);
    ARMCI_Barrier();
    /* All but process 0 free it, and mostly get the same addresses. */
    if (me != 0) {
        CHECK(ARMCI_Free(old[me]) == 0);
        CHECK(ARMCI_Free(old[me]) == CGPC_ERR_ARGUMENT);
    }
    ARMCI_Barrier();
    if (me != 0) {
        CHECK(ARMCI_Gpc_translate(old[0], 0, me) == NULL);
    }
    CHECK(ARMCI_Gpc_translate(old[0], count - 1, 0) == (count == 1 ? old[0] : NULL));
    CHECK(ARMCI_Malloc(new, 4096) == 0);
    CHECK(ARMCI_Gpc_translate(new[0], 0, me) != NULL);
    if (me == 0) {
        int process;
        for (process = 0; process < count; process++) {
            *(int *)new[process] = 100 + process;
        }
    }
    ARMCI_Barrier();
    CHECK(*(int *)new[me] == 100 + me);
    ARMCI_Barrier();
    CHECK(ARMCI_Free(new[me]) == 0);
    if (me == 0) {
        CHECK(ARMCI_Free(old[me]) == 0);
    }
    free(old);
    free(new);
}

/* A handler has room for 256 MiB of a reply at most: the length is the caller's word. */
static void ask_for_room(void) {
    char room;
    CHECK(ARMCI_Gpc_exec(answering, count - 1, NULL, 0, NULL, 0, NULL, 0, &room, (256 << 20) + 1, NULL) == CGPC_ERR_CALL);
    CHECK(strstr(last_message(), "268435456") != NULL);
}

int main(int argc, char **argv) {
    int reply, collecting;
    armci_msg_init(&argc, &argv);
    me = armci_msg_me();
    count = armci_msg_nproc();
    answering = registers(answers);
    asking = registers(asks);
    locking = registers(locks);
    going_down = registers(goes_down);
    registers(raises);
    collecting = registers(collects);
    call_back();
    lock_in_handler();
    CHECK(ask(going_down, me, 0, &reply) == 0 && reply == 4);
    CHECK(ARMCI_Gpc_exec(collecting, me, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL) == 0);
    ask_for_room();
    ARMCI_Barrier();
    if (count > 1) {
        come_early();
    }
    translate_again();
    ARMCI_Finalize();
    if (me == 0) {
        puts("done");
    }
    return 0;
}
