/* SPDX-License-Identifier: MIT */
/* Holds chunks of mallocx and rallocx until its standard input ends. */
#include "next_mallocx.h"

#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { COUNT = 100, SIZE = 3000 };
static void *chunks[4 * COUNT];

NOINLINE void holds_plain(void **at) {
    for (int i = 0; i < COUNT; i++)
        at[i] = mallocx(SIZE, 0);
}

NOINLINE void holds_zeroed(void **at) {
    for (int i = 0; i < COUNT; i++)
        at[i] = mallocx(SIZE, MALLOCX_ZERO);
}

NOINLINE void holds_aligned(void **at) {
    for (int i = 0; i < COUNT; i++)
        at[i] = mallocx(SIZE, MALLOCX_LG_ALIGN(8));
}

NOINLINE void holds_resized(void **at) {
    for (int i = 0; i < COUNT; i++)
        at[i] = rallocx(mallocx(10, 0), SIZE, 0);
}

int main(void) {
    holds_plain(chunks);
    holds_zeroed(chunks + COUNT);
    holds_aligned(chunks + 2 * COUNT);
    holds_resized(chunks + 3 * COUNT);
    puts("ready");
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
