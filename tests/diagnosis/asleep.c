/* SPDX-License-Identifier: MIT */
/*
 * asleep.c - a steady leak on a machine that slept: after 1 s, CLOCK_BOOTTIME jumps three hours
 * ahead of CLOCK_MONOTONIC, as after a suspend. It prints "look" after 2 s and goes on until a line
 * comes.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BYTES 500
#define RECORDS_A_SECOND 8000
#define SLEEP_AT_S 1.0
#define LOOK_AT_S 2.0
#define SLEPT_S (3L * 3600)

static volatile bool slept;

/* Also the library calls this function, because the program exports it. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now) {
    long done = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME && slept)
        now->tv_sec += SLEPT_S;
    return (int)done;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void **kept;

__attribute__((noinline)) static void record_keep(void) {
    void **record = malloc(RECORD_BYTES);
    if (!record)
        exit(1);
    memset(record, 1, RECORD_BYTES);
    *record = (void *)kept;
    kept = record;
}

int main(void) {
    double start = now_s();
    long made = 0;
    bool said = false;
    struct pollfd in = {.fd = 0, .events = POLLIN};
    while (poll(&in, 1, 5) == 0) {
        double now = now_s() - start;
        for (; (double)made < now * RECORDS_A_SECOND; made++)
            record_keep();
        slept = now > SLEEP_AT_S;
        if (now > LOOK_AT_S && !said)
            said = puts("look") >= 0 && fflush(stdout) == 0;
    }
    return 0;
}
