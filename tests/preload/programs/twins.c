/* SPDX-License-Identifier: MIT */
/*
 * twins - recursions in which a function calls itself from several places.
 *
 * The calls in grow are alike for a walk of the stack. One of the calls in grow_odd passes more
 * arguments than registers hold, so the stack pointer is another one there. The functions return in
 * the middle of their code, too. keep is called from several places of grow, and the recursion has
 * two callers: these frames stay on the folded path. Usage: twins TREES LEVELS. The program ends
 * with status 0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAME __attribute__((noinline, noclone))

enum { KEPT = 1024 };

static void *kept[KEPT];
static uint64_t state = 1;
static unsigned long made;

static unsigned below(unsigned bound) {
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(state >> 33) % bound;
}

static FRAME void keep(unsigned bytes) {
    void **place = &kept[below(KEPT)];
    free(*place);
    *place = malloc(bytes);
    made++;
    __asm__ volatile("# keep");
}

static unsigned long grow(unsigned levels, unsigned random);

/* Two of the arguments stand on the stack of the caller. */
static FRAME unsigned long grow_wide(unsigned levels, unsigned random, long c, long d, long e,
                                     long f, long g, long h) {
    unsigned long sum = grow(levels, random) + (unsigned long)(c + d + e + f + g + h);
    __asm__ volatile("# wide");
    return sum;
}

static FRAME unsigned long grow_odd(unsigned levels, unsigned random) {
    unsigned long sum = grow(levels, random);
    if (below(2)) {
        sum += grow_wide(levels, random, 1, 2, 3, 4, (long)sum, (long)random);
        __asm__ volatile("# odd");
    }
    keep(32);
    return sum + grow(levels, random / 2);
}

static FRAME unsigned long grow(unsigned levels, unsigned random) {
    unsigned long sum = 0;
    if (!levels)
        return random;
    keep(16);
    sum += grow(levels - 1, random * 3);
    __asm__ volatile("# first");
    if (!below(20))
        return sum;
    sum += grow(levels - 1, random * 5 + 1);
    __asm__ volatile("# second");
    if (!below(2000))
        sum += grow_odd(levels - 1, random);
    if (!below(7)) {
        keep(48);
        return sum + grow(levels / 2, random / 7);
    }
    keep(80);
    __asm__ volatile("# third");
    return sum;
}

static FRAME unsigned long left(unsigned levels, unsigned random) {
    unsigned long sum = grow(levels, random);
    __asm__ volatile("# left");
    return sum;
}

static FRAME unsigned long right(unsigned levels, unsigned random) {
    unsigned long sum = grow(levels, random);
    __asm__ volatile("# right");
    return sum;
}

int main(int argc, char **argv) {
    unsigned long sum = 0;
    if (argc != 3)
        return 2;
    for (int tree = 0; tree < atoi(argv[1]); tree++)
        sum += (below(2) ? left : right)((unsigned)atoi(argv[2]), (unsigned)tree);
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    printf("%lu %lu\n", made, sum);
    return 0;
}
