/* SPDX-License-Identifier: MIT */
/*
 * lifetimes.c - three call paths whose chunks have different lifetimes, for MEMCTX_AUTO: chunks of
 * one size just above that of a block; chunks of many sizes, freed first in, first out, in a queue
 * that is long and short by turns; chunks of many sizes, freed at random. The program runs until it
 * can read a byte.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))
#define CHUNKS 20000

static NOINLINE char *padded(size_t bytes) {
    return memset(malloc(bytes), 1, bytes);
}
static NOINLINE char *queued(size_t bytes) {
    return memset(malloc(bytes), 2, bytes);
}
static NOINLINE char *random_one(size_t bytes) {
    return memset(malloc(bytes), 3, bytes);
}

static char *paddeds[CHUNKS], *queue[CHUNKS], *randoms[CHUNKS];

static unsigned next_number(unsigned below) {
    static unsigned state = 1;
    state = state * 1103515245 + 12345;
    return (state >> 12) % below;
}

static int is_done(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 2) > 0;
}

int main(void) {
    for (unsigned turn = 0;; turn++) {
        for (unsigned i = 0; i < CHUNKS; i++) {
            unsigned some = next_number(CHUNKS), other = next_number(CHUNKS);
            free(paddeds[other]);
            paddeds[other] = padded(1032);
            free(queue[i]);
            queue[i] = turn / 3 % 2 && i % 4 ? NULL : queued(400 + next_number(900));
            free(randoms[some]);
            randoms[some] = next_number(5) < 2 ? random_one(300 + next_number(900)) : NULL;
            if (i % 500 == 0 && is_done()) {
                return 0;
            }
        }
        if (turn == 0) {
            puts("begun");
            fflush(stdout);
        }
    }
}
