/* Signals that interrupt system calls, as the timers of a program do. */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "check.h"

static volatile sig_atomic_t interrupts;

static void interrupt(int signal) { interrupts += signal > 0; }

/* A signal every 2 ms, whose handler does not restart system calls; or none any more. */
static void set_interrupts(int is_on) {
    struct sigaction action;
    struct itimerval timer = {{0, is_on ? 2000 : 0}, {0, is_on ? 2000 : 0}};
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static uint64_t now_us(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Whether a call returns this status, and not before its limit, though signals interrupt it. */
#define LASTS(limit_us, status, call) \
    do { \
        uint64_t begun = now_us(); \
        int before = interrupts; \
        set_interrupts(1); \
        IS(status, call); \
        set_interrupts(0); \
        CHECK(now_us() - begun >= (limit_us) && interrupts > before); \
    } while (0)

#endif
