/* SPDX-License-Identifier: MIT */
/* A function that stands in no symbol table: it is inlined wherever it is called. */
#ifndef STALL_H
#define STALL_H

#include <stdlib.h>

__attribute__((always_inline)) static inline char *stall_new(size_t bytes) {
    char *chunk = malloc(bytes);
    __asm__ volatile("" ::: "memory"); /* no sibling call: the function around it has a frame */
    return chunk;
}

#endif
