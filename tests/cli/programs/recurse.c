/* SPDX-License-Identifier: MIT */
/*
 * recurse.c - three functions that call each other at random: many call paths, few functions.
 *
 * Prints "ready" after 60 000 visits. For each line of its input it makes 3000 more and prints
 * "ok". The visits free seven of eight chunks. The chunks of keep() have one call path and are
 * never freed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 60000
#define DEPTH_MAX 14

static uint64_t state = 88172645463325252ULL;

static unsigned draw(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 33) % below);
}

static void visit(int depth);

__attribute__((noinline)) static void leaf(void) {
    void *volatile chunk = malloc(24 + draw(64));
    if (draw(8) != 0) {
        free(chunk);
    }
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void visit_call(int depth) {
    if (depth == 0) {
        leaf();
    } else {
        visit(depth - 1);
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void generic_visit(int depth) {
    if (depth == 0) {
        leaf();
    } else if (draw(2) != 0) {
        visit_call(depth - 1);
    } else {
        visit(depth - 1);
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void visit(int depth) {
    if (depth == 0) {
        leaf();
    } else if (draw(2) != 0) {
        generic_visit(depth - 1);
    } else {
        visit_call(depth - 1);
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void keep(void) {
    for (int i = 0; i < 1000; i++) {
        __asm__ volatile("" ::"r"(malloc(1000)));
    }
    __asm__ volatile("");
}

__attribute__((noinline)) static void grow(void) {
    for (int i = 0; i < 3000; i++) {
        visit((int)draw(DEPTH_MAX));
    }
    __asm__ volatile("");
}

static void answer(const char *line) {
    if (write(1, line, strlen(line)) < 0) {
        exit(1);
    }
}

int main(void) {
    char byte;
    keep();
    for (int i = 0; i < ROUNDS; i++) {
        visit((int)draw(DEPTH_MAX));
    }
    answer("ready\n");
    while (read(0, &byte, 1) > 0) {
        if (byte == '\n') {
            grow();
            answer("ok\n");
        }
    }
    return 0;
}
