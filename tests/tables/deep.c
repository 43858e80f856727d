/* SPDX-License-Identifier: MIT */
/*
 * deep - a recursion that becomes deeper than any before, in a program whose functions are folded.
 *
 * Six functions call each other at random, so that the tables fill and recursive functions are
 * folded. Then one function calls itself, at most 600 deep, and each call allocates. Every level of
 * this recursion has the same folded path and the same change of the stack. The program ends with
 * status 0 and prints the number of its allocations.
 */
#include <stdio.h>
#include <stdlib.h>

#define FRAME __attribute__((noinline, noclone))

enum { KEPT = 4096, ROUNDS = 60000, DEEPEST = 600, TURNS = 200 };

static void *kept[KEPT];
static unsigned long made;

static void allocate(void) {
    void **place = &kept[made++ % KEPT];
    free(*place);
    *place = malloc(24);
}

typedef void walk_function(unsigned levels, unsigned random);
static walk_function walk_0, walk_1, walk_2, walk_3, walk_4, walk_5;
static walk_function *const walks[] = {walk_0, walk_1, walk_2, walk_3, walk_4, walk_5};
#define WALK(number)                                                                               \
    static FRAME void walk_##number(unsigned levels, unsigned random) {                            \
        allocate();                                                                                \
        random = random * 1103515245 + 12345;                                                      \
        if (levels)                                                                                \
            walks[(random >> 16) % 6](levels - 1, random);                                         \
        __asm__ volatile("# walk " #number);                                                       \
    }
WALK(0)
WALK(1)
WALK(2)
WALK(3)
WALK(4)
WALK(5)

static FRAME void descend(unsigned levels) {
    allocate();
    if (levels)
        descend(levels - 1);
    __asm__ volatile("# descend");
}

int main(void) {
    for (unsigned round = 0; round < ROUNDS; round++)
        walk_0(5 + round % 30, round * 7919);
    for (unsigned turn = 0; turn < TURNS; turn++) /* the first turns are not deep */
        descend(turn < TURNS / 2 ? 40 : DEEPEST * turn / TURNS);
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
    printf("%lu\n", made);
    return 0;
}
