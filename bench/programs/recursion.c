/* SPDX-License-Identifier: MIT */
/* Random mutual recursion: eight functions call each other at random, 6 to 41 calls deep. The
 * innermost call allocates one chunk, which replaces an older one, so that 2.6 MB stay alive.
 * Nearly every allocation has a new call path. Arguments: the number of allocations in millions
 * (3), and "all" for an allocation in each call instead of in the innermost one. */
#include "common.h"

#include <stdbool.h>

enum { CHUNKS = 1 << 15, CHUNK_MIN = 16, CHUNK_MAX = 144, LEVELS_MIN = 5, LEVELS_MAX = 40 };

static void *chunks[CHUNKS];
static uint64_t allocations_left;
static bool in_each_call;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void visit(unsigned function, unsigned levels);

static NOINLINE void allocate(uint64_t random) {
    void **place = &chunks[random % CHUNKS];
    size_t bytes = CHUNK_MIN + (random >> 20) % (CHUNK_MAX - CHUNK_MIN + 1);

    if (allocations_left == 0) {
        return;
    }
    allocations_left--;
    free(*place);
    *place = check_chunk(malloc(bytes), bytes);
}

/* Each function has a frame of its own size and two places where it calls the next one. */
#define FUNCTION(number, words)                                                                    \
    static NOINLINE void visit_##number(unsigned levels) {                                         \
        volatile uint64_t room[words];                                                             \
        uint64_t random = draw();                                                                  \
                                                                                                   \
        room[0] = random;                                                                          \
        if (in_each_call || levels == 0) {                                                         \
            allocate(random);                                                                      \
        }                                                                                          \
        if (levels > 0 && room[0] & 1) {                                                           \
            visit((unsigned)(random >> 40) % 8, levels - 1);                                       \
        } else if (levels > 0) {                                                                   \
            visit((unsigned)(random >> 50) % 8, levels - 1);                                       \
        }                                                                                          \
        room[words - 1] = levels;                                                                  \
    }
FUNCTION(0, 2)
FUNCTION(1, 4)
FUNCTION(2, 6)
FUNCTION(3, 8)
FUNCTION(4, 10)
FUNCTION(5, 3)
FUNCTION(6, 5)
FUNCTION(7, 12)

static void (*const functions[])(unsigned) = {visit_0, visit_1, visit_2, visit_3,
                                              visit_4, visit_5, visit_6, visit_7};

static __attribute__((always_inline)) inline void visit(unsigned function, unsigned levels) {
    functions[function](levels);
}

int main(int argc, char **argv) {
    uint64_t sum = 0;

    allocations_left = (argc > 1 ? strtoull(argv[1], NULL, 10) : 3) * 1000000;
    in_each_call = argc > 2 && strcmp(argv[2], "all") == 0;
    while (allocations_left > 0) {
        visit((unsigned)(draw() >> 30) % 8,
              LEVELS_MIN + (unsigned)(draw() >> 20) % (LEVELS_MAX - LEVELS_MIN + 1));
    }
    for (unsigned i = 0; i < CHUNKS; i++) {
        sum = mix(sum, chunks[i] != NULL);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
