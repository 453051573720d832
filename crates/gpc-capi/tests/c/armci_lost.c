/* Processes that die by `kill -9`, while others wait for them: the others fail soon, with the cause.
 *
 * The argument is the case. The launcher must not end the other processes. Each that sees the failure prints a line. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "armci_check.h"

static atomic_int waiting;

static void die(void) {
    kill(getpid(), SIGKILL);
    pause();
}

static void says(const char *what) {
    printf("%d %s\n", me, what);
    fflush(stdout);
    /* Without the others there is no end in order. */
    _exit(0);
}

/* A process begins to wait. */
HANDLER(waits) {
    UNUSED;
    waiting++;
    return GPC_DONE;
}

HANDLER(dies) {
    UNUSED;
    die();
    return GPC_DONE;
}

static void until_waiting(int processes) {
    /* They announce it right before: a moment more, so that most of them do wait. The test holds also if not. */
    struct timespec moment = {0, 300000000};
    while (waiting < processes) {
        sched_yield();
    }
    nanosleep(&moment, NULL);
}

/* A process dies, and the others are in a collective operation, or enter it. */
static void collective(int victim, int handler) {
    void *addresses[64];
    if (me == victim) {
        until_waiting(count - 1);
        die();
    }
    CHECK(ask(handler, victim, 0, NULL) == 0);
    CHECK(ARMCI_Malloc(addresses, 64) == CGPC_ERR_CALL);
    CHECK(strlen(last_message()) > 0);
    CHECK(ARMCI_Malloc(addresses, 64) == CGPC_ERR_CALL);
    says("failed");
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    int waits_for, dying;
    armci_msg_init(&argc, &argv);
    me = armci_msg_me();
    count = armci_msg_nproc();
    waits_for = registers(waits);
    dying = registers(dies);
    ARMCI_Barrier();
    if (strcmp(which, "root") == 0) {
        collective(0, waits_for);
    } else if (strcmp(which, "member") == 0) {
        collective(count - 1, waits_for);
    } else if (strcmp(which, "barrier") == 0) {
        if (me == 0) {
            die();
        }
        /* Ends the process with a message and a status. */
        ARMCI_Barrier();
    } else if (strcmp(which, "holder") == 0) {
        /* The last process dies with the lock of process 1, which others wait for, also by trylock. */
        if (me == count - 1) {
            CHECK(ARMCI_Gpc_lock(1) == 0);
            ARMCI_Barrier();
            until_waiting(count - 1);
            die();
        }
        ARMCI_Barrier();
        CHECK(ask(waits_for, count - 1, 0, NULL) == 0);
        if (me == 0) {
            int taken;
            while ((taken = ARMCI_Gpc_trylock(1)) == 0) {
                sched_yield();
            }
            CHECK(taken == 1 && ARMCI_Gpc_unlock(1) == 0);
        } else if (ARMCI_Gpc_lock(1) == 0) {
            /* The lock is free again before this process has asked. */
            CHECK(ARMCI_Gpc_unlock(1) == 0);
        } else {
            CHECK(strstr(last_message(), "which had the lock, was lost") != NULL);
            CHECK(ARMCI_Gpc_lock(1) == 0 && ARMCI_Gpc_unlock(1) == 0);
        }
        /* Process 1 stays until all have had it, and may be gone before it replies to the last one. */
        if (me == 1) {
            while (waiting < count - 2) {
                sched_yield();
            }
        } else {
            (void)ask(waits_for, 1, 0, NULL);
        }
        says("has had it");
    } else if (strcmp(which, "owner") == 0) {
        /* The process whose lock it is dies. */
        if (me == 1) {
            CHECK(ARMCI_Gpc_lock(1) == 0);
            ARMCI_Barrier();
            until_waiting(count - 1);
            die();
        }
        ARMCI_Barrier();
        CHECK(ask(waits_for, 1, 0, NULL) == 0);
        CHECK(ARMCI_Gpc_lock(1) == CGPC_ERR_CALL);
        CHECK(ARMCI_Gpc_trylock(1) < 0 && ARMCI_Gpc_unlock(1) < 0);
        says("failed");
    } else if (strcmp(which, "handler") == 0) {
        gpc_hdl_t nbh;
        if (me == 0) {
            ARMCI_Gpc_init_handle(&nbh);
            CHECK(ARMCI_Gpc_exec(dying, 1, NULL, 0, NULL, 0, NULL, 0, NULL, 0, &nbh) == 0);
            CHECK(ARMCI_Gpc_wait(&nbh) == CGPC_ERR_CALL);
            says("failed");
        }
        if (me > 1) {
            says("failed");
        }
        pause();
    }
    return 9;
}
