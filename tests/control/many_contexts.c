/* SPDX-License-Identifier: MIT */
/*
 * many_contexts.c - very many call paths. "many_contexts COUNT": eight functions that call each
 * other at random, 5 to 40 deep, make COUNT chunks, nearly each on a call path of its own. Each
 * chunk replaces a random one of 4 096. Prints "ready PID". For each line on stdin it makes a
 * thousand more and prints "made". The end of stdin ends it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT 4096

typedef void *(*step)(unsigned left);
static const step steps[8];
static unsigned state = 1;

static unsigned draw(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

#define STEP(number)                                                                               \
    __attribute__((noinline)) static void *step_##number(unsigned left) {                          \
        void *chunk = left ? steps[draw() % 8](left - 1) : malloc(16 + draw() % 48);               \
        __asm__ volatile("# step " #number : : : "memory");                                        \
        return chunk;                                                                              \
    }                                                                                              \
    static void *step_##number(unsigned left)
STEP(0);
STEP(1);
STEP(2);
STEP(3);
STEP(4);
STEP(5);
STEP(6);
STEP(7);

static const step steps[8] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7};

static void make(long count) {
    static void *kept[KEPT];
    for (long i = 0; i < count; i++) {
        void **place = &kept[draw() % KEPT];
        free(*place);
        *place = steps[draw() % 8](5 + draw() % 36);
    }
}

int main(int argc, char **argv) {
    char line[100];
    setvbuf(stdin, NULL, _IONBF, 0); /* so that stdio allocates nothing after the line "ready" */
    make(argc > 1 ? atol(argv[1]) : 1000);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        make(1000);
        puts("made");
        fflush(stdout);
    }
    return 0;
}
