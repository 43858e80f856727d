/* SPDX-License-Identifier: MIT */
/*
 * asleep.c - a steady leak on a machine that slept: after 1 s, CLOCK_BOOTTIME jumps three hours
 * ahead of CLOCK_MONOTONIC, as after a suspend. It prints "look" after 2 s and goes on until a line
 * comes.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BYTES 500
#define RECORDS_A_SECOND 8000
#define SLEEP_AT_S 1.0
#define LOOK_AT_S 2.0
#define SLEPT_S (3L * 3600)

static volatile bool slept;

static int read_clock(clockid_t clock, struct timespec *now) {
    long done = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME && slept)
        now->tv_sec += SLEPT_S;
    return (int)done;
}

/* Puts a jump to read_clock at the start of libc's clock_gettime. The library calls that function
 * even if the program defines one of the same name. */
__attribute__((constructor)) static void replace_clock(void) {
    unsigned char jump[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* mov rax; jmp rax */
    int (*to)(clockid_t, struct timespec *) = read_clock;
    char *clock = dlsym(RTLD_DEFAULT, "clock_gettime");
    size_t page = 4096;
    char *start = clock - (uintptr_t)clock % page;
    memcpy(jump + 2, &to, sizeof to);
    if (!clock || mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        exit(1);
    memcpy(clock, jump, sizeof jump);
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
