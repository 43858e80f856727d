/* SPDX-License-Identifier: MIT */
/* recorded.c - a program for MEMCTX_RECORD: it leaks about a chunk in a millisecond, as many chunks
 * as its argument says, and obeys words on standard input. "fork" forks a child that leaks, too,
 * and prints its pid; "fast" leaks fast until the process is killed; "churn" allocates and frees
 * small chunks, leaks for a second, and then allocates and keeps a large one; "strings" allocates
 * and frees two million small chunks, one at a time; "identify WORD" sets the identifier of its
 * named context; "drop" changes the user to 65534; "again" executes the program once more; "exit"
 * and "_exit" end it. */
#include <memctx.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 20000

__attribute__((noinline)) static void *leak_here(void) {
    char *chunk = malloc(CHUNK);
    memset(chunk, 1, CHUNK);
    return chunk;
}

__attribute__((noinline)) static void *keep_small(void) {
    return malloc(1);
}

static void *volatile kept;
static memctx_t named;

/* Leaks for a second before it allocates the last chunk, so that the recording gets moments. All
 * chunks but those of the leak have one call path. */
__attribute__((noinline)) static void churn(void) {
    static volatile size_t bytes = 100;
    for (long i = 0; bytes; i++) {
        kept = malloc(bytes);
        if (bytes > 100)
            break;
        free(kept);
        for (long k = 0; i == 100000 && k < 1000; k++) {
            kept = leak_here();
            bytes = 8 << 20;
            usleep(1000);
        }
    }
}

/* Waits 1 ms for a word on standard input and obeys it. */
static void obey(char **argv) {
    char word[64];
    struct pollfd input = {.fd = 0, .events = POLLIN};
    if (poll(&input, 1, 1) <= 0 || !fgets(word, sizeof word, stdin))
        return;
    if (!strcmp(word, "drop\n"))
        printf("drop %d\n", setuid(65534));
    if (!strcmp(word, "churn\n"))
        churn();
    for (long i = 0; !strcmp(word, "strings\n") && i < 2000000; i++) {
        kept = malloc(40);
        free(kept);
    }
    if (!strcmp(word, "again\n"))
        execv(argv[0], argv);
    if (!strncmp(word, "identify ", 9)) {
        word[strcspn(word, "\n")] = 0;
        memctx_set_identifier(named, word + 9);
    }
    if (!strcmp(word, "exit\n"))
        exit(7);
    if (!strcmp(word, "_exit\n"))
        _exit(8);
    while (!strcmp(word, "fast\n")) {
        kept = leak_here();
        usleep(50);
    }
    if (!strcmp(word, "fork\n")) {
        pid_t child = fork();
        if (child)
            printf("child %d\n", (int)child);
        while (!child) {
            kept = leak_here();
            usleep(1000);
        }
    }
}

int main(int argc, char **argv) {
    long most = argc > 1 ? atol(argv[1]) : 1000000;
    named = memctx_create(NULL, "sessions", MEMCTX_ASET);
    setvbuf(stdout, NULL, _IOLBF, 0);
    kept = keep_small();
    if (named)
        kept = memctx_alloc(named, 10);
    printf("ready %d\n", (int)getpid());
    for (long i = 0;; i++) {
        if (i < most)
            kept = leak_here();
        obey(argv);
    }
}
