/* SPDX-License-Identifier: MIT */
/* The library that loads.c loads under many names. It has twenty sites and a recursion. */
#include <stdlib.h>

#define PLUG(number)                                                                               \
    static __attribute__((noinline, noclone)) void *plug_##number(void) {                          \
        return malloc(40 + number);                                                                \
    }
#define NAME(number) plug_##number,
#define EACH(M)                                                                                    \
    M(0)                                                                                           \
    M(1)                                                                                           \
    M(2)                                                                                           \
    M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15) M(16) M(17) M(18) M(19)

EACH(PLUG)

extern void *(*const plug_sites[])(void);
void *(*const plug_sites[])(void) = {EACH(NAME)};

/* Calls itself `levels` times, each time from one of two places, which a bit of `turns` chooses. */
extern void *plug_turn(unsigned levels, unsigned turns);
__attribute__((noinline, noclone)) void *plug_turn(unsigned levels, unsigned turns) {
    void *volatile chunk;
    if (!levels)
        chunk = malloc(40);
    else if (turns & 1)
        chunk = plug_turn(levels - 1, turns >> 1);
    else
        chunk = plug_turn(levels - 1, turns >> 1);
    return chunk;
}
