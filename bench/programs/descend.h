/* SPDX-License-Identifier: MIT */
/* Makes a call path for each number: LEVELS levels of ten call sites each. The program that
 * includes this file defines LEVELS, and at_the_end, which must be inlined to add no frame. */
#include "common.h"

enum { SITES = 10 };

/* Each case has a call, and so a return address, of its own. */
static NOINLINE void descend(int level, const int *digits) {
    if (level == LEVELS) {
        at_the_end();
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

/* Each decimal digit of a number chooses the call site on one level. */
static void descend_all(int paths) {
    for (int number = 0; number < paths; number++) {
        int digits[LEVELS];

        for (int level = LEVELS, rest = number; level-- > 0; rest /= SITES) {
            digits[level] = rest % SITES;
        }
        descend(0, digits);
    }
}
