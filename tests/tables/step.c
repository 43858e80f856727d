/* SPDX-License-Identifier: MIT */
/* The library of levels.c: one step of its recursion, which allocates after the deeper levels have
 * returned. */
#include <stdlib.h>

extern void *plug_step(void (*next)(void *, unsigned), void *walker, unsigned levels,
                       unsigned bytes);

__attribute__((noinline)) void *plug_step(void (*next)(void *, unsigned), void *walker,
                                          unsigned levels, unsigned bytes) {
    next(walker, levels);
    void *volatile chunk = malloc(bytes);
    return chunk;
}
