/* SPDX-License-Identifier: MIT */
/* A million tiny contexts: six levels of ten call sites each, and at the end of each of the paths one
 * chunk of 100 bytes. Prints what these bytes are, and what became resident for them. */
#include "common.h"

#include <sys/mman.h>

enum { LEVELS = 6, SITES = 10, PATHS = 1000000, BYTES = 100 };

static unsigned char **chunks;
static size_t chunk_count;

/* Each case is a call of its own, and so a return address of its own. */
static NOINLINE void descend(int level, const int *digits) {
    if (level == LEVELS) {
        chunks[chunk_count] = check_chunk(malloc(BYTES), BYTES);
        tag_chunk(chunks[chunk_count++], BYTES, level);
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
    size_t table_bytes = PATHS * sizeof *chunks;

    chunks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunks == MAP_FAILED) {
        return 1;
    }
    memset(chunks, 0, table_bytes); /* resident before the first look */
    long before = resident_bytes();
    for (int number = 0; number < PATHS; number++) {
        int digits[LEVELS];

        for (int level = LEVELS, rest = number; level-- > 0; rest /= SITES) {
            digits[level] = rest % SITES;
        }
        descend(0, digits);
    }
    printf("live %d resident %ld\n", PATHS * BYTES, resident_bytes() - before);
    return 0;
}
