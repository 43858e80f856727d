/* SPDX-License-Identifier: MIT */
/*
 * often - a recursion whose paths are seen often while there is no room for them in the tables.
 *
 * First, paths through four levels of 40 functions each fill the tables; a few calls of recur make
 * the library fold it. The chunks of the last phase are charged to sites: to the innermost two
 * functions, of which the outer one is recur, called from either of two places. The program ends
 * with status 0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME __attribute__((noinline, noclone))

enum { FUNCTIONS = 40, FILL = 14000, FOLD = 3000, LARGE = 14000, ROUNDS = 60000 };

static uint64_t state = 1;
static void *volatile last;
static unsigned calls;

static unsigned below(unsigned bound) {
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(state >> 33) % bound;
}

static FRAME long recur(unsigned levels) {
    long sum = 0;
    if (!levels)
        return 1;
    void *chunk = malloc(24);
    last = chunk;
    if (below(2)) {
        sum += recur(levels - 1);
        __asm__ volatile("# one place");
    } else {
        sum += recur(levels - 1) * 3;
        __asm__ volatile("# another place");
    }
    free(chunk);
    return sum;
}

/* Chunks that grow with all of them admit their paths (docs/paths.md), so the tables fill. */
static FRAME void end_of_path(void) {
    static double all = 3e6;
    if (calls < FOLD || !below(50))
        recur(6);
    last = malloc(1);
    if (++calls > FOLD && calls < LARGE) {
        double bytes = all / 800 + 1;
        last = malloc((size_t)bytes);
        all += bytes;
    }
    __asm__ volatile("# end");
}

#define ONE(level, next, number)                                                                   \
    static FRAME void level##number(void) {                                                        \
        next;                                                                                      \
        __asm__ volatile("# " #level #number);                                                     \
    }
#define TEN(level, next, tens)                                                                     \
    ONE(level, next, tens##0)                                                                      \
    ONE(level, next, tens##1)                                                                      \
    ONE(level, next, tens##2)                                                                      \
    ONE(level, next, tens##3)                                                                      \
    ONE(level, next, tens##4)                                                                      \
    ONE(level, next, tens##5)                                                                      \
    ONE(level, next, tens##6)                                                                      \
    ONE(level, next, tens##7)                                                                      \
    ONE(level, next, tens##8)                                                                      \
    ONE(level, next, tens##9)
#define TEN_NAMES(level, tens)                                                                     \
    level##tens##0, level##tens##1, level##tens##2, level##tens##3, level##tens##4,                \
        level##tens##5, level##tens##6, level##tens##7, level##tens##8, level##tens##9
#define LEVEL(level, next)                                                                         \
    TEN(level, next, 1)                                                                            \
    TEN(level, next, 2)                                                                            \
    TEN(level, next, 3)                                                                            \
    TEN(level, next, 4)                                                                            \
    static void (*const level##all[FUNCTIONS])(void) = {TEN_NAMES(level, 1), TEN_NAMES(level, 2),  \
                                                        TEN_NAMES(level, 3), TEN_NAMES(level, 4)};
LEVEL(d_, end_of_path())
LEVEL(c_, d_all[below(FUNCTIONS)]())
LEVEL(b_, c_all[below(FUNCTIONS)]())
LEVEL(a_, b_all[below(FUNCTIONS)]())

static FRAME void last_phase(void) {
    for (int i = 0; i < ROUNDS; i++) {
        recur(8);
        __asm__ volatile("# round");
    }
}

int main(void) {
    for (int i = 0; i < FILL; i++)
        a_all[below(FUNCTIONS)]();
    last_phase();
    puts("done");
    return 0;
}
