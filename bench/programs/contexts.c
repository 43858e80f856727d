/* SPDX-License-Identifier: MIT */
/* A process with 10 000 contexts to dump: four levels of ten call sites each, one live chunk of its
 * own size at the end of each of the 10 000 paths. Says `ready`, then waits to be killed. */
#include "common.h"

#include <unistd.h>

enum { LEVELS = 4, SITES = 10 };

static void *chunks[10000];
static size_t chunk_count;

/* Each case is a call of its own, and so a return address of its own. */
static NOINLINE void descend(int level, const int *digits) {
    if (level == LEVELS) {
        size_t bytes = 16 + chunk_count % 200;

        chunks[chunk_count++] = check_chunk(malloc(bytes), bytes);
        return;
    }
#define CALL(n)                                                                                    \
    case n:                                                                                        \
        descend(level + 1, digits);                                                                \
        __asm__ volatile("nop # " #n);                                                             \
        break;
    switch (digits[level]) {
        CALL(0)
        CALL(1)
        CALL(2)
        CALL(3)
        CALL(4)
        CALL(5)
        CALL(6)
        CALL(7)
        CALL(8)
        CALL(9)
    }
}

int main(void) {
    for (int number = 0; number < 10000; number++) {
        int digits[LEVELS] = {number / 1000, number / 100 % 10, number / 10 % 10, number % 10};

        descend(0, digits);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
