/* SPDX-License-Identifier: MIT */
/* elsewhere.c - a function that rules name by its source file: elsewhere.c, not the caller's. */
#include "elsewhere.h"

#include <stdlib.h>

char *elsewhere_new(size_t bytes) {
    char *chunk = malloc(bytes);
    __asm__ volatile("" ::: "memory"); /* no tail call: the function needs a frame */
    return chunk;
}
