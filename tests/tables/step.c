/* SPDX-License-Identifier: MIT */
/* The library of levels.c: a step of its recursion, which allocates when it comes back. */
#include <stdlib.h>

extern void *plug_step(void (*next)(void *, unsigned), void *walker, unsigned levels,
                       unsigned bytes);

__attribute__((noinline)) void *plug_step(void (*next)(void *, unsigned), void *walker,
                                          unsigned levels, unsigned bytes) {
    next(walker, levels);
    void *volatile chunk = malloc(bytes);
    return chunk;
}
