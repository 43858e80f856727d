/* SPDX-License-Identifier: MIT */
/* rebuilt.c - allocates in two functions. With NEWER, another function moves them, and the first
 * one allocates more. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile keep;

#ifdef NEWER
#define FIRST_BYTES 1500
static __attribute__((noinline, noipa)) void added(void) {
    keep = malloc(300);
}
#else
#define FIRST_BYTES 1000
#endif

static __attribute__((noinline, noipa)) void first(void) {
    keep = malloc(FIRST_BYTES);
}

static __attribute__((noinline, noipa)) void second(void) {
    keep = malloc(2000);
}

int main(void) {
#ifdef NEWER
    added();
#endif
    first();
    second();
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
