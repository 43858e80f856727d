/* SPDX-License-Identifier: MIT */
/*
 * served.c - the process that the tests of memctx serve observe. It prints "ready" and keeps 100
 * rows of 1000 bytes, three chunks of 500 bytes in contexts named "sessions" and one of 70000 bytes
 * in "cache". It obeys the lines on its standard input and answers each with "done":
 *   names N      makes N contexts, each with a name of its own and 64 bytes
 *   named NAME   makes a context of this name with 123 bytes
 *   churn MS     allocates and frees 1000 bytes over and over for MS milliseconds, or until the
 *                next line comes
 *   rename NAME  gives itself this name in the kernel
 * The end of standard input ends the program.
 */
#include <memctx.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noipa))

static void *kept[100];

NOINLINE static void keep_rows(void) {
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        if (i % 4 == 0) /* two call paths that consist of equal functions */
            kept[i] = malloc(1000);
        else
            kept[i] = malloc(1000);
    }
}

static void make(const char *name, size_t bytes) {
    memctx_t context = memctx_create(NULL, name, MEMCTX_ASET);
    if (!context || !memctx_alloc(context, bytes))
        exit(1);
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

NOINLINE static void churn(int ms) {
    double end_s = now_s() + ms / 1000.0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (now_s() < end_s && poll(&input, 1, 0) == 0) {
        for (int i = 0; i < 100; i++) {
            void *volatile chunk = malloc(1000);
            free(chunk);
        }
    }
}

static void make_names(int count) {
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "name %d", i);
        make(name, 64);
    }
}

int main(void) {
    char line[256];
    keep_rows();
    for (int i = 0; i < 3; i++)
        make("sessions", 500);
    make("cache", 70000);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "names ", 6) == 0)
            make_names(atoi(line + 6));
        else if (strncmp(line, "named ", 6) == 0)
            make(line + 6, 123);
        else if (strncmp(line, "churn ", 6) == 0)
            churn(atoi(line + 6));
        else if (strncmp(line, "rename ", 7) == 0)
            prctl(PR_SET_NAME, line + 7);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
