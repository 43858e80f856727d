/* SPDX-License-Identifier: MIT */
/* frames.c - one allocation of 12345 bytes below two inlined functions. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile keep;

static inline __attribute__((always_inline)) void innermost(size_t bytes) {
    keep = malloc(bytes); /* MARK malloc */
}

static inline __attribute__((always_inline)) void middle(size_t bytes) {
    innermost(bytes + 1); /* MARK innermost */
}

static __attribute__((noinline, noipa)) void outer(size_t bytes) {
    middle(bytes + 4); /* MARK middle */
    keep = (char *)keep + 1;
}

int main(void) {
    outer(12340); /* MARK outer */
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
