/* SPDX-License-Identifier: MIT */
/*
 * chains - folded paths that are longer than the library keeps.
 *
 * Four functions call each other at random and allocate. A chain of 210 further functions leads to
 * them, which begins at its first function or at its 65th one. So there are paths of two lengths
 * with the same innermost frames, and the library keeps the same nodes for both. The program ends
 * with status 0.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../lib/repeat.h"

typedef long link(int left);
static link *const chain[];
static int at;
static unsigned state = 1;

static unsigned random_below(unsigned n) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
}

static long visit0(int left), visit1(int left), visit2(int left), visit3(int left);
static link *const visits[] = {visit0, visit1, visit2, visit3};
static long sum;
#define BODY(n)                                                                                    \
    __attribute__((noinline)) static long visit##n(int left) {                                     \
        for (int i = 0; i < 2; i++) {                                                              \
            void *chunk = malloc(24 + (size_t)left);                                               \
            sum += chunk != NULL;                                                                  \
            free(chunk);                                                                           \
            if (left > 0)                                                                          \
                sum += visits[random_below(4)](left - 1 - (int)random_below(3));                   \
        }                                                                                          \
        return sum + n;                                                                            \
    }
BODY(0)
BODY(1)
BODY(2)
BODY(3)

__attribute__((noinline)) static long go(int left) {
    long result = 0;
    for (int i = 0; i < 40; i++)
        result += visits[random_below(4)](7);
    return result + left;
}
#define LINK(n)                                                                                    \
    __attribute__((noinline)) static long link##n(int left) {                                      \
        link *next = chain[at++];                                                                  \
        return next(left) + n;                                                                     \
    }
/* clang-format formats this list in another way each time */
/* clang-format off */
#define ALL(X)                                                                                     \
    TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9)      \
    HUNDRED(X, 1) TEN(X, 20) TEN(X, 21)
/* clang-format on */
ALL(LINK)
#define ENTRY(n) link##n,
static link *const chain[] = {ALL(ENTRY) go};

int main(void) {
    long result = 0;
    for (int round = 0; round < 120; round++) {
        at = round % 2 ? 0 : 64;
        result += chain[at++](0);
    }
    printf("%ld\n", result & 1);
    return 0;
}
